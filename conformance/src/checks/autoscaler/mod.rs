//! Checks of servers for the Cluster Autoscaler (`--cloud-provider=externalgrpc`), in the order of
//! the catalogue: CA-001 to CA-076.
//!
//! A check talks to a [`Subject`]: a server, and acts on what is behind it. The same checks judge our
//! server in virtual time, the reference of the lab, and any server at an address.

mod connection;
mod decrease;
mod delete;
mod failures;
mod groups;
mod history;
mod increase;
mod labels;
mod listing;
mod model;
mod options;
mod trial;

use std::pin::Pin;

use crate::catalogue::CheckId;
use crate::judge::verdict::Verdict;
use crate::lab::autoscaler::{Generation, Subject, Transcript};

pub(crate) use trial::Trial;

/// Result of a check: `Err` with the verdict, unless the promise held.
pub(crate) type Outcome = Result<(), Verdict>;
type Judging<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;
type Judge = for<'a> fn(&'a Trial<'a>) -> Judging<'a>;

/// Means that a check needs beside calls that read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Nothing: it only reads.
    Reads,
    /// It creates and deletes machines.
    Changes,
    /// It also needs acts on what is behind the server.
    Acts,
    /// It needs a server that speaks TLS.
    Tls,
}

/// One check of a server.
pub struct AutoscalerCheck {
    /// Permanent ID in the catalogue.
    pub id: CheckId,
    /// Means that the check needs.
    pub need: Need,
    /// Generations of the protocol in which the check is a case of its own.
    pub generations: &'static [Generation],
    judge: Judge,
}

const NEWEST: &[Generation] = &[Generation::G3];
const EACH: &[Generation] = &Generation::ALL;

/// Builds one entry of the list of checks.
macro_rules! check {
    ($id:literal, $need:ident, $generations:expr, $judge:path) => {
        AutoscalerCheck {
            id: CheckId::new($id),
            need: Need::$need,
            generations: $generations,
            judge: |trial| Box::pin($judge(trial)),
        }
    };
}

impl AutoscalerCheck {
    /// Plays the check in one generation. Returns the verdict and the calls.
    ///
    /// A check that changed groups restores their sizes at the end. If that fails, a pass becomes
    /// inconclusive.
    pub async fn play(&self, subject: &Subject, generation: Generation) -> (Verdict, Transcript) {
        let transcript = Transcript::default();
        let trial = Trial::new(subject, generation, transcript.clone());
        if let Err(verdict) = self.can_run(subject) {
            return (verdict, transcript);
        }
        let before = match self.need {
            Need::Changes | Need::Acts => match trial.sizes().await {
                Ok(before) => Some(before),
                Err(why) => return (why, transcript),
            },
            Need::Reads | Need::Tls => None,
        };
        let outcome = (self.judge)(&trial).await;
        let restored = match before {
            Some(before) => trial.restore(&before).await,
            None => Ok(()),
        };
        let verdict = outcome.and(restored).err().unwrap_or(Verdict::Pass);
        (verdict, transcript)
    }

    fn can_run(&self, subject: &Subject) -> Outcome {
        match self.need {
            Need::Tls if !subject.endpoint.is_tls() => {
                Err(Verdict::not_supported("the server speaks plain text"))
            }
            Need::Changes | Need::Acts if !subject.may_change => {
                Err(Verdict::skipped("checks may not change the groups of this server"))
            }
            Need::Acts if subject.control.is_none() => {
                Err(Verdict::skipped("the lab can only send calls to this server"))
            }
            _ => Ok(()),
        }
    }
}

