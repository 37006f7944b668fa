//! Snapshots of the bytes of answers, at least one successful answer of every operation. Line
//! breaks between XML elements make the snapshots readable.
//!
//! A scenario is a client's exchange with a new sim. [`Snapshots`] compares each answer with its
//! snapshot, and finds the name of the answered operation in the ledger. The test
//! `every_operation_has_a_snapshot_of_its_answer` fails for an operation without a snapshot of a
//! successful answer. A REST operation needs one in each of the two dialects.

mod libraries;
mod objects;
mod reads;
mod refusals;
mod rest;
mod works;

use std::collections::BTreeSet;

use base64::Engine as _;
use http::Method;
use sim::ledger::Kind;
use sim::world::{ADMINISTRATOR, Nodes, Topology};
use sim::{Face, Sim};

use crate::client::{Answer, Client};

const CONTENT: (&str, &str) = ("ServiceInstance", "ServiceInstance");

/// Declares scenarios: makes each a test, and defines the function `covered` over all of them.
macro_rules! scenarios {
    ($($module:ident::$name:ident,)*) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $name() {
                $module::$name(&mut Snapshots::default()).await;
            }
        )*

        /// Runs all scenarios without comparisons. Returns the operations that succeed in at least
        /// one.
        async fn covered() -> BTreeSet<DialectOperation> {
            let mut shots = Snapshots { only_count: true, ..Snapshots::default() };
            $($module::$name(&mut shots).await;)*
            shots.spoken
        }
    };
}

scenarios! {
    reads::first_contact,
    reads::the_shapes_that_a_cloud_provider_reads,
    reads::pages,
    reads::searches,
    reads::updates,
    reads::other_ways_to_find_and_read,
    reads::views_and_collectors,
    reads::sessions,
    objects::every_type_with_all_its_properties,
    objects::a_machine_in_every_state,
    works::tasks,
    works::tasks_that_fail,
    works::guests,
    refusals::faults,
    refusals::every_fault_class,
    refusals::denied_and_unavailable,
    refusals::too_many_sessions,
    rest::rest_in_both_dialects,
    rest::tagging_in_both_dialects,
    libraries::libraries_in_both_dialects,
}

/// The dialect of a call (`soap`, `rest` or `api`) and the name of its operation.
type DialectOperation = (&'static str, String);

/// Compares answers with their snapshots, and records the operations of the successful calls.
#[derive(Default)]
struct Snapshots {
    only_count: bool,
    spoken: BTreeSet<DialectOperation>,
}

impl Snapshots {
    /// Compares the answer to the last call of `sim` with the snapshot `name`, and records the
    /// operation of the call if it succeeded.
    fn take(&mut self, sim: &Sim, name: &str, answer: &Answer) {
        let mut records = sim.ledger().records().into_iter().rev();
        let call = records.find(|record| record.kind == Kind::Call).expect("a call was answered");
        let dialect = match call.face {
            Some(Face::Vapi) if name.starts_with("rest_") => "rest",
            Some(Face::Vapi) if name.starts_with("api_") => "api",
            Some(Face::Vapi) => panic!("the name {name} does not start with rest_ or api_"),
            _ => "soap",
        };
        if call.succeeded() {
            self.spoken.insert((dialect, call.op));
        }
        self.compare(name, &bytes(answer));
    }

    fn compare(&self, name: &str, text: &str) {
        if !self.only_count {
            insta::assert_snapshot!(name, text);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_operation_has_a_snapshot_of_its_answer() {
    let spoken = covered().await;
    let dialects = |face| match face {
        Face::Vapi => &["rest", "api"][..],
        // The sim does not answer these calls itself.
        Face::Autoscaler => &[],
        _ => &["soap"],
    };
    let missing: Vec<DialectOperation> = sim::operations()
        .flat_map(|(face, name)| dialects(face).iter().map(move |it| (*it, name.to_owned())))
        .filter(|operation| !spoken.contains(operation))
        .collect();
    assert!(missing.is_empty(), "no scenario has an answer to {missing:?}: write one");
}

/// The text of a snapshot: status, selected headers and body.
fn bytes(answer: &Answer) -> String {
    let mut out = format!("{}\n", answer.status);
    for name in ["content-type", "cache-control", "set-cookie", "www-authenticate", "retry-after"] {
        if let Some(value) = answer.headers.get(name) {
            out.push_str(&format!("{name}: {}\n", value.to_str().expect("text")));
        }
    }
    format!("{out}\n{}", answer.body.replace("><", ">\n<"))
}

fn lab() -> Sim {
    Sim::builder().topology(Topology::zones(2).machines(3).nodes(Nodes::Count(0))).start()
}

fn basic(sim: &Sim) -> String {
    let password = sim.password("vc0", ADMINISTRATOR).expect("the administrator has an account");
    let text = format!("{ADMINISTRATOR}:{}", password.expose());
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(text))
}

/// Opens a vAPI session and returns its token.
pub(crate) async fn rest_login(sim: &Sim, client: &mut Client) -> String {
    let basic = basic(sim);
    let headers = [("authorization", basic.as_str()), ("vmware-use-header-authn", "true")];
    let answer = client.rest(Method::POST, "/api/session", &headers, "").await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    answer.body.trim_matches('"').to_owned()
}
