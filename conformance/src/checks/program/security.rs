//! SEC-001, SEC-004 and CCM-014: secrecy of credentials in logs, and the rights that a provider
//! needs.

use std::time::Duration;

use serde_json::json;
use sim::faults::{Action, HttpStatus, Rule, Spoil};
use sim::ledger::Record;
use sim::world::vcenter::Password;
use sim::world::{Command, PROVIDER_USER, Topology};
use sim::{Class, Face};

use crate::checks::build::{
    GRACE, SETTLED, T_INIT, T_LIFE, create_joining_machine, machine, patch, s, set_address, world,
};
use crate::checks::canary::Canary;
use crate::checks::queries::{name, names};
use crate::checks::{Case, Check};
use crate::judge::verdict::Verdict;
use crate::lab::Run;
use crate::scenario::{Act, Backend, Scenario};

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    let mut rights = vec![documented(backend)];
    rights.extend(missing_in_cluster(backend));
    rights.extend(missing_in_cloud(backend));
    vec![
        Check::new("SEC-001", [credentials_replaced(backend)]),
        Check::new("SEC-004", rights),
        Check::new("CCM-014", [in_the_table(backend), in_the_table(backend).electing()]),
    ]
}

/// A password with characters that XML, JSON and URLs escape.
const PASSWORD: &str = "n3w&pa<ss>/\"w%rd'1";
/// Name of the Secret that contains the credentials.
const SECRET: &str = "credentials";

/// Creates a case in which the backend accepts, then refuses and finally accepts the provider's
/// credentials again. A vCenter also cuts some answers with session ids short. The invariant
/// `NoSecretTold` searches the outputs of the run for secrets. The judge here only requires that
/// these events occurred, that the log covers them, and that the provider initialized the nodes.
fn credentials_replaced(backend: Backend) -> Case {
    let (refused, known) = (s(120), s(200));
    let scenario = world(4, s(550)).with_provider(|it| it.verbose = true);
    let scenario = match backend {
        Backend::VCenter => {
            let user = PROVIDER_USER.to_owned();
            let password = Password::new(PASSWORD);
            let login = ["Login", "cis.session.create"];
            let short = Action::Spoil(Spoil::CutShort(70));
            let unreadable = login
                .into_iter()
                .map(|op| Rule::new(format!("unreadable/{op}"), [short.clone()]).op([op]).first(1));
            let scenario = scenario
                .with_provider(|it| it.secret = Some(SECRET.to_owned()))
                .at(refused, Command::RotatePassword { vcenter: None, user, password })
                .at(refused, backend.disconnect())
                .at(known, Act::Secret { name: SECRET.to_owned(), password: PASSWORD.to_owned() });
            unreadable.fold(scenario, |scenario, rule| scenario.at(SETTLED, rule))
        }
        Backend::Supervisor => {
            let status = Action::status(401);
            scenario
                .at(refused, Rule::new("refused", [status]).on(Face::Supervisor).first(2))
                .at(known, Act::Token { grace: Duration::ZERO })
                .at(known + s(100), backend.disconnect())
        }
    };
    let scenario = scenario
        .at(SETTLED, backend.disconnect())
        .at(refused, backend.disconnect())
        .at(refused + s(10), create_joining_machine("newcomer", None));
    Case::new(scenario, move |run| {
        let is_credential = |call: &&Record| match backend {
            Backend::VCenter => call.op == "Login",
            Backend::Supervisor => call.face == Some(Face::Supervisor),
        };
        let is_refusal = |call: &Record| {
            call.ended.as_ref().is_some_and(|ended| {
                ended.status == Some(401) || ended.fault.as_deref() == Some("InvalidLogin")
            })
        };
        let uses = || run.calls().filter(is_credential);
        let was_used = uses().any(|call| call.succeeded() && call.t.since_start() < refused);
        let was_refused = uses().any(is_refusal);
        let is_new = uses().any(|call| call.succeeded() && call.t.since_start() > known);
        if !(was_used && was_refused && is_new) {
            return Verdict::inconclusive(format!(
                "the credentials have to be accepted, refused and accepted again; they were: {was_used}, {was_refused}, {is_new}"
            ));
        }
        // Requires log lines after the refusal, so that the log covers the time of the credentials.
        let n_lines = run.logged_after(refused).count();
        if n_lines == 0 || (!run.hosted && run.debug_words.is_empty()) {
            return Verdict::inconclusive("the provider logged nothing after its credentials were refused");
        }
        // The invariant `NoSecretTold`, judged for every run, searches for the secrets.
        run.initializes(&names(4), s(0), SETTLED)
    })
    .canary(Canary::Gone(4), s(500))
}

