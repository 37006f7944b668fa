//! Secrets with the user data of one machine each. Pure.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use super::{
    MACHINE_LABEL, MachineKey, UUID_LABEL,
    mirror::Item,
    token::{Token, decoded, key},
};
use crate::{
    InputError, controllers::autoscaler::supervisor::machine::GROUP_LABEL, input::parse_duration,
};

/// Text of a group's user data that the token of a machine replaces.
pub(super) const PLACEHOLDER: &str = "{{ bootstrap-token }}";
/// Key of the Secret of a machine with its user data.
pub(crate) const USER_DATA: &str = "user-data";
/// Key with the token. The server removes it when the machine is a Node, and then never creates the
/// token again.
const TOKEN: &str = "bootstrap-token";
/// Annotation with the time for which the token lives after each renewal.
const TTL: &str = "vsphere.cloud-provider/bootstrap-token-ttl";

/// Returns the name of the Secret of a machine.
pub(crate) fn secret_name(machine: &str) -> String {
    format!("{machine}-bootstrap")
}

/// Checks the user data of a group with or without `token`.
///
/// # Errors
///
/// If the placeholder is missing, or stands in data of a group without `token`.
pub(super) fn check(user_data: &str, has_token: bool) -> Result<(), InputError> {
    match (user_data.contains(PLACEHOLDER), has_token) {
        (false, true) => {
            let err = InputError::new(format!("the user data has no {PLACEHOLDER}"));
            Err(err.remedy("write it, as plain text, in place of the token, or remove `token`"))
        }
        (true, false) => {
            let err = InputError::new(format!("the user data has {PLACEHOLDER}"));
            Err(err.remedy("add `token: {}` to `bootstrap` of the group, or write a token"))
        }
        _ => Ok(()),
    }
}

/// Returns the Secret of a new machine. It has no owner yet.
pub(super) fn manifest(
    of: &MachineKey,
    (namespace, group): (&str, &str),
    user_data: &str,
    (token, ttl): (&Token, Duration),
) -> Value {
    let text = token.text();
    let user_data = user_data.replace(PLACEHOLDER, text.expose_secret());
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": secret_name(&of.name),
            "namespace": namespace,
            "labels": {
                GROUP_LABEL: group,
                MACHINE_LABEL: of.name,
                UUID_LABEL: of.bios_uuid.hyphenated().to_string(),
            },
            "annotations": { TTL: format!("{}s", ttl.as_secs()) },
        },
        "data": {
            USER_DATA: STANDARD.encode(user_data),
            TOKEN: STANDARD.encode(text.expose_secret()),
        },
    })
}

/// Returns the patch that makes a VirtualMachine the owner of the Secret with this UID.
pub(super) fn ownership(data: &MachineData, api_version: &str, machine_uid: &str) -> Value {
    json!({ "metadata": { "uid": data.uid, "ownerReferences": [{
        "apiVersion": api_version,
        "kind": "VirtualMachine",
        "name": data.key.name,
        "uid": machine_uid,
    }] } })
}

/// Returns the patch that notes that the machine is a Node and needs its token no more.
pub(super) fn joined(data: &MachineData) -> Value {
    json!({ "metadata": { "uid": data.uid }, "data": { TOKEN: null } })
}

/// The Secret of a machine, without its user data.
#[derive(Clone, Debug)]
pub(super) struct MachineData {
    pub(super) name: String,
    pub(super) uid: String,
    version: String,
    pub(super) key: MachineKey,
    /// Name of the group.
    pub(super) group: String,
    /// `None` after the machine has become a Node.
    pub(super) token: Option<Token>,
    pub(super) ttl: Duration,
    pub(super) has_owner: bool,
}

impl Item for MachineData {
    fn read(object: &Value) -> Option<Self> {
        let metadata = &object["metadata"];
        let key = key(metadata)?;
        let name = metadata["name"].as_str().filter(|it| *it == secret_name(&key.name))?;
        let owners = metadata["ownerReferences"].as_array();
        Some(Self {
            name: name.to_owned(),
            uid: metadata["uid"].as_str()?.to_owned(),
            version: metadata["resourceVersion"].as_str()?.to_owned(),
            group: metadata["labels"][GROUP_LABEL].as_str()?.to_owned(),
            token: decoded(&object["data"][TOKEN]).and_then(|it| Token::parse(&it)),
            ttl: metadata["annotations"][TTL].as_str().and_then(|it| parse_duration(it).ok())?,
            has_owner: owners.is_some_and(|it| !it.is_empty()),
            key,
        })
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> &str {
        &self.version
    }
}
