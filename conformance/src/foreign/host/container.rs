//! Runs a provider in a container of the Docker engine. The container uses the network of this
//! computer and has the files of its run at the same paths as on this computer.
//!
//! The client process on this computer is `docker run`, which passes on the container's output and
//! ends with the container. Signals go to the container. This program removes the container when
//! the replica ends, also after an error or an interruption. If this program is killed, the
//! container stays until the next `conformance` process that uses this Docker engine finds it by
//! its labels and removes it. That process must run in the same boot and PID namespace.

use std::collections::BTreeMap;
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::process::Command;

use super::launch::Launcher;
use super::remote::{self, LABEL, Start, WHERE};

/// Environment variables that configure `docker`.
pub(in crate::foreign) const VARIABLES: [&str; 5] =
    ["DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"];

/// The Docker engine that `docker` reaches.
#[derive(Clone, Debug)]
pub(in crate::foreign) struct Engine {
    variables: BTreeMap<String, String>,
    /// Labels of the containers that this program starts.
    labels: BTreeMap<&'static str, String>,
}

/// A container that runs or is about to run, identified by its name.
#[derive(Clone, Debug)]
pub(in crate::foreign) struct Running {
    engine: Engine,
    name: String,
}

impl Engine {
    /// Returns the engine that these environment variables select; `docker` gets no other
    /// variables.
    pub(in crate::foreign) fn new(variables: BTreeMap<String, String>) -> anyhow::Result<Self> {
        Ok(Self { variables, labels: remote::labels()? })
    }