/// Returns a scenario whose events make a provider use each of its rights.
fn life() -> Scenario {
    let beta_alone = json!({"metadata": {"labels": {
        "topology.kubernetes.io/zone": null,
        "failure-domain.beta.kubernetes.io/zone": "zone-b",
    }}});
    Scenario::new("", Topology::zones(3).machines(6), s(600))
        .at(SETTLED, create_joining_machine("newcomer", None))
        .at(SETTLED, patch(&name(2), beta_alone))
        .at(SETTLED, set_address(3, &["10.6.0.1"]))
        .at(SETTLED + s(10), Command::PowerOff(machine(4)))
        .at(SETTLED + s(20), Command::DeleteMachine(machine(5)))
}

/// Moves the credentials to a Secret in vCenter mode, so that the provider has to read it.
fn with_secret(backend: Backend, scenario: Scenario) -> Scenario {
    scenario.with_provider(|it| it.secret = backend.is_vcenter().then(|| SECRET.to_owned()))
}

/// Creates a case in which a provider with the documented roles must do all its work without a
/// refused call. Its vCenter account may only read.
fn documented(backend: Backend) -> Case {
    Case::new(with_secret(backend, life()), |run| {
        let refused = run.calls().find(|call| {
            call.ended.as_ref().is_some_and(|ended| {
                matches!(ended.status, Some(401 | 403))
                    || matches!(ended.fault.as_deref(), Some("NoPermission" | "unauthorized"))
            })
        });
        whole_surface(run).and(|| changes_no_inventory(run)).and(|| {
            Verdict::pass_if(refused.is_none(), || {
                format!(
                    "a server refused a call for lack of rights: {}",
                    refused.map(ToString::to_string).unwrap_or_default()
                )
            })
        })
    })
    .named("the documented role")
}

/// Passes if the provider did all its kinds of work in [`life`]: initialization, zone, new address,
/// shutdown taint and deletion.
fn whole_surface(run: &Run) -> Verdict {
    let bound = SETTLED + GRACE + T_LIFE * 3;
    let zoned = run.node(&name(1)).is_some_and(|node| node.labels[0].as_deref() == Some("zone-a"));
    let marked = run.when(&name(4), |node| node.shutdown);
    let gone = run.deleted(&name(5));
    let shown = run.when(&name(3), |node| node.ips().any(|ip| ip == "10.6.0.1"));
    run.initializes(&names(6), s(0), T_INIT).and(|| {
        let is_in_time = [marked, gone].iter().all(|at| at.is_some_and(|at| at.since_start() < bound));
        Verdict::pass_if(zoned && is_in_time && shown.is_some(), || {
            format!(
                "the provider did not do all its work in time; zone: {zoned}, shutdown taint: {marked:?}, deletion: {gone:?}, new address: {shown:?}"
            )
        })
    })
}

/// Write operations of vCenter that affect only the caller's session.
const OF_SESSION: [&str; 9] = [
    "CreateFilter",
    "DestroyPropertyFilter",
    "CreateListView",
    "ModifyListView",
    "ResetListView",
    "CreateContainerView",
    "DestroyView",
    "CreatePropertyCollector",
    "DestroyPropertyCollector",
];

