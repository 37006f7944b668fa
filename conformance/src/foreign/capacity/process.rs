//! The process of a reconciler.

use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use futures::future::BoxFuture;
use rustix::process::{Pid, Signal, kill_process};
use sim::ListenOptions;
use tokio::process::Child;

use super::super::command::Surroundings;
use super::super::host::launch::Launcher;
use super::super::manifest::template::{Values, expand};
use super::manifest::Manifest;
use crate::lab::capacity::{Configuration, Management, NotStarted, Reconciler, Running};

/// Maximum time from SIGTERM to the end of a process.
const GRACE: Duration = Duration::from_secs(10);

/// Program of a reconciler. Dropping it removes the folder with its files.
pub(super) struct Program {
    command: Vec<String>,
    env: Vec<(String, String)>,
    launcher: Launcher,
    values: Values,
    folder: tempfile::TempDir,
    inherited: Vec<(String, String)>,
}

struct RunningProcess {
    child: Child,
}

impl Program {
    /// Prepares the program of a manifest.
    ///
    /// # Errors
    /// If the folder or the launcher cannot be made.
    pub(super) fn new(manifest: &Manifest, surroundings: &Surroundings) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("conformance-")
            .tempdir_in(&surroundings.temporary)
            .context("cannot create a folder for the files of the reconciler; check TMPDIR")?;
        let mut values: Values = surroundings
            .variables
            .iter()
            .map(|(name, value)| (format!("env.{name}"), value.clone()))
            .collect();
        for (name, path) in [
            ("dir", folder.path()),
            ("manifest.dir", manifest.folder.as_path()),
            ("conformance", surroundings.launcher.as_path()),
        ] {
            values.insert(name.to_owned(), path.display().to_string());
        }
        let inherited = surroundings.variables.iter();
        let inherited = inherited.filter(|it| ["PATH", "HOME", "TMPDIR"].contains(&it.0.as_str()));
        let process = &manifest.spec.run.process;
        let env = process.env.iter().map(|(name, it)| (name.clone(), it.clone())).collect();
        Ok(Self {
            command: process.command.clone(),
            env,
            launcher: Launcher::new(surroundings.launcher.clone())?,
            values,
            inherited: inherited.map(|(name, value)| (name.clone(), value.clone())).collect(),
            folder,
        })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the last lines that the last process has written.
    pub(super) fn log(&self, n: usize) -> Vec<String> {
        let bytes = std::fs::read(self.file("log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines[lines.len().saturating_sub(n)..].to_vec()
    }

    async fn spawn(&self, management: &Management) -> anyhow::Result<RunningProcess> {
        let client = Management::reconciler_label().to_owned();
        let options = ListenOptions { client, ..ListenOptions::default() };
        let endpoints = management.sim().listen(options).await?;
        let mut values = self.values.clone();
        for (name, content) in [
            ("kubeconfig", endpoints.kubeconfig()),
            ("ca", endpoints.ca_pem().unwrap_or_default().to_owned()),
        ] {
            let path = self.file(name);
            std::fs::write(&path, content)
                .with_context(|| format!("cannot write {}", path.display()))?;
            values.insert(name.to_owned(), path.display().to_string());
        }
        let expanded = |text: &String| {
            expand(text, &values).map_err(|name| anyhow::anyhow!("$({name}) has no value; set it"))
        };
        let arguments: Vec<String> = self.command.iter().map(expanded).collect::<Result<_, _>>()?;
        let (program, arguments) = arguments.split_first().context("the command is empty")?;
        let mut command = self.launcher.command(program);
        command.args(arguments).current_dir(self.folder.path()).env_clear();
        command.envs(self.inherited.iter().map(|(name, value)| (name, value)));
        for (name, value) in &self.env {
            command.env(name, expanded(value)?);
        }
        let log = File::create(self.file("log")).context("cannot create the log")?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
        Ok(RunningProcess { child: self.launcher.spawn(command).await? })
    }
}

impl Reconciler for Program {
    fn start<'a>(
        &'a self,
        management: &'a Management,
        configuration: &'a Configuration,
    ) -> BoxFuture<'a, Result<Box<dyn Running>, NotStarted>> {
        Box::pin(async move {
            if *configuration != Configuration::Defaults {
                let why = "a manifest has no way to give a reconciler another configuration";
                return Err(NotStarted::NotSupported(why.to_owned()));
            }
            let spawned = self.spawn(management).await;
            let running = spawned.map_err(|err| NotStarted::Failed(format!("{err:#}")))?;
            Ok(Box::new(running) as Box<dyn Running>)
        })
    }
}

impl Running for RunningProcess {
    fn stop(mut self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
            if let Some(id) = id {
                // A process that has ended already needs no signal.
                let _ = kill_process(id, Signal::TERM);
            }
            if tokio::time::timeout(GRACE, self.child.wait()).await.is_err() {
                let _ = self.child.kill().await;
            }
        })
    }

    fn end(&mut self) -> Option<String> {
        match self.child.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(status.to_string()),
            Err(err) => Some(format!("its state is unknown: {err}")),
        }
    }
}
