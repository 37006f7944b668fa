//! Expands placeholders in arguments and files of a manifest, such as `$(vcenter.host)`, to values
//! of the sim or the driver.
//!
//! The syntax is that of Kubernetes; `$$(x)` is a literal `$(x)`.

use std::collections::BTreeMap;

use super::Manifest;
use crate::scenario::Backend;

/// Values of placeholders, by name.
pub(in crate::foreign) type Values = BTreeMap<String, String>;

/// Names of placeholders in every mode.
const COMMON: [&str; 11] = [
    "dir",
    "ca",
    "kubeconfig",
    "port",
    "replica",
    "leaderElect",
    "lease.namespace",
    "lease.name",
    "manifest.dir",
    "binary",
    "datacenter",
];

/// Names of placeholders in vCenter mode only.
const VCENTER: [&str; 12] = [
    "vcenter.host",
    "vcenter.port",
    "vcenter.user",
    "vcenter.password",
    "vcenter.thumbprint",
    "vcenter.thumbprint.sha256",
    "vcenter.ca",
    "vcenter.insecure",
    "zones.region",
    "zones.zone",
    "config.yaml",
    "config.labels",
];

/// Names of placeholders in Supervisor mode only.
const SUPERVISOR: [&str; 7] = [
    "supervisor.credentials",
    "supervisor.ownerRef",
    "supervisor.ownerDir",
    "supervisor.server",
    "supervisor.port",
    "supervisor.namespace",
    "supervisor.kubeconfig",
];

/// Returns the names of all placeholders that a manifest may use in every text of a replica. Leaves
/// out environment variables, `$(knobs)` and `$(value)`.
pub(in crate::foreign) fn known(manifest: &Manifest) -> Vec<String> {
    let of_mode: &[&str] = match manifest.spec.mode {
        Backend::VCenter => &VCENTER,
        Backend::Supervisor => &SUPERVISOR,
    };
    let files = manifest.spec.files.keys().map(|name| format!("files.{name}"));
    COMMON.iter().chain(of_mode).map(|it| (*it).to_owned()).chain(files).collect()
}

/// Returns the environment variable that a placeholder name `env.NAME` stands for, or `None`.
pub(in crate::foreign) fn variable(name: &str) -> Option<&str> {
    name.strip_prefix("env.").filter(|variable| !variable.is_empty())
}

/// Returns the names of all placeholders in a text, in order. Leaves out escaped ones.
pub(in crate::foreign) fn names(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    walk(text, |name| {
        found.push(name.to_owned());
        Some(String::new())
    });
    found
}

/// Returns the text with every placeholder replaced.
///
/// # Errors
/// Returns the name of the first placeholder without a value.
pub(in crate::foreign) fn expand(text: &str, values: &Values) -> Result<String, String> {
    let mut unknown = None;
    let expanded = walk(text, |name| {
        let value = values.get(name).cloned();
        if value.is_none() {
            unknown.get_or_insert_with(|| name.to_owned());
        }
        value
    });
    unknown.map_or(Ok(expanded), Err)
}

fn walk(text: &str, mut value: impl FnMut(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("$(") {
        let (before, from) = rest.split_at(at);
        let Some(end) = from.find(')') else { break };
        let name = &from[2..end];
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str(&from[..=end]);
        } else {
            out.push_str(before);
            out.push_str(&value(name).unwrap_or_default());
        }
        rest = &from[end + 1..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_unless_they_are_escaped() {
        let values: Values = [("a", "1"), ("b.c", "2")].map(|(k, v)| (k.into(), v.into())).into();
        for (text, want) in [
            ("", Ok("")),
            ("x $(a)$(b.c) y", Ok("x 12 y")),
            ("$$(a) $(a)", Ok("$(a) 1")),
            ("cost: 5$ (a)", Ok("cost: 5$ (a)")),
            ("$(a", Ok("$(a")),
            ("$(a) $(d) $(e)", Err("d")),
        ] {
            let want = want.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(expand(text, &values), want, "{text}");
        }
        assert_eq!(names("$(a) $$(b) $(c)"), ["a", "c"]);
    }
}