/// Fails if the provider changed the inventory of a vCenter or an object of the Supervisor.
fn changes_no_inventory(run: &Run) -> Verdict {
    let changes = |call: &Record| match call.face {
        Some(Face::Soap | Face::Vapi) => {
            call.class == Some(Class::Task)
                || (call.class == Some(Class::Write) && !OF_SESSION.contains(&call.op.as_str()))
        }
        Some(Face::Supervisor) => call.class == Some(Class::Write),
        _ => false,
    };
    let change = run.calls().find(|call| changes(call));
    Verdict::pass_if(change.is_none(), || {
        format!(
            "the provider changed something in its backend, but may only read: {}",
            change.map(ToString::to_string).unwrap_or_default()
        )
    })
}

impl Case {
    /// Turns leader election on, with one replica.
    fn electing(mut self) -> Self {
        self.scenario.provider.leader_election = true;
        self.named("with an election")
    }
}

/// Verbs, resource and API group of a right to Kubernetes objects.
type Right = (&'static [&'static str], &'static str, &'static str);

/// Rights in the workload cluster whose absence a provider must report with either backend. Each
/// case removes one entry.
const IN_CLUSTER: [Right; 6] = [
    (&["list"], "nodes", ""),
    (&["watch"], "nodes", ""),
    (&["patch", "update"], "nodes", ""),
    (&["patch", "update"], "nodes/status", ""),
    (&["delete"], "nodes", ""),
    (&["create", "get", "update"], "leases", "coordination.k8s.io"),
];

fn missing_in_cluster(backend: Backend) -> Vec<Case> {
    let mut rights = IN_CLUSTER.to_vec();
    if backend.is_vcenter() {
        rights.push((&["get", "list", "watch"], "secrets", ""));
    }
    rights.into_iter().map(|right| missing(backend, Face::Cluster, right)).collect()
}

fn missing_in_cloud(backend: Backend) -> Vec<Case> {
    match backend {
        Backend::VCenter => vec![unseen(), untagged()],
        Backend::Supervisor => {
            let rights: [Right; 2] = [
                (&["list"], "virtualmachines", "vmoperator.vmware.com"),
                (&["watch", "get"], "virtualmachines", "vmoperator.vmware.com"),
            ];
            rights.into_iter().map(|right| missing(backend, Face::Supervisor, right)).collect()
        }
    }
}

/// Returns the scenario of [`life`], shortened to 200 s, with a restart of the provider at
/// [`SETTLED`]. After the restart the provider needs each right again.
fn restarted(backend: Backend) -> Scenario {
    let scenario = Scenario { horizon: s(200), ..with_secret(backend, life()) };
    scenario.at(SETTLED, Act::Crash(0)).at(SETTLED + s(1), Act::Start(0))
}

/// Creates a case in which the role lacks one right from [`SETTLED`] on. The API server refuses the
/// calls with its usual message, and a log line or an event must name the right.
fn missing(backend: Backend, face: Face, (verbs, resource, group): Right) -> Case {
    let is_lease = resource == "leases";
    let mut scenario = restarted(backend).with_provider(|it| it.leader_election = is_lease);
    for verb in verbs {
        let message = format!(
            "{resource} is forbidden: User \"system:serviceaccount:kube-system:cloud-controller-manager\" cannot {verb} resource \"{resource}\" in API group \"{group}\""
        );
        let status = Action::from(HttpStatus::new(403).message(message));
        let operation = format!("{verb} {resource}");
        let rule = Rule::new(format!("forbidden/{verb}"), [status]).on(face);
        scenario = scenario.at(SETTLED, rule.op([operation.as_str()]));
    }
    Case::new(scenario, move |run| {
        named(run, &|text| {
            verbs
                .iter()
                .any(|verb| text.contains(&format!("cannot {verb} resource \"{resource}\"")))
        })
    })
    .named(format!("without {} of {resource}", verbs.join(", ")))
}