/// Returns every check, in the order of the catalogue.
pub fn all() -> Vec<AutoscalerCheck> {
    let mut all = vec![
        check!("CA-001", Reads, EACH, connection::needs_no_refresh),
        check!("CA-002", Reads, NEWEST, connection::refuses_unknown_methods),
        check!("CA-003", Tls, NEWEST, connection::refuses_clients_without_certificate),
        check!("CA-004", Tls, NEWEST, connection::refuses_strangers),
        check!("CA-005", Tls, NEWEST, connection::negotiates_http2),
        check!("CA-006", Reads, NEWEST, connection::ignores_unknown_fields),
        check!("CA-007", Reads, NEWEST, connection::answers_many_reads),
        check!("CA-008", Reads, NEWEST, groups::bounds_are_sound),
        check!("CA-009", Reads, NEWEST, groups::list_is_stable),
        check!("CA-010", Reads, NEWEST, groups::text_for_logs_is_harmless),
        check!("CA-011", Changes, NEWEST, groups::knows_its_instances),
        check!("CA-012", Reads, NEWEST, groups::unknown_id_is_no_error),
        check!("CA-013", Reads, NEWEST, groups::foreign_nodes_are_no_error),
        check!("CA-014", Reads, NEWEST, groups::template_nodes_are_no_error),
        check!("CA-015", Reads, NEWEST, groups::request_without_node_is_answered),
        check!("CA-016", Changes, NEWEST, groups::bounds_agree),
        check!("CA-017", Reads, NEWEST, labels::gpu_label_is_constant),
        check!("CA-018", Reads, NEWEST, labels::gpu_types_are_readable),
        check!("CA-019", Reads, NEWEST, labels::gpu_label_marks_gpu_nodes),
        check!("CA-020", Reads, EACH, labels::node_price_is_proportional),
        check!("CA-021", Reads, EACH, labels::pod_price_is_proportional),
        check!("CA-022", Reads, NEWEST, labels::refresh_is_cheap),
        check!("CA-023", Changes, NEWEST, labels::refresh_changes_nothing),
        check!("CA-024", Changes, NEWEST, labels::cleanup_changes_nothing),
        check!("CA-025", Reads, NEWEST, listing::size_of_groups),
        check!("CA-026", Changes, NEWEST, listing::ids_are_unique),
        check!("CA-027", Acts, NEWEST, listing::states_and_errors_are_known),
        check!("CA-028", Changes, NEWEST, listing::instances_have_a_state),
        check!("CA-029", Reads, EACH, listing::template_is_never_empty),
        check!("CA-030", Reads, EACH, listing::template_has_both_fields),
        check!("CA-031", Reads, EACH, listing::template_has_resources),
        check!("CA-032", Reads, EACH, listing::template_has_platform),
        check!("CA-033", Reads, EACH, listing::template_is_like_a_ready_node),
        check!("CA-034", Reads, NEWEST, listing::groups_at_zero_have_a_template),
        check!("CA-035", Reads, NEWEST, listing::template_of_unknown_group_fails),
        check!("CA-036", Reads, EACH, options::all_fields_are_set),
        check!("CA-037", Reads, EACH, options::defaults_of_each_generation_count),
        check!("CA-038", Reads, EACH, options::changed_defaults_are_followed),
        check!("CA-039", Reads, NEWEST, options::groups_without_overrides_return_none),
        check!("CA-040", Reads, NEWEST, options::groups_are_not_all_or_nothing),
        check!("CA-041", Reads, EACH, options::values_are_sound),
    ];
    all.extend(changes());
    all
}

/// Returns the checks of changes.
fn changes() -> Vec<AutoscalerCheck> {
    vec![
        check!("CA-042", Changes, NEWEST, increase::raises_the_size),
        check!("CA-043", Changes, NEWEST, increase::by_nothing_is_refused),
        check!("CA-044", Changes, NEWEST, increase::above_the_maximum_is_refused),
        check!("CA-045", Changes, NEWEST, increase::of_unknown_group_is_refused),
        check!("CA-046", Acts, NEWEST, increase::is_all_or_nothing),
        check!("CA-047", Changes, NEWEST, increase::concurrent_ones_keep_the_maximum),
        check!("CA-048", Changes, NEWEST, increase::lists_each_instance_soon),
        check!("CA-049", Acts, NEWEST, increase::keeps_the_id),
        check!("CA-050", Acts, NEWEST, increase::lack_of_capacity_is_shown),
        check!("CA-051", Acts, NEWEST, increase::wrong_configuration_is_shown),
        check!("CA-052", Changes, NEWEST, delete::removes_the_named_instance),
        check!("CA-053", Changes, NEWEST, delete::repeated_one_changes_nothing),
        check!("CA-054", Changes, NEWEST, delete::accepts_made_up_nodes),
        check!("CA-055", Acts, NEWEST, delete::removes_failed_creations),
        check!("CA-056", Changes, NEWEST, delete::refuses_nodes_of_other_groups),
        check!("CA-057", Changes, NEWEST, delete::refuses_the_whole_list),
        check!("CA-058", Changes, NEWEST, delete::keeps_the_minimum),
        check!("CA-059", Changes, NEWEST, delete::counts_a_node_once),
        check!("CA-060", Changes, NEWEST, delete::of_nothing_is_accepted),
        check!("CA-061", Acts, NEWEST, delete::does_not_wait),
        check!("CA-062", Changes, NEWEST, decrease::by_nothing_is_refused),
        check!("CA-063", Changes, NEWEST, decrease::keeps_existing_machines),
        check!("CA-064", Acts, NEWEST, decrease::gives_up_what_has_not_begun),
        check!("CA-065", Acts, NEWEST, decrease::and_deletion_count_once),
        check!("CA-066", Acts, NEWEST, failures::a_machine_destroyed_by_others_leaves),
        check!("CA-067", Acts, NEWEST, failures::an_outage_of_the_backend_is_shown),
        check!("CA-068", Acts, NEWEST, failures::a_restart_keeps_an_increase),
        check!("CA-069", Acts, NEWEST, failures::a_restart_keeps_a_deletion),
        check!("CA-070", Changes, NEWEST, history::random_operations_keep_the_invariants),
        check!("CA-071", Changes, NEWEST, failures::canceled_calls_are_whole),
        check!("CA-072", Changes, NEWEST, listing::fits_the_largest_message),
        check!("CA-073", Tls, NEWEST, connection::health_is_not_weaker),
        check!("CA-074", Changes, EACH, model::one_pod_adds_one_node),
        check!("CA-075", Changes, EACH, model::a_node_that_never_registers_is_removed),
        check!("CA-076", Acts, EACH, model::reverted_scale_up_counts_once),
    ]
}
