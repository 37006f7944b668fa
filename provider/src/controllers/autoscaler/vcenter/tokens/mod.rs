//! Bootstrap tokens of clones. The token of a machine stands in its user data, which is in `guestinfo`.
//!
//! The journal names a machine before its token is created, and the token exists before the clone is
//! requested. So each token names a machine of the journal, and a process that repeats the clone after
//! a crash finds the token and gives the same one to the machine.
//!
//! Only the journal says that a machine has ended. A machine that a view lacks keeps its token.

mod keep;
mod plan;

use std::time::Duration;

use secrecy::ExposeSecret as _;
use tokio::time::Instant;
use uuid::Uuid;

use super::{
    super::{
        group::{CloneShape, GroupId, TokenShape},
        tokens::{
            BootstrapError, MachineKey, Origin, PLACEHOLDER, Side, Token, TokenSecret, Workload,
            check,
        },
    },
    VcenterMachines,
    failure::{Shows, Trouble},
    journal::Intent,
};

/// Label of tokens: the identity of the journal. A server leaves tokens of other journals alone.
const JOURNAL_LABEL: &str = "vsphere.cloud-provider/journal";
/// Longest time for all requests about the token of one clone, with the wait for the first list of
/// tokens.
const WITHIN: Duration = Duration::from_secs(10);
/// Interval at which a new process looks whether the tokens have been listed.
const LISTED: Duration = Duration::from_millis(200);
/// Code of a failure around tokens.
const CODE: &str = "BOOTSTRAP_TOKEN";
const GET: &str =
    "creating or finding the bootstrap token of a new machine in the workload cluster";
const RENEW: &str = "renewing the bootstrap token of a new machine in the workload cluster";

/// Returns the origin of the tokens of a journal.
pub(super) fn origin(journal: Uuid) -> Origin {
    Origin { label: JOURNAL_LABEL, value: journal.hyphenated().to_string() }
}

/// Returns the labels of the tokens of a machine. They stay if vCenter gives it other UUIDs.
fn key(intent: &Intent) -> MachineKey {
    let (bios_uuid, _) = intent.requested.unwrap_or((intent.bios, intent.instance));
    MachineKey { name: intent.name.clone(), bios_uuid }
}

impl VcenterMachines {
    /// Returns the bootstrap data of a machine: that of its group, with the token of the machine if the
    /// group has `token`.
    pub(super) async fn user_data(
        &self,
        intent: &Intent,
        shape: &CloneShape,
    ) -> Result<Vec<u8>, Trouble> {
        let file = &shape.bootstrap;
        let wrong = |why: &str| {
            let text = format!("bootstrap: file {}: {why}", file.file.display());
            Trouble::bad_configuration(&text)
        };
        let data = (self.0.read_bootstrap)(&file.file).map_err(|why| wrong(&why))?;
        if data.trim_ascii().is_empty() {
            return Err(wrong("is empty; write the data that makes a machine join the cluster"));
        }
        let Some(token) = &file.token else {
            let text = String::from_utf8_lossy(&data);
            check(&text, false).map_err(|err| wrong(&err.to_string()))?;
            return Ok(data);
        };
        let text = String::from_utf8(data)
            .map_err(|_| wrong("is not UTF-8 text; write it without compression"))?;
        check(&text, true).map_err(|err| wrong(&err.to_string()))?;
        let token = tokio::time::timeout(WITHIN, self.token(intent, token)).await;
        let token = token.map_err(|_| trouble(&BootstrapError::late(GET, WITHIN)))??;
        Ok(text.replace(PLACEHOLDER, token.text().expose_secret()).into_bytes())
    }

    /// Notes that the machine was made with the token of the last request.
    pub(super) fn has_offered_token(&self, instance: Uuid) {
        let mut state = self.state();
        let work = state.work(instance);
        work.token = work.offered.take();
    }

    /// Notes that the next clone has this token, and that the token of an earlier clone has no use.
    fn offer(&self, instance: Uuid, token: &Token) {
        let mut state = self.state();
        let work = state.work(instance);
        (work.offered, work.token) = (Some(token.id.clone()), None);
    }

    /// Fails if the token in the user data of a clone that is off no longer exists, so that the machine
    /// could never join.
    pub(super) async fn require_token(
        &self,
        intent: &Intent,
        shape: &CloneShape,
    ) -> Result<(), Trouble> {
        let (Some(_), Some(workload)) = (&shape.bootstrap.token, &self.0.workload) else {
            return Ok(());
        };
        let key = key(intent);
        if listed(workload).await?.iter().any(|it| it.key == key) {
            return Ok(());
        }
        let text = "the bootstrap token of the clone no longer exists in the workload cluster, so \
                    the machine could not join; it stays off";
        Err(Trouble::other(CODE, text, Shows::AfterGrace))
    }

    /// Returns the token of a machine: one that an earlier attempt has created, or a new one.
    async fn token(&self, intent: &Intent, shape: &TokenShape) -> Result<Token, Trouble> {
        let missing = || Trouble::bad_configuration("token: the server knows no workload cluster");
        let workload = self.0.workload.as_ref().ok_or_else(missing)?;
        let (key, group) = (key(intent), GroupId::of_clones(&intent.group));
        for known in listed(workload).await?.iter().filter(|it| it.key == key) {
            if let Some(token) = reuse(workload, known, shape.ttl).await? {
                self.offer(intent.instance, &token);
                return Ok(token);
            }
        }
        let token = workload.mint((&intent.group, &group), &key, shape.ttl, WITHIN).await;
        let token = token.map_err(|err| trouble(&err))?;
        self.offer(intent.instance, &token);
        Ok(token)
    }
}

/// Returns the tokens in the workload cluster. Without them a machine could get a second token.
async fn listed(workload: &Workload) -> Result<Vec<TokenSecret>, Trouble> {
    let began = Instant::now();
    loop {
        if let Some(tokens) = workload.tokens() {
            return Ok(tokens);
        }
        if began.elapsed() >= WITHIN {
            let text = "the bootstrap tokens in the workload cluster have not been listed yet; the log names the request";
            return Err(Trouble::other(CODE, text, Shows::AfterGrace));
        }
        tokio::time::sleep(LISTED).await;
    }
}

/// Renews a token of an earlier attempt, which proves that it exists; `None` if it does not.
async fn reuse(
    workload: &Workload,
    known: &TokenSecret,
    ttl: Duration,
) -> Result<Option<Token>, Trouble> {
    let Some(token) = known.token.clone() else { return Ok(None) };
    let renewed = tokio::time::timeout(WITHIN, workload.renew(known, ttl)).await;
    let renewed = renewed.map_err(|_| trouble(&BootstrapError::late(RENEW, WITHIN)))?;
    let failed = |err| trouble(&BootstrapError::of(RENEW, Side::Workload, &err));
    Ok(renewed.map_err(failed)?.then_some(token))
}

/// Returns the failure of an attempt that lacks a token.
fn trouble(err: &BootstrapError) -> Trouble {
    Trouble::other(CODE, &err.to_string(), Shows::AfterGrace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::autoscaler::vcenter::journal::Journal;

    #[test]
    fn a_machine_that_got_other_uuids_keeps_the_labels_of_its_token() {
        let mut journal = Journal::new(Uuid::from_u128(7));
        let instance = journal.want("workers", None, |_| false);
        let before = key(&journal.machines()[0]);
        if let Some(it) = journal.find_mut(instance) {
            it.requested = Some((it.bios, it.instance));
            it.bios = Uuid::from_u128(1);
        }
        assert_eq!(key(&journal.machines()[0]), before);
    }
}