/// Passes if `says` is true for a log line after [`SETTLED`] or for the message of an event,
/// because this text then names the missing right.
fn named(run: &Run, says: &dyn Fn(&str) -> bool) -> Verdict {
    let events = run.events().into_iter().map(|event| event.message);
    let logged = || run.logged_after(SETTLED);
    let mut texts = logged().map(|line| line.replace('\\', "")).chain(events);
    let told = logged().find(|line| line.contains("forbidden") || line.contains("NoPermission"));
    let told = told.unwrap_or_default();
    Verdict::pass_if(texts.any(|text| says(&text)), || {
        format!(
            "neither a log line nor an event names the missing right; the nearest log line is: {told}"
        )
    })
}

/// Creates a case in which the vCenter account lacks `System.Read` on the machines. A log line or
/// an event must name the right.
fn unseen() -> Case {
    let fault = Action::soap_fault("NoPermission");
    let operations = Backend::VCenter.operations().iter().copied();
    let rule = Rule::new("forbidden", [fault]).on(Face::Soap).op(operations);
    Case::new(restarted(Backend::VCenter).at(SETTLED, rule), |run| {
        named(run, &|text| text.contains("NoPermission") && text.contains("System.Read"))
    })
    .named("without System.Read")
}

/// Creates a case in which the vCenter account may not read tags. A log line or an event must
/// report this.
fn untagged() -> Case {
    let status = Action::status(403);
    let rule = Rule::new("forbidden", [status]).on(Face::Vapi).op(["tagging.*"]);
    Case::new(restarted(Backend::VCenter).at(SETTLED, rule), |run| {
        named(run, &|text| text.contains("tag") && text.contains("403"))
    })
    .named("without the right to read tags")
}

/// Verbs and resources of Kubernetes requests that the framework's table of rights or upstream's
/// manifests permit.
const TABLE: [(&[&str], &str); 17] = [
    (&["get", "list", "watch", "update", "patch", "delete"], "nodes"),
    (&["patch"], "nodes/status"),
    (&["create", "patch", "update"], "events"),
    (&["get", "create", "update"], "leases"),
    (&["get", "list", "watch"], "secrets"),
    (&["get", "list", "watch"], "configmaps"),
    (&["list", "watch", "get", "patch"], "services"),
    (&["patch"], "services/status"),
    (&["get", "list", "watch"], "endpoints"),
    (&["get", "list", "watch"], "endpointslices"),
    (&["create"], "tokenreviews"),
    (&["create"], "subjectaccessreviews"),
    (&["get", "create"], "serviceaccounts"),
    (&["create"], "serviceaccounts/token"),
    (&["get", "create"], "namespaces"),
    (&["get", "list", "watch"], "virtualmachines"),
    (&["get"], "/healthz"),
];

/// Creates a case in which every Kubernetes request of the provider must be in [`TABLE`], and no
/// patch of a Node may contain a status. The provider must do all its work, and must not change the
/// inventory.
fn in_the_table(backend: Backend) -> Case {
    Case::new(with_secret(backend, life()), |run| {
        let of_api = |call: &&Record| call.face.is_some_and(Face::is_kubernetes);
        let is_known = |call: &Record| {
            let operation = call.op.split_once(' ');
            operation.is_some_and(|(verb, resource)| {
                TABLE.iter().any(|(verbs, of)| *of == resource && verbs.contains(&verb))
            })
        };
        let unknown = run.calls().filter(of_api).find(|call| !is_known(call));
        // Finds a patch of the Node itself that contains a status. The status belongs to the
        // subresource.
        let status = run
            .calls()
            .find(|call| call.op == "patch nodes" && call.req.detail.contains("\"status\":"));
        Verdict::pass_if(unknown.is_none(), || {
            let call = unknown.map(ToString::to_string).unwrap_or_default();
            format!("no documented role permits this request: {call}")
        })
        .and(|| {
            Verdict::pass_if(status.is_none(), || {
                let call = status.map(ToString::to_string).unwrap_or_default();
                format!("the provider wrote a status without the subresource nodes/status: {call}")
            })
        })
        .and(|| changes_no_inventory(run))
        // Requires all the work, because a provider without requests would pass otherwise.
        .and(|| whole_surface(run))
    })
}
