//! Bootstrap tokens, and the Secrets of the workload cluster that hold them. Pure.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::{SignedDuration, Timestamp};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    MACHINE_LABEL, MachineKey, SecretRandom, TTL, UUID_LABEL, mirror::Item, workload::Origin,
};
use crate::{
    controllers::autoscaler::group::{GROUP_LABEL, GroupId},
    input::parse_duration,
};

/// Type of the Secrets that the API server accepts as bootstrap tokens.
const TYPE: &str = "bootstrap.kubernetes.io/token";
const NAME_PREFIX: &str = "bootstrap-token-";
/// Group of the users that join with `kubeadm join`, to which kubeadm grants certificates.
const GROUPS: &str = "system:bootstrappers:kubeadm:default-node-token";
const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;

/// A bootstrap token. Its `Debug` shows only the ID.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    /// Public part.
    pub(crate) id: String,
    secret: SecretString,
}

impl Token {
    /// Draws a token.
    ///
    /// # Errors
    ///
    /// If the source of randomness fails.
    pub(crate) fn draw(random: &SecretRandom) -> Result<Self, String> {
        let id = text(random, ID_LENGTH)?;
        Ok(Self { id, secret: text(random, SECRET_LENGTH)?.into() })
    }

    /// Reads a token, such as `abcdef.0123456789abcdef`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.split_once('.')?;
        let is_valid = |it: &str, length| {
            it.len() == length && it.bytes().all(|byte| ALPHABET.contains(&byte))
        };
        let is_token = is_valid(id, ID_LENGTH) && is_valid(secret, SECRET_LENGTH);
        is_token.then(|| Self { id: id.to_owned(), secret: secret.into() })
    }

    /// Returns the text with which a machine joins.
    pub(crate) fn text(&self) -> SecretString {
        format!("{}.{}", self.id, self.secret.expose_secret()).into()
    }

    pub(crate) fn secret_name(&self) -> String {
        format!("{NAME_PREFIX}{}", self.id)
    }

    /// Returns the Secret of the token of a machine.
    pub(crate) fn manifest(
        &self,
        key: &MachineKey,
        origin: &Origin,
        (group, group_id): (&str, &GroupId),
        (expires, ttl): (Timestamp, Duration),
    ) -> Value {
        let description = format!("Machine {} of group {group_id}", key.name);
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": TYPE,
            "metadata": {
                "name": self.secret_name(),
                "namespace": "kube-system",
                "labels": {
                    GROUP_LABEL: group,
                    MACHINE_LABEL: key.name,
                    UUID_LABEL: key.bios_uuid.hyphenated().to_string(),
                    origin.label: origin.value,
                },
                "annotations": { TTL: format!("{}s", ttl.as_secs()) },
            },
            "data": {
                "token-id": STANDARD.encode(&self.id),
                "token-secret": STANDARD.encode(self.secret.expose_secret()),
                "expiration": STANDARD.encode(expires.to_string()),
                "usage-bootstrap-authentication": STANDARD.encode("true"),
                "usage-bootstrap-signing": STANDARD.encode("true"),
                "auth-extra-groups": STANDARD.encode(GROUPS),
                "description": STANDARD.encode(description),
            },
        })
    }
}

/// Returns letters and digits, each with the same probability.
fn text(random: &SecretRandom, length: usize) -> Result<String, String> {
    // The rest of the bytes would make the first letters more probable.
    let usable = 255 - 255 % ALPHABET.len();
    let mut text = String::with_capacity(length);
    while text.len() < length {
        let mut bytes = [0_u8; 2 * SECRET_LENGTH];
        random(&mut bytes)?;
        let letters = bytes.iter().map(|byte| usize::from(*byte)).filter(|byte| *byte < usable);
        let missing = length - text.len();
        text.extend(letters.take(missing).map(|it| char::from(ALPHABET[it % ALPHABET.len()])));
    }
    Ok(text)
}

/// Returns the time at which a token that is made or renewed `now` expires, in whole seconds.
pub(crate) fn expiration(now: Timestamp, ttl: Duration) -> Timestamp {
    let second = now.as_second().saturating_add(i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX));
    Timestamp::from_second(second).unwrap_or(Timestamp::MAX)
}

/// True if less than half of the life of a token is left, or more than two lives, as after a step of the
/// clock.
pub(crate) fn must_move(expires: Option<Timestamp>, ttl: Duration, now: Timestamp) -> bool {
    let ttl = SignedDuration::try_from(ttl).unwrap_or(SignedDuration::MAX);
    let Some(expires) = expires else { return true };
    let left = expires.duration_since(now);
    left < ttl / 2 || left > ttl.saturating_mul(2)
}

/// Returns the patch that moves the expiration of the token with this UID.
pub(crate) fn renewal(uid: &str, expires: Timestamp) -> Value {
    json!({
        "metadata": { "uid": uid },
        "data": { "expiration": STANDARD.encode(expires.to_string()) },
    })
}

/// A token in the workload cluster.
#[derive(Clone, Debug)]
pub(crate) struct TokenSecret {
    pub(crate) name: String,
    pub(crate) uid: String,
    version: String,
    pub(crate) key: MachineKey,
    pub(crate) id: String,
    /// `None` if it never expires, or cannot be read.
    pub(crate) expires: Option<Timestamp>,
    /// Time for which the token lives after a renewal, if its creator noted it.
    pub(crate) ttl: Option<Duration>,
    /// `None` if the Secret has no valid token.
    pub(crate) token: Option<Token>,
}

impl Item for TokenSecret {
    /// Reads a token that this server, or another one of the same origin, has made.
    fn read(object: &Value) -> Option<Self> {
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str()?;
        let id = name.strip_prefix(NAME_PREFIX).filter(|_| object["type"] == TYPE)?;
        Some(Self {
            name: name.to_owned(),
            uid: metadata["uid"].as_str()?.to_owned(),
            version: metadata["resourceVersion"].as_str()?.to_owned(),
            key: key(metadata)?,
            id: id.to_owned(),
            token: decoded(&object["data"]["token-secret"])
                .and_then(|secret| Token::parse(&format!("{id}.{secret}"))),
            ttl: metadata["annotations"][TTL].as_str().and_then(|it| parse_duration(it).ok()),
            expires: decoded(&object["data"]["expiration"]).and_then(|it| it.parse().ok()),
        })
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> &str {
        &self.version
    }
}

/// Reads the machine of a Secret from its labels.
pub(crate) fn key(metadata: &Value) -> Option<MachineKey> {
    let label = |name: &str| metadata["labels"][name].as_str();
    Some(MachineKey {
        name: label(MACHINE_LABEL)?.to_owned(),
        bios_uuid: Uuid::parse_str(label(UUID_LABEL)?).ok()?,
    })
}

/// Decodes text in Base64.
pub(crate) fn decoded(value: &Value) -> Option<String> {
    String::from_utf8(STANDARD.decode(value.as_str()?).ok()?).ok()
}
