//! Bootstrap tokens of new machines, as every backend uses them. Each token is a Secret of the workload
//! cluster, with labels that name its machine.
//!
//! | part | task |
//! | --- | --- |
//! | [`token`] | tokens, and their Secrets; pure |
//! | [`user_data`] | the place of the token in the user data; pure |
//! | [`mirror`] | the Secrets and Nodes that the server knows |
//! | [`workload`] | requests to the workload cluster |
//! | [`error`] | failures, without text that could contain a token |

mod error;
mod mirror;
#[cfg(test)]
mod tests;
mod token;
mod user_data;
mod workload;

use std::sync::Arc;

use uuid::Uuid;

pub(super) use self::{
    error::{BootstrapError, Side, reason},
    mirror::{Item, Mirror, Nodes},
    token::{Token, TokenSecret, decoded, key, must_move},
    user_data::{PLACEHOLDER, check},
    workload::{Origin, Workload, gone, is_over},
};

/// Labels of the Secrets of a machine: its name and its BIOS UUID.
pub(super) const MACHINE_LABEL: &str = "vsphere.cloud-provider/machine";
pub(super) const UUID_LABEL: &str = "vsphere.cloud-provider/bios-uuid";
/// Annotation with the time for which a token lives after each renewal.
pub(super) const TTL: &str = "vsphere.cloud-provider/bootstrap-token-ttl";
/// Collection of the tokens in the workload cluster.
const TOKENS: &str = "/api/v1/namespaces/kube-system/secrets";

/// Fills a buffer with bytes that nobody can predict, or says why it cannot.
pub type SecretRandom = Arc<dyn Fn(&mut [u8]) -> Result<(), String> + Send + Sync>;

/// Workload cluster in which the server creates bootstrap tokens.
#[derive(Clone)]
pub struct BootstrapTokens {
    /// Client of the cluster. It needs the permissions of `docs/autoscaler.md`.
    pub client: kube::Client,
    /// Source of the secrets.
    pub random: SecretRandom,
}

/// Name and BIOS UUID of a machine, which its Secrets have as labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MachineKey {
    pub(super) name: String,
    pub(super) bios_uuid: Uuid,
}