    fn command(&self) -> Command {
        let mut command = Command::new("docker");
        command.env_clear().envs(&self.variables).stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    async fn call(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        let mut command = self.command();
        command.args(arguments);
        command.output().await.context("cannot start docker; install docker in a folder of PATH")
    }

    /// Checks that the engine answers and has this image. Removes the containers that `conformance`
    /// processes of this boot and PID namespace have left.
    ///
    /// # Errors
    /// Fails if `docker` cannot be started, or if the engine does not answer or lacks the image;
    /// the error contains a remedy.
    pub(in crate::foreign) async fn ready(&self, image: &str) -> anyhow::Result<()> {
        let info = self.call(&["info", "--format", "{{.ServerVersion}}"]).await?;
        if !info.status.success() {
            let why = String::from_utf8_lossy(&info.stderr);
            bail!(
                "no Docker engine answers this user ({}); start one, or give this user access to \
                 the socket of the engine",
                why.trim()
            );
        }
        self.sweep().await?;
        let inspected = self.call(&["image", "inspect", image]).await?;
        if !inspected.status.success() {
            let why = String::from_utf8_lossy(&inspected.stderr);
            bail!(
                "spec.run.container.image: {image:?}: the Docker engine does not have this image ({}); pull it with docker pull, or build it",
                why.trim()
            );
        }
        Ok(())
    }

    /// Removes the containers of those `conformance` processes of this boot and PID namespace that
    /// no longer run.
    async fn sweep(&self) -> anyhow::Result<()> {
        let format = format!("{{{{.ID}}}} {{{{.Label {LABEL:?}}}}}");
        let here = format!("label={WHERE}={}", self.labels[WHERE]);
        let found = self.call(&["ps", "-a", "--filter", &here, "--format", &format]).await?;
        let text = String::from_utf8_lossy(&found.stdout).into_owned();
        let mut orphans = vec!["rm", "-f", "-v"];
        orphans.extend(text.lines().filter_map(|line| {
            let (id, owner) = line.split_once(' ')?;
            remote::is_gone(owner).then_some(id)
        }));
        if orphans.len() > 3 {
            self.call(&orphans).await?;
        }
        Ok(())
    }

    /// Returns the command `docker run …` and the container that it will start.
    pub(in crate::foreign) fn run(
        &self,
        launcher: &Launcher,
        start: &Start<'_>,
    ) -> (Command, Running) {
        let Start { container, directory, arguments, env, binds, .. } = start;
        let name = start.full_name();
        let mut command = launcher.command("docker");
        command.args(["run", "--rm", "--pull", "never", "--network", "host", "--name", &name]);
        for (key, value) in &self.labels {
            command.args(["--label", &format!("{key}={value}")]);
        }
        // A signal to `docker run` may come before the container exists, so signals are sent to the
        // container itself.
        command.arg("--sig-proxy=false");
        let same = directory.display();
        command.args(["--volume", &format!("{same}:{same}"), "--workdir", &same.to_string()]);
        for (inside, outside) in binds {
            let bind = format!("{}:{}", outside.display(), inside.display());
            command.args(["--volume", &bind]);
        }
        for (host, address) in &container.hosts {
            command.args(["--add-host", &format!("{host}:{address}")]);
        }
        for (key, value) in env {
            command.args(["--env", &format!("{key}={value}")]);
        }
        if let Some(user) = &container.user {
            command.args(["--user", user]);
        }
        if let Some(entrypoint) = &container.entrypoint {
            command.args(["--entrypoint", entrypoint]);
        }
        command.arg(&container.image).args(arguments);
        command.env_clear().envs(&self.variables);
        (command, Running { engine: self.clone(), name })
    }
}

impl Running {
    /// Waits until the container exists and returns its ID. Returns `None` if the container does not
    /// exist after 10 s.
    ///
    /// Cancel safe.
    pub(in crate::foreign) async fn id(&self) -> Option<String> {
        for _ in 0..50 {
            let asked = self.engine.call(&["inspect", "--format", "{{.Id}}", &self.name]).await;
            if let Ok(found) = asked
                && found.status.success()
            {
                return Some(String::from_utf8_lossy(&found.stdout).trim().to_owned());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        None
    }

    /// Sends SIGTERM to the container.
    pub(in crate::foreign) async fn terminate(&self) {
        // Ignores an error: the container may have ended already, and then `docker run` ends too.
        let _ = self.engine.call(&["kill", "--signal", "TERM", &self.name]).await;
    }

    /// Kills the container if it still runs, and removes it.
    pub(in crate::foreign) async fn remove(&self) {
        // Ignores an error: the container may be gone already. Otherwise the next `conformance`
        // process finds it by its labels.
        let _ = self.engine.call(&["rm", "-f", "-v", &self.name]).await;
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::path::Path;

    use super::*;
    use crate::foreign::manifest::Container;
    use crate::foreign::process_identity;

    #[test]
    fn a_container_has_files_at_the_paths_of_a_process_and_a_label_of_its_driver() {
        let container = Container {
            image: "registry.example/mine:1".to_owned(),
            entrypoint: Some("/mine".to_owned()),
            user: Some("0:0".to_owned()),
            hosts: [("vcenter.example".to_owned(), [127, 0, 0, 1].into())].into(),
            ..Container::default()
        };
        let start = Start {
            container: &container,
            directory: Path::new("/tmp/run"),
            replica: Path::new("/tmp/run/replica-0"),
            name: "NODE-004-0-0".to_owned(),
            arguments: vec!["--kubeconfig=/tmp/run/kubeconfig".to_owned()],
            env: vec![("A".to_owned(), "b".to_owned())],
            binds: vec![("/etc/mine".into(), "/tmp/run/x".into())],
        };
        let variables = BTreeMap::from([("DOCKER_HOST".to_owned(), "unix:///x".to_owned())]);
        let launcher = Launcher::new("conformance".into()).unwrap();
        let (command, running) = Engine::new(variables).unwrap().run(&launcher, &start);
        let arguments: Vec<&str> = command
            .as_std()
            .get_args()
            .filter_map(OsStr::to_str)
            .skip_while(|it| *it != "docker")
            .collect();
        let owner = format!("conformance-{}", std::process::id());
        assert_eq!(running.name, format!("{owner}-node-004-0-0"));
        let label = format!("io.vsphere-lab.driver={owner}");
        let place = format!(
            "io.vsphere-lab.driver/where={}",
            process_identity::boot_and_namespace().unwrap()
        );
        assert_eq!(
            arguments,
            [
                "docker",
                "run",
                "--rm",
                "--pull",
                "never",
                "--network",
                "host",
                "--name",
                &running.name,
                "--label",
                &label,
                "--label",
                &place,
                "--sig-proxy=false",
                "--volume",
                "/tmp/run:/tmp/run",
                "--workdir",
                "/tmp/run",
                "--volume",
                "/tmp/run/x:/etc/mine",
                "--add-host",
                "vcenter.example:127.0.0.1",
                "--env",
                "A=b",
                "--user",
                "0:0",
                "--entrypoint",
                "/mine",
                "registry.example/mine:1",
                "--kubeconfig=/tmp/run/kubeconfig",
            ]
        );
        let host = command.as_std().get_envs().find(|(name, _)| *name == "DOCKER_HOST");
        assert_eq!(host.and_then(|(_, value)| value), Some(OsStr::new("unix:///x")));
    }
}
