//! Checks of reconcilers that publish the capacity of machine templates, and of readers of it, in the
//! order of the catalogue: CAPZ-001 to CAPZ-032.
//!
//! A check creates objects in a management cluster and reads what the reconciler writes there. Checks
//! of the templates of any kind judge a [`Subject`] by its samples. The others create templates of
//! vSphere, or judge a reader by groups.

mod entries;
pub(crate) mod expected;
mod groups;
mod published;
mod reader;
mod selection;
mod trial;
mod vsphere;
mod writes;

use std::pin::Pin;

use crate::catalogue::CheckId;
use crate::judge::verdict::Verdict;
use crate::lab::capacity::{Management, Reader, Subject};

pub(crate) use trial::Trial;

/// Number of calls in the transcript of a check.
const SHOWN: usize = 30;

/// Result of a check: `Err` with the verdict, unless the promise held.
pub(crate) type Outcome = Result<(), Verdict>;
type Judging<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;

/// Subjects to which a check applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A reconciler of templates of any kind.
    AnyKind,
    /// A reconciler of templates of vSphere.
    Vsphere,
    /// A reader of groups.
    Reader,
}

enum Judge {
    Reconciler(for<'a> fn(&'a Trial<'a>) -> Judging<'a>),
    Reader(fn(&dyn Reader) -> Outcome),
}

/// One check of a reconciler or reader.
pub struct CapacityCheck {
    /// Permanent ID in the catalogue.
    pub id: CheckId,
    /// Subjects to which the check applies.
    pub scope: Scope,
    judge: Judge,
}

/// Builds one entry of the list of checks.
macro_rules! check {
    ($id:literal, Reader, $judge:path) => {
        CapacityCheck { id: CheckId::new($id), scope: Scope::Reader, judge: Judge::Reader($judge) }
    };
    ($id:literal, $scope:ident, $judge:path) => {
        CapacityCheck {
            id: CheckId::new($id),
            scope: Scope::$scope,
            judge: Judge::Reconciler(|trial| Box::pin($judge(trial))),
        }
    };
}

impl CapacityCheck {
    /// Plays the check in a new sim. Returns the verdict, the lines of a transcript, and the number
    /// of calls.
    pub async fn play(&self, subject: &Subject, seed: u64) -> (Verdict, Vec<String>, usize) {
        let judge = match &self.judge {
            Judge::Reader(judge) => {
                let verdict = match &subject.reader {
                    Some(reader) => judge(reader.as_ref()).err().unwrap_or(Verdict::Pass),
                    None => {
                        Verdict::skipped("this check judges a reader of groups, not a reconciler")
                    }
                };
                return (verdict, Vec::new(), 0);
            }
            Judge::Reconciler(_) if self.scope == Scope::Vsphere && !subject.is_vsphere => {
                let why =
                    format!("this check is about templates of vSphere, not {}", subject.kind.kind);
                return (Verdict::skipped(why), Vec::new(), 0);
            }
            Judge::Reconciler(judge) => judge,
        };
        let management = match Management::new(&subject.kind, seed).await {
            Ok(management) => management,
            Err(why) => {
                let why = format!("the sim cannot be prepared: {why}");
                return (Verdict::harness_error(why), Vec::new(), 0);
            }
        };
        let trial = Trial::new(subject, management);
        let verdict = judge(&trial).await.err().unwrap_or(Verdict::Pass);
        let n_calls = trial.management.calls().len();
        (verdict, trial.transcript(SHOWN), n_calls)
    }
}

/// Returns every check, in the order of the catalogue.
pub fn all() -> Vec<CapacityCheck> {
    vec![
        check!("CAPZ-001", AnyKind, published::known_capacity_is_published),
        check!("CAPZ-002", Vsphere, selection::without_class_nothing_is_written),
        check!("CAPZ-003", AnyKind, selection::missing_inputs_are_awaited),
        check!("CAPZ-004", Vsphere, selection::class_of_another_namespace_does_not_count),
        check!("CAPZ-005", Vsphere, published::empty_hardware_leads_to_no_capacity),
        check!("CAPZ-006", AnyKind, selection::change_updates_dependent_templates),
        check!("CAPZ-007", Vsphere, published::unknown_value_stays),
        check!("CAPZ-008", Vsphere, published::missing_image_leaves_the_capacity),
        check!("CAPZ-009", Vsphere, published::unknown_platform_is_left_out),
        check!("CAPZ-010", Vsphere, published::known_platforms_are_published),
        check!("CAPZ-011", Vsphere, published::without_image_only_the_capacity_is_published),
        check!("CAPZ-012", Vsphere, selection::unreadable_image_leaves_the_capacity),
        check!("CAPZ-013", AnyKind, selection::paused_template_waits),
        check!("CAPZ-014", Vsphere, selection::watch_filter_selects_templates),
        check!("CAPZ-015", AnyKind, writes::nothing_is_written_again),
        check!("CAPZ-016", AnyKind, writes::only_own_keys_are_written),
        check!("CAPZ-017", AnyKind, writes::concurrent_change_survives),
        check!("CAPZ-018", AnyKind, writes::other_versions_keep_node_info),
        check!("CAPZ-019", AnyKind, writes::status_passes_schema_and_contract),
        check!("CAPZ-020", AnyKind, reader::reads_what_is_published),
        check!("CAPZ-021", Reader, reader::annotation_overrides_one_resource),
        check!("CAPZ-022", Reader, reader::pods_never_come_from_the_status),
        check!("CAPZ-023", Reader, reader::gpus_need_count_and_type),
        check!("CAPZ-024", Reader, reader::both_amounts_are_needed),
        check!("CAPZ-025", Reader, reader::missing_node_info_keeps_defaults),
        check!("CAPZ-026", Reader, entries::labels_and_taints_are_read_by_entry),
        check!("CAPZ-027", Reader, entries::drivers_are_read_by_entry),
        check!("CAPZ-028", Vsphere, groups::annotations_say_what_a_clone_gets),
        check!("CAPZ-029", Vsphere, groups::groups_with_a_maximum_are_annotated),
        check!("CAPZ-030", Vsphere, groups::owned_sets_are_not_annotated),
        check!("CAPZ-031", Vsphere, published::mapped_devices_become_gpus),
        check!("CAPZ-032", AnyKind, writes::deletion_during_a_write_ends_the_work),
    ]
}
