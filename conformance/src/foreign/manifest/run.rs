//! `spec.run`: the program, container or pod of a provider, and its validation.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;
use sim::document::Wrong;

use crate::foreign::template;

/// The driver; exactly one must be given.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(super) struct Run {
    process: Option<Process>,
    container: Option<Container>,
    cluster: Option<Container>,
    grpc: Option<Value>,
    in_process: Option<Value>,
}

/// A program on this machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Process {
    /// The program and its arguments; `$(knobs)` stands for the arguments of all knobs that are set.
    pub command: Vec<String>,
    /// Environment variables, in addition to `PATH`, `HOME` and `TMPDIR`.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Mounts for a program with fixed paths: the path for the program, and the file or directory that is mounted there.
    #[serde(default)]
    pub binds: BTreeMap<PathBuf, String>,
    /// Host names for the program, with their addresses.
    #[serde(default)]
    pub hosts: BTreeMap<String, IpAddr>,
}

impl Process {
    /// True if the program needs a mount namespace of its own.
    pub fn is_mounted(&self) -> bool {
        !self.binds.is_empty() || !self.hosts.is_empty()
    }
}

/// A container of the Docker engine with this machine's network, or a pod of a cluster. The files of its run are at the same
/// paths as on this machine, so that placeholders hold.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Container {
    /// Image, which the engine must have or the nodes of the cluster can pull.
    pub image: String,
    /// Arguments of the entry point; `$(knobs)` stands for the arguments of all knobs that are set.
    #[serde(default)]
    pub args: Vec<String>,
    /// Entry point; default is that of the image.
    #[serde(default)]
    pub entrypoint: Option<String>,
    /// User, in the form of `docker run --user`; default is that of the image.
    #[serde(default)]
    pub user: Option<String>,
    /// Environment variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Mounts for a program with fixed paths: the path for the program, and the file or directory that is mounted there.
    #[serde(default)]
    pub binds: BTreeMap<PathBuf, String>,
    /// Host names for the program, with their addresses.
    #[serde(default)]
    pub hosts: BTreeMap<String, IpAddr>,
    /// For a cluster: path of its kubeconfig.
    #[serde(default)]
    pub kubeconfig: Option<String>,
    /// For a cluster: context of the kubeconfig.
    #[serde(default)]
    pub context: Option<String>,
    /// For a cluster: namespace of the pods.
    #[serde(default)]
    pub namespace: Option<String>,
    /// For a cluster: address of this machine for its pods.
    #[serde(default)]
    pub address: Option<String>,
}

impl Container {
    /// Returns the options that select the cluster, by key. They may contain the placeholders [`PLACE`] and environment
    /// variables.
    pub(super) fn place(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let Self { kubeconfig, context, namespace, address, .. } = self;
        let all = [
            ("kubeconfig", kubeconfig),
            ("context", context),
            ("namespace", namespace),
            ("address", address),
        ];
        all.into_iter().filter_map(|(key, value)| Some((key, value.as_deref()?)))
    }
}

/// Placeholders with a value before anything is started, in addition to environment variables.
pub(super) const PLACE: [&str; 1] = ["manifest.dir"];

/// Driver that starts a provider.
#[derive(Clone, Copy, Debug)]
pub enum Driver<'a> {
    /// A program on this machine.
    Process(&'a Process),
    /// A container of the Docker engine.
    Container(&'a Container),
    /// A pod of a cluster.
    Cluster(&'a Container),
}

impl<'a> Driver<'a> {
    /// Returns the key below `spec.run`, which is also the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Process(_) => "process",
            Self::Container(_) => "container",
            Self::Cluster(_) => "cluster",
        }
    }

    /// Returns the program or image, for errors.
    pub fn program(self) -> &'a str {
        match self {
            Self::Process(it) => &it.command[0],
            Self::Container(it) | Self::Cluster(it) => &it.image,
        }
    }

    /// Returns the key of the arguments and the arguments; those of a process begin with the program.
    pub fn arguments(self) -> (&'static str, &'a [String]) {
        match self {
            Self::Process(it) => ("command", &it.command),
            Self::Container(it) | Self::Cluster(it) => ("args", &it.args),
        }
    }

    /// Returns the environment variables.
    pub fn env(self) -> &'a BTreeMap<String, String> {
        match self {
            Self::Process(it) => &it.env,
            Self::Container(it) | Self::Cluster(it) => &it.env,
        }
    }

    /// Returns the mounts.
    pub fn binds(self) -> &'a BTreeMap<PathBuf, String> {
        match self {
            Self::Process(it) => &it.binds,
            Self::Container(it) | Self::Cluster(it) => &it.binds,
        }
    }

    /// Returns the options that select the cluster, by key.
    pub(super) fn place(self) -> impl Iterator<Item = (&'static str, &'a str)> {
        let cluster = match self {
            Self::Cluster(it) => Some(it),
            Self::Process(_) | Self::Container(_) => None,
        };
        cluster.into_iter().flat_map(Container::place)
    }

    /// Returns all texts that may contain placeholders.
    pub(super) fn texts(self) -> impl Iterator<Item = &'a str> {
        let (_, arguments) = self.arguments();
        let texts = arguments.iter().chain(self.env().values()).chain(self.binds().values());
        texts.map(String::as_str).chain(self.place().map(|(_, text)| text))
    }
}

