//! The manifest of a server for the Cluster Autoscaler: `kind: Provider` with `mode: autoscaler`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use sim::document::{self, DocumentError};

use super::super::manifest::{Implementation, header};
use crate::lab::autoscaler::{Act, ClientTls, Overrides};
use crate::scenario::InputError;

const MODE: &str = "autoscaler";
const DEADLINE: Duration = Duration::from_secs(5);
const STALENESS: Duration = Duration::from_secs(300);

/// Manifest of a server for the Cluster Autoscaler.
#[derive(Clone, Debug)]
pub(in crate::foreign) struct Manifest {
    /// Path of the manifest.
    pub(super) origin: String,
    pub(super) name: String,
    pub(super) spec: Spec,
    /// Folder to which paths in the manifest are relative.
    folder: PathBuf,
}

/// Content of the manifest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Spec {
    /// Description of the server, for the report.
    #[serde(default)]
    pub(super) implementation: Implementation,
    #[serde(rename = "mode")]
    _mode: String,
    /// Host and port of the server, which runs already.
    pub(super) address: String,
    /// Files for mutual TLS; plain text if left out.
    tls: Option<TlsFiles>,
    /// Deadline of each call (default: 5 s).
    #[serde(default = "deadline", with = "sim::world::duration")]
    pub(super) deadline: Duration,
    /// Age from which the server does not trust its view of the machines (default: 5 min).
    #[serde(default = "staleness", with = "sim::world::duration")]
    pub(super) staleness: Duration,
    /// True if checks may create and delete machines in all groups of the server (default: false).
    #[serde(default)]
    pub(super) changes: bool,
    /// Settings that each group overrides, by the ID of the group. If left out, the checks take a
    /// value that does not follow the defaults for an override.
    pub(super) overrides: Option<Overrides>,
    /// Program that carries out acts on what is behind the server.
    acts: Option<Acts>,
}

/// Paths of PEM files, relative to the manifest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TlsFiles {
    /// Certificate of the client.
    cert: PathBuf,
    /// Key of the client.
    key: PathBuf,
    /// Authorities of the server's certificate.
    ca: PathBuf,
}

/// A program that gets the name of an act as its last argument, and for `destroy-machine` then the
/// ID of the instance.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Acts {
    /// The program and its first arguments. A program with a slash is a path relative to the
    /// manifest; another one is found in `PATH`.
    command: Vec<String>,
}

const fn deadline() -> Duration {
    DEADLINE
}

const fn staleness() -> Duration {
    STALENESS
}

impl Manifest {
    /// Reads the manifest in this file; `None` if the file is no manifest of a server for the
    /// autoscaler, so that another reader tells what is wrong with it.
    ///
    /// # Errors
    /// If the manifest is invalid.
    pub(in crate::foreign) fn load(path: &str) -> Result<Option<Self>, InputError> {
        let Ok(text) = std::fs::read(path) else { return Ok(None) };
        let Ok(content) = document::yaml(&text) else { return Ok(None) };
        if content["spec"]["mode"] != MODE {
            return Ok(None);
        }
        let folder = Path::new(path).parent().unwrap_or(Path::new("")).to_owned();
        let read = Self::read(path, folder, content);
        read.map(Some).map_err(|wrong| InputError::in_document(path, wrong))
    }

    fn read(path: &str, folder: PathBuf, content: Value) -> Result<Self, DocumentError> {
        let (name, spec) = header(content)?;
        let spec: Spec = document::typed(spec).map_err(|wrong| wrong.prefix_key("spec"))?;
        let wrong = |key: &str, value: &Value, problem: &str, remedy: &str| {
            Err(DocumentError::at_key(key, value, problem, remedy))
        };
        if host(&spec.address).is_none() {
            let address = Value::from(spec.address.as_str());
            let remedy = "write HOST:PORT, or [IPV6]:PORT";
            return wrong("spec.address", &address, "is not a host with a port", remedy);
        }
        if spec.acts.as_ref().is_some_and(|it| it.command.is_empty()) {
            let remedy = "name a program, or leave spec.acts out";
            return wrong("spec.acts.command", &Value::Array(Vec::new()), "is empty", remedy);
        }
        if spec.deadline.is_zero() {
            let remedy = "write a time such as 5s";
            return wrong("spec.deadline", &Value::from("0s"), "is no time for an answer", remedy);
        }
        Ok(Self { origin: path.to_owned(), name, spec, folder })
    }

    /// Returns the host of the address, for which the certificate of the server must be valid.
    pub(super) fn host(&self) -> String {
        host(&self.spec.address).unwrap_or_default()
    }

