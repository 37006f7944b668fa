//! `spec.run`: the program, container or pod of a provider, and its validation.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;
use sim::document::DocumentError;

use crate::foreign::manifest::template;

/// Content of `spec.run`: the possible drivers, of which a manifest must contain exactly one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
#[serde(rename = "Run")]
pub(super) struct RunSection {
    process: Option<Process>,
    container: Option<Container>,
    cluster: Option<Container>,
    grpc: Option<Value>,
    in_process: Option<Value>,
}

/// A program on this computer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Process {
    /// The program and its arguments; `$(knobs)` stands for the arguments of all knobs that are
    /// set.
    pub command: Vec<String>,
    /// Environment variables, in addition to `PATH`, `HOME` and `TMPDIR`.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Mounts for a program with fixed paths. The key is the path that the program sees, the value
    /// is the file or directory of this computer that is mounted there.
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

/// A container of the Docker engine with the network of this computer, or a pod of a cluster.
/// Inside, the files of a run have the same paths as on this computer, so that placeholders mean
/// the same there.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Container {
    /// Image. The Docker engine must have it already; the nodes of a cluster may also pull it.
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
    /// Mounts for a program with fixed paths. The key is the path that the program sees, the value
    /// is the file or directory of this computer that is mounted there.
    #[serde(default)]
    pub binds: BTreeMap<PathBuf, String>,
    /// Host names for the program, with their addresses.
    #[serde(default)]
    pub hosts: BTreeMap<String, IpAddr>,
    /// For a cluster: path of its kubeconfig; default is that of `kubectl`.
    #[serde(default)]
    pub kubeconfig: Option<String>,
    /// For a cluster: context of the kubeconfig; default is its current context.
    #[serde(default)]
    pub context: Option<String>,
    /// For a cluster: namespace of the pods; default is that of the context.
    #[serde(default)]
    pub namespace: Option<String>,
    /// For a cluster: address at which its pods reach this computer; default is the source address
    /// of this computer's route to the cluster's nodes.
    #[serde(default)]
    pub address: Option<String>,
}

impl Container {
    /// Returns the options that select the cluster, by key. Their values may contain the
    /// placeholders [`PLACE`] and those of environment variables.
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

/// Placeholders that the options of a cluster may contain, in addition to those of environment
/// variables. They have a value before a run begins.
pub(super) const PLACE: [&str; 1] = ["manifest.dir"];

/// Driver that starts a provider.
#[derive(Clone, Copy, Debug)]
pub enum Driver<'a> {
    /// A program on this computer.
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

    /// Returns the program or image as the manifest has it, with unexpanded placeholders.
    pub fn program(self) -> &'a str {
        match self {
            Self::Process(it) => &it.command[0],
            Self::Container(it) | Self::Cluster(it) => &it.image,
        }
    }

    /// Returns the key of the arguments and the arguments; those of a process begin with the
    /// program.
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

    /// Returns the mounts: the path that the provider sees, and the path on this computer.
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

impl RunSection {
    /// Returns the driver in the manifest.
    ///
    /// # Errors
    /// Fails if the manifest contains no driver, several drivers, or a driver that is not
    /// supported.
    pub(super) fn driver(&self) -> Result<Driver<'_>, DocumentError> {
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
            (None, [other]) => Err(DocumentError {
                key: format!("spec.run.{other}"),
                value: String::new(),
                problem: format!("not supported yet: {other}"),
                remedy: "run it as a process, in a container, or in a cluster".to_owned(),
            }),
            _ => {
                let problem = "exactly one of process, container and cluster is needed";
                let remedy = "write process: {command: […]}";
                Err(DocumentError::at_key("spec.run", &Value::from(given), problem, remedy))
            }
        }
    }
}

impl Driver<'_> {
    /// Checks the fields that do not depend on the values of placeholders.
    pub(super) fn check(self) -> Result<(), DocumentError> {
        match self {
            Self::Process(it) if it.command.is_empty() => {
                let remedy = "write the program and its arguments";
                let value = Value::from(it.command.clone());
                return Err(DocumentError::at_key(
                    &self.key("command"),
                    &value,
                    "has no program",
                    remedy,
                ));
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
                    let remedy = "write a number, or two numbers as in \"1000:1000\"";
                    return Err(self.wrong("user", user, "is not a valid user of a pod", remedy));
                }
                let known = it.address.as_deref().filter(|it| template::names(it).is_empty());
                known.map_or(Ok(()), |address| self::address(address).map(drop))?;
            }
        }
        if let Some(path) = self.binds().keys().find(|path| !path.is_absolute()) {
            let remedy = "write the absolute path that the program sees";
            let path = path.display().to_string();
            return Err(self.wrong("binds", &path, "is not an absolute path", remedy));
        }
        Ok(())
    }

    fn check_image(self, it: &Container) -> Result<(), DocumentError> {
        // Docker would read an image that begins with a dash as an option.
        if it.image.is_empty() || it.image.starts_with('-') {
            let remedy = "write it as docker run expects it: name:tag or name@sha256:…";
            return Err(self.wrong("image", &it.image, "is not the name of an image", remedy));
        }
        Ok(())
    }

    fn key(self, part: &str) -> String {
        format!("spec.run.{}.{part}", self.name())
    }

    fn wrong(self, key: &str, value: &str, problem: &str, remedy: &str) -> DocumentError {
        DocumentError::at_key(&self.key(key), &Value::from(value), problem, remedy)
    }
}

/// Parses `1000` or `1000:1000` as user and group. Returns `None` for any other text, including
/// names, which only the image can resolve.
pub(crate) fn user(text: &str) -> Option<(u32, Option<u32>)> {
    match text.split_once(':') {
        None => Some((text.parse().ok()?, None)),
        Some((user, group)) => Some((user.parse().ok()?, Some(group.parse().ok()?))),
    }
}

/// Parses the address at which pods reach this computer.
///
/// # Errors
/// Fails for text that is not an IP address, and for loopback and unspecified addresses, which mean
/// the pod itself.
pub(crate) fn address(text: &str) -> Result<IpAddr, DocumentError> {
    let wrong = |problem| {
        let key = "spec.run.cluster.address";
        let remedy = "write an address at which pods reach this computer (for kind the gateway of its network), or leave it out";
        DocumentError::at_key(key, &Value::from(text), problem, remedy)
    };
    match text.parse::<IpAddr>() {
        Err(_) => Err(wrong("is not an IP address")),
        Ok(it) if it.is_loopback() || it.is_unspecified() => {
            Err(wrong("means the pod itself, seen from a pod"))
        }
        Ok(it) => Ok(it),
    }
}
