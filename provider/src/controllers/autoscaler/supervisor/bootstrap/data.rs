//! Secrets with the user data of one machine each. Pure.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use super::super::super::{
    group::GROUP_LABEL,
    tokens::{Item, MACHINE_LABEL, MachineKey, PLACEHOLDER, TTL, Token, UUID_LABEL, decoded, key},
};
use crate::input::parse_duration;

/// Key of the Secret of a machine with its user data.
pub(crate) const USER_DATA: &str = "user-data";
/// Key with the token. The server removes it when the machine is a Node, and then never creates the
/// token again.
const TOKEN: &str = "bootstrap-token";

/// Returns the name of the Secret of a machine.
pub(crate) fn secret_name(machine: &str) -> String {
    format!("{machine}-bootstrap")
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
