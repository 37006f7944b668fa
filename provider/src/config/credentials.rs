//! Parses the credential of a vCenter from the keys of a Secret or from the files of a directory.
//!
//! The grammar of the keys is that of
//! `cloud-provider-vsphere: pkg/common/credentialmanager/credentialmanager.go`, `parseConfig`.

use std::collections::BTreeMap;

use provider_vcenter::{Credential, CredentialError};

/// Data of a Secret (value by key), or content of a directory (content by file name).
pub type SecretData = BTreeMap<String, Vec<u8>>;

#[derive(Default)]
struct PartialCredential {
    username: Option<String>,
    password: Option<String>,
}

/// Returns the credential for `server` from a Secret. Errors name keys, never values.
///
/// # Errors
///
/// If the Secret has an unknown key, a key of a shared session
/// (`<server>.vc-session-manager-…`), a value that is not UTF-8, a `username_<id>` or
/// `password_<id>` without `server_<id>`, or no complete credential for this server.
pub fn parse_secret(data: &SecretData, server: &str) -> Result<Credential, CredentialError> {
    let fail = |what: String| CredentialError(what);
    if data.is_empty() {
        return Err(fail("no keys: expected username and password".to_owned()));
    }
    let mut by_server: BTreeMap<String, PartialCredential> = BTreeMap::new();
    let mut by_id: BTreeMap<String, (Option<String>, PartialCredential)> = BTreeMap::new();
    for (key, value) in data {
        let text = String::from_utf8(value.clone()).map_err(|_| {
            fail(format!("the value of key {key:?} is not UTF-8 text; encode it as UTF-8"))
        })?;
        // A single newline at the end comes from an editor, not from the password.
        let trimmed = text.strip_suffix('\n').unwrap_or(&text).to_owned();
        if let Some(id) = key.strip_prefix("server_").filter(|id| !id.is_empty()) {
            by_id.entry(id.to_owned()).or_default().0 = Some(text);
        } else if let Some(id) = key.strip_prefix("username_").filter(|id| !id.is_empty()) {
            by_id.entry(id.to_owned()).or_default().1.username = Some(text);
        } else if let Some(id) = key.strip_prefix("password_").filter(|id| !id.is_empty()) {
            by_id.entry(id.to_owned()).or_default().1.password = Some(text);
        } else if let Some(server) = key.strip_suffix(".username") {
            by_server.entry(server.to_owned()).or_default().username = Some(trimmed);
        } else if let Some(server) = key.strip_suffix(".password") {
            by_server.entry(server.to_owned()).or_default().password = Some(trimmed);
        } else if key.contains(".vc-session-manager-") {
            return Err(fail(format!(
                "key {key:?}: this provider does not support shared sessions; remove the key"
            )));
        } else {
            return Err(fail(format!(
                "unknown key {key:?}; expected <server>.username and <server>.password, or server_<id>, \
                 username_<id> and password_<id>"
            )));
        }
    }
    for (id, (server, found)) in by_id {
        let server = server.ok_or_else(|| fail(format!("key server_{id} is missing; add it")))?;
        by_server.insert(server, found);
    }
    let Some(found) = by_server.remove(server) else {
        return Err(fail(format!(
            "no credential for server {server:?}; add a user name and a password for it"
        )));
    };
    match (found.username, found.password) {
        (Some(username), Some(password)) if !username.is_empty() && !password.is_empty() => {
            Ok(Credential::new(username, password))
        }
        _ => Err(fail(format!(
            "username or password for server {server:?} is missing or empty; set both"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    fn data(items: &[(&str, &str)]) -> SecretData {
        items.iter().map(|(k, v)| ((*k).to_owned(), v.as_bytes().to_vec())).collect()
    }

    #[test]
    fn secrets_are_read_in_both_forms() {
        let dotted = data(&[("vc1.example.username", "u\n"), ("vc1.example.password", "p=;\n")]);
        let found = parse_secret(&dotted, "vc1.example").unwrap();
        assert_eq!((found.username.as_str(), found.password.expose_secret()), ("u", "p=;"));
        let by_id = data(&[("server_a", "fd00::1"), ("username_a", "u"), ("password_a", "p")]);
        assert_eq!(parse_secret(&by_id, "fd00::1").unwrap().username, "u");
    }

    #[test]
    fn errors_name_keys_and_never_values() {
        for (name, items, want) in [
            (
                "another server",
                &[("a.username", "hunter2"), ("a.password", "hunter2")][..],
                "no credential for server \"vc\"; add a user name and a password for it",
            ),
            (
                "half",
                &[("vc.username", "hunter2")],
                "username or password for server \"vc\" is missing or empty; set both",
            ),
            (
                "an empty password",
                &[("vc.username", "hunter2"), ("vc.password", "")],
                "username or password for server \"vc\" is missing or empty; set both",
            ),
            (
                "an empty username",
                &[("vc.username", ""), ("vc.password", "hunter2")],
                "username or password for server \"vc\" is missing or empty; set both",
            ),
            (
                "no server",
                &[("username_a", "hunter2"), ("password_a", "hunter2")],
                "key server_a is missing; add it",
            ),
            ("empty", &[], "no keys: expected username and password"),
        ] {
            let err = parse_secret(&data(items), "vc").unwrap_err();
            assert_eq!(err.0, want, "{name}");
            assert!(!err.0.contains("hunter2"));
        }
        let err = parse_secret(&data(&[("passwrd", "hunter2")]), "vc").unwrap_err();
        assert!(err.0.starts_with("unknown key \"passwrd\""), "{err}");
    }
}