    /// Returns the program of acts and its first arguments; `None` if there is none.
    pub(super) fn act_command(&self) -> Option<(PathBuf, Vec<String>)> {
        let (program, arguments) = self.spec.acts.as_ref()?.command.split_first()?;
        let is_path = program.contains('/');
        let program = if is_path { self.folder.join(program) } else { PathBuf::from(program) };
        Some((program, arguments.to_vec()))
    }

    /// Reads the files for TLS; `None` for plain text.
    pub(super) fn tls(&self) -> Result<Option<ClientTls>, InputError> {
        let Some(files) = &self.spec.tls else { return Ok(None) };
        let read = |key: &str, path: &Path| {
            let full = self.folder.join(path);
            std::fs::read_to_string(&full).map_err(|err| {
                let value = Value::from(path.display().to_string());
                let problem = format!("cannot be read: {err}");
                let remedy = "write a path relative to the manifest";
                let wrong = DocumentError::at_key(key, &value, &problem, remedy);
                InputError::in_document(&*self.origin, wrong)
            })
        };
        let authorities = read("spec.tls.ca", &files.ca)?;
        let certificate = read("spec.tls.cert", &files.cert)?;
        let key = read("spec.tls.key", &files.key)?;
        ClientTls::new(authorities, certificate, key).map(Some).map_err(|err| {
            let wrong = InputError::new(format!("the files for TLS cannot be used: {err}"));
            wrong
                .in_source(&*self.origin)
                .at_key("spec.tls")
                .remedy("name PEM files that belong together")
        })
    }
}

/// Returns the host of an address, without the brackets of IPv6.
fn host(address: &str) -> Option<String> {
    let (host, port) = address.rsplit_once(':')?;
    port.parse::<u16>().ok()?;
    let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let is_sound = !host.is_empty() && (bare.is_some() || !host.contains(':'));
    is_sound.then(|| bare.unwrap_or(host).to_owned())
}

/// Returns the arguments of the program for an act.
pub(super) fn arguments(act: &Act) -> Vec<&str> {
    let mut all = vec![act.as_str()];
    if let Act::DestroyMachine(id) = act {
        all.push(id);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(spec: &str) -> Result<Manifest, String> {
        let text = format!(
            "apiVersion: sim.vsphere/v1alpha1\nkind: Provider\nmetadata: {{name: x}}\nspec: {spec}"
        );
        let content = document::yaml(text.as_bytes()).unwrap();
        Manifest::read("x.yaml", PathBuf::new(), content)
            .map_err(|wrong| InputError::in_document("x.yaml", wrong).to_string())
    }

    #[test]
    fn a_manifest_has_defaults_for_all_but_the_address() {
        let spec = read("{mode: autoscaler, address: 'localhost:8086'}").unwrap().spec;
        assert_eq!((spec.deadline, spec.staleness, spec.changes), (DEADLINE, STALENESS, false));
    }

    #[test]
    fn a_wrong_manifest_is_refused_with_key_value_and_remedy() {
        for (spec, expected) in [
            ("{mode: autoscaler}", "address"),
            ("{mode: autoscaler, address: x}", "spec.address: \"x\": is not a host with a port"),
            ("{mode: autoscaler, address: 'x:1', change: true}", "spec.change"),
            ("{mode: autoscaler, address: 'x:1', acts: {command: []}}", "spec.acts.command"),
            ("{mode: autoscaler, address: 'x:1', deadline: 0s}", "spec.deadline"),
            ("{mode: autoscaler, address: 'x:1', overrides: {g: [speed]}}", "speed"),
        ] {
            let error = read(spec).unwrap_err();
            assert!(error.contains(expected) && error.contains("remedy: "), "{spec}: {error}");
        }
    }

    #[test]
    fn the_host_of_an_address_has_no_brackets() {
        for (address, expected) in [
            ("localhost:80", Some("localhost")),
            ("[::1]:80", Some("::1")),
            ("::1:80", None),
            (":80", None),
            ("x:http", None),
        ] {
            assert_eq!(host(address).as_deref(), expected, "{address}");
        }
    }

    #[test]
    fn a_program_of_acts_with_a_slash_is_relative_to_the_manifest() {
        let program = |command: &str| {
            let spec =
                format!("{{mode: autoscaler, address: 'x:1', acts: {{command: {command}}}}}");
            let manifest = Manifest { folder: PathBuf::from("/lab"), ..read(&spec).unwrap() };
            manifest.act_command().unwrap()
        };
        assert_eq!(program("[./acts.sh, -v]"), ("/lab/./acts.sh".into(), vec!["-v".to_owned()]));
        assert_eq!(program("[python3]"), ("python3".into(), Vec::new()));
    }
}