impl Run {
    /// Returns the given driver.
    ///
    /// # Errors
    /// Fails if none or several are given, or one that is not supported.
    pub(super) fn driver(&self) -> Result<Driver<'_>, Wrong> {
        let Self { process, container, cluster, grpc, in_process } = self;
        let drivers = [
            process.as_ref().map(Driver::Process),
            container.as_ref().map(Driver::Container),
            cluster.as_ref().map(Driver::Cluster),
        ];
        let unbuilt = [("grpc", grpc.is_some()), ("inProcess", in_process.is_some())];
        let unbuilt = unbuilt.into_iter().filter_map(|(name, is_given)| is_given.then_some(name));
        let given: Vec<&str> =
            drivers.iter().flatten().map(|it| it.name()).chain(unbuilt).collect();
        match (drivers.into_iter().flatten().next(), given.as_slice()) {
            (Some(driver), [_]) => Ok(driver),
            (None, [other]) => Err(Wrong {
                key: format!("spec.run.{other}"),
                value: String::new(),
                problem: format!("not supported yet: {other}"),
                remedy: "run it as a process, in a container, or in a cluster".to_owned(),
            }),
            _ => {
                let problem =
                    "exactly one of process, container, cluster, grpc and inProcess is needed";
                let remedy = "write process: {command: […]}";
                Err(Wrong::at("spec.run", &Value::from(given), problem, remedy))
            }
        }
    }
}

impl Driver<'_> {
    /// Checks the fields that do not depend on the values of placeholders.
    pub(super) fn check(self) -> Result<(), Wrong> {
        match self {
            Self::Process(it) if it.command.is_empty() => {
                let remedy = "write the program and its arguments";
                let value = Value::from(it.command.clone());
                return Err(Wrong::at(&self.key("command"), &value, "names no program", remedy));
            }
            Self::Process(_) => {}
            Self::Container(it) => {
                self.check_image(it)?;
                if let Some((key, value)) = it.place().next() {
                    let remedy = "remove it, or write cluster: in place of container:";
                    return Err(self.wrong(key, value, "is a key of cluster", remedy));
                }
            }
            Self::Cluster(it) => {
                self.check_image(it)?;
                if let Some(user) = it.user.as_deref().filter(|it| user(it).is_none()) {
                    let remedy = "write a number, or two as in \"1000:1000\"";
                    return Err(self.wrong("user", user, "is no user of a pod", remedy));
                }
                let known = it.address.as_deref().filter(|it| template::names(it).is_empty());
                known.map_or(Ok(()), |address| self::address(address).map(drop))?;
            }
        }
        if let Some(path) = self.binds().keys().find(|path| !path.is_absolute()) {
            let remedy = "write the path as the program sees it, from / on";
            let path = path.display().to_string();
            return Err(self.wrong("binds", &path, "is no absolute path", remedy));
        }
        Ok(())
    }

    fn check_image(self, it: &Container) -> Result<(), Wrong> {
        // An image that begins with a dash would be an option of docker.
        if it.image.is_empty() || it.image.starts_with('-') {
            let remedy = "write it as docker run takes it: name:tag or name@sha256:…";
            return Err(self.wrong("image", &it.image, "names no image", remedy));
        }
        Ok(())
    }

    fn key(self, part: &str) -> String {
        format!("spec.run.{}.{part}", self.name())
    }

    fn wrong(self, key: &str, value: &str, problem: &str, remedy: &str) -> Wrong {
        Wrong::at(&self.key(key), &Value::from(value), problem, remedy)
    }
}

/// Parses `1000` or `1000:1000` as user and group. Names are rejected, because only the image can resolve them.
pub(crate) fn user(text: &str) -> Option<(u32, Option<u32>)> {
    match text.split_once(':') {
        None => Some((text.parse().ok()?, None)),
        Some((user, group)) => Some((user.parse().ok()?, Some(group.parse().ok()?))),
    }
}

/// Parses the address of this machine for pods.
///
/// # Errors
/// Fails for text that is not an address, and for one that means the pod itself.
pub(crate) fn address(text: &str) -> Result<IpAddr, Wrong> {
    let wrong = |problem| {
        let key = "spec.run.cluster.address";
        let remedy = "write an address of this machine that pods reach (for kind the gateway of its network), or leave it out";
        Wrong::at(key, &Value::from(text), problem, remedy)
    };
    match text.parse::<IpAddr>() {
        Err(_) => Err(wrong("is no IP address")),
        Ok(it) if it.is_loopback() || it.is_unspecified() => {
            Err(wrong("means the pod itself there"))
        }
        Ok(it) => Ok(it),
    }
}
