//! CCM-010, CCM-011, CCM-026 and CCM-029: valid and invalid flags of Kubernetes' cloud controller
//! managers.

use std::time::Duration;

use sim::faults::{Action, Rule};
use sim::world::{Command, objects::GroupResource};
use sim::{Class, Face};

use super::configuration;
use crate::checks::build::{
    GRACE, T_INIT, T_LIFE, create_joining_machine, machine, s, vanishing, world,
};
use crate::checks::queries::{name, names};
use crate::checks::{Case, Check};
use crate::judge::terms;
use crate::judge::verdict::{AboutMoment as _, Verdict, when};
use crate::lab::{Exit, Run, Scrape, sum};
use crate::scenario::{Act, Backend, Initializer, Pace, Scenario};

/// Duration of a case in which the provider either exits at its start or initializes one node.
const SHORT: Duration = s(20);

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    let mut refused: Vec<Case> = vec![valid()];
    refused.extend(INVALID.iter().map(|flags| ends_at_start(flags)));
    let panics = Pace::Virtual("client-go panics on this command line");
    refused.extend(CONTRADICTIONS.iter().map(|flags| ends_at_start(flags).paced(panics)));
    refused.push(no_worker());
    refused.extend(INVALID_LABELS.iter().map(|flags| ends_at_start(flags)));
    match backend {
        Backend::VCenter => refused.extend(configuration::refused()),
        Backend::Supervisor => {
            refused.extend(INVALID_SUPERVISOR.iter().map(|it| ends_at_start(it)))
        }
    }
    let mut read: Vec<Case> = DURATIONS.iter().map(|text| lease_lasts(text)).collect();
    read.extend(BOOLEANS.iter().map(|(flag, elects)| elects_as_flag_says(flag, *elects)));
    read.extend(ACCEPTED.iter().map(|flags| starts(flags)));
    let registered =
        Pace::Virtual("not every cloud controller manager registers the log format json");
    read.push(starts(&["--logging-format=json"]).paced(registered));
    read.push(another_lease());
    let mut checks = vec![
        Check::new("CCM-010", SELECTIONS.iter().map(|it| selected(backend, it))),
        Check::new("CCM-011", refused),
        Check::new("CCM-026", read),
    ];
    let mut named: Vec<Case> = IDLE.iter().map(|flag| names_idle_flag(flag)).collect();
    if backend.is_vcenter() {
        checks.push(Check::new("CCM-027", configuration::read()));
        named.extend(IDLE_VCENTER.iter().map(|flag| names_idle_flag(flag)));
        named.extend(configuration::named());
    } else {
        named.extend(IDLE_SUPERVISOR.iter().map(|flag| names_idle_flag(flag)));
    }
    named.push(workers(backend));
    checks.push(Check::new("CCM-029", named));
    checks
}

/// Flags of Kubernetes' framework that have no effect in a provider without load balancers and
/// routes.
const IDLE: &[&str] = &["--configure-cloud-routes=true", "--cluster-cidr=10.0.0.0/8"];

/// Flags that have an effect only in Supervisor mode; the cases set them in vCenter mode.
const IDLE_VCENTER: &[&str] = &["--cluster-ip-family=ipv4", "--vm-operator-api-version=v1alpha2"];

/// Flags that have an effect only in vCenter mode; the cases set them in Supervisor mode.
const IDLE_SUPERVISOR: &[&str] = &["--node-labels=a=b"];

/// Creates a case in which the log must name a flag that is set and has no effect, and the provider
/// must initialize the node.
fn names_idle_flag(flag: &'static str) -> Case {
    let name = flag.split('=').next().unwrap_or(flag);
    Case::new(with_flags(&[flag], SHORT), move |run| logs(run, name)).named(flag)
}

/// Creates a case in which eight nodes join and each call to the backend takes a second. The eight
/// workers have an effect if the last node is initialized by twice the time of the first plus 2 s.
/// Then the log must not say that the flag has no effect. Otherwise the log must name the flag.
fn workers(backend: Backend) -> Case {
    const FLAG: &str = "--concurrent-node-syncs";
    const WORKERS: u32 = 8;
    let faces: &[Face] = match backend {
        Backend::VCenter => &[Face::Soap, Face::Vapi],
        Backend::Supervisor => &[Face::Supervisor],
    };
    let mut scenario = world(WORKERS, s(300)).with_provider(|it| it.workers = WORKERS as usize);
    for (n, face) in faces.iter().enumerate() {
        scenario = scenario.fault(Rule::new(format!("slow/{n}"), [Action::Delay(s(1))]).on(*face));
    }
    Case::new(scenario, |run| {
        let done: Vec<Duration> = names(WORKERS)
            .iter()
            .filter_map(|it| Some(run.initialized(it)?.since_start()))
            .collect();
        let (first, last) = (done.iter().min(), done.iter().max());
        let has_effect = first.zip(last).is_some_and(|(first, last)| *last <= *first * 2 + s(2));
        let is_disowned =
            run.logs.lines().any(|line| line.contains(FLAG) && line.contains("no effect"));
        let times = || {
            format!(
                "the first of {WORKERS} nodes was initialized {first}, the last {last}", first = when(first.copied()), last = when(last.copied())
            )
        };
        run.initializes(&names(WORKERS), s(0), s(240))
            .and(|| {
                Verdict::pass_if(has_effect || run.logs.contains(FLAG), || {
                    format!(
                        "{}; so {FLAG}={WORKERS} has no effect, but no line of the log names the flag",
                        times()
                    )
                })
            })
            .and(|| {
                Verdict::pass_if(!(has_effect && is_disowned), || {
                    format!("{}; so {FLAG}={WORKERS} has an effect, but the log says that it has none", times())
                })
            })
    })
    .named(format!("{FLAG}={WORKERS}"))
}

/// Fails unless the log contains the name of this flag or key and the first node is initialized.
pub(super) fn logs(run: &Run, text: &str) -> Verdict {
    Verdict::pass_if(run.logs.contains(text), || {
        format!("{text} has no effect in this provider, but no line of its log names it")
    })
    .and(|| run.initializes(&names(1), s(0), T_INIT))
}

/// Returns a scenario in which the command line has these additional flags and one node joins.
fn with_flags(flags: &[&str], horizon: Duration) -> Scenario {
    let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    world(1, horizon).with_provider(|it| it.flags = flags)
}

/// A row of [`SELECTIONS`]: the flags of a command line; true if they select the controller
/// `cloud-node`, which initializes nodes; and true if they select `cloud-node-lifecycle`, which
/// taints and deletes nodes that are not Ready.
type Selection = (&'static [&'static str], bool, bool);

/// Selections by the rules of `k8s.io/controller-manager: app/helper.go: IsControllerEnabled`. The
/// first entry that names a controller decides about it. `*` stands for the controllers that no
/// entry names. Entries of repeated flags form one list.
const SELECTIONS: &[Selection] = &[
    (&[], true, true),
    (&["--controllers=*"], true, true),
    (&["--controllers=cloud-node"], true, false),
    (&["--controllers=cloud-node-controller"], true, false),
    (&["--controllers=cloud-node-lifecycle"], false, true),
    (&["--controllers=cloud-node-lifecycle-controller"], false, true),
    (&["--controllers=*,-service"], true, true),
    (&["--controllers=*,-cloud-node"], false, true),
    (&["--controllers=-cloud-node-lifecycle,*"], true, false),
    (&["--controllers=cloud-node,-cloud-node"], true, false),
    (&["--controllers=cloud-node", "--controllers=cloud-node-lifecycle"], true, true),
];

/// Creates a case in which the machine of an initialized node is powered off and a new node joins.
/// The provider must set the shutdown taint if, and only if, the flags select the lifecycle
/// controller, and initialize the new node if, and only if, they select the node controller.
fn selected(backend: Backend, (flags, initializes, judges): &Selection) -> Case {
    let (initializes, judges) = (*initializes, *judges);
    let (off, joins) = (s(30), s(40));
    let by = off + vanishing(backend) + GRACE + T_LIFE;
    let scenario = with_flags(flags, by + s(5))
        .with_provider(|it| it.start = false)
        .at(s(5), Act::Initialize { node: None, by: Initializer::Upstream })
        .at(s(6), Act::StartAll)
        .at(off, Command::PowerOff(machine(1)))
        .at(joins, create_joining_machine("newcomer", None));
    Case::new(scenario, move |run| {
        let is_open = run.initialized("newcomer").is_some();
        let is_marked = run.when(&name(1), |node| node.shutdown).is_some();
        run.was_not_ready(&name(1))
            .and(|| {
                Verdict::pass_if(is_open == initializes, || {
                    let how = if is_open { "was initialized" } else { "was not initialized" };
                    let wanted = if initializes { "selects" } else { "leaves out" };
                    format!("the new node {how}, but the command line {wanted} the controller cloud-node")
                })
            })
            .and(|| {
                Verdict::pass_if(is_marked == judges, || {
                    let how = if is_marked { "got the shutdown taint" } else { "got no shutdown taint" };
                    let wanted = if judges { "selects" } else { "leaves out" };
                    let what = "the node of a powered-off machine";
                    format!("{what} {how}, but the command line {wanted} the controller cloud-node-lifecycle")
                })
            })
            .and(|| counts_controllers(run, u8::from(initializes) + u8::from(judges)))
    })
    .named(if flags.is_empty() { "no flag".to_owned() } else { flags.join(" ") })
}

/// Fails if the lab read metrics and they report a number of running controllers other than
/// `wanted`.
fn counts_controllers(run: &Run, wanted: u8) -> Verdict {
    let samples = run.scrapes.last().map(Scrape::samples);
    let running = samples.map(|it| sum(&it, "running_managed_controllers", &[]));
    Verdict::pass_if(running.is_none_or(|it| it == f64::from(wanted)), || {
        format!(
            "running_managed_controllers is {running:?}, but the command line selects {wanted} controllers"
        )
    })
}

/// Creates the control case: the world of the invalid command lines, with a valid one.
fn valid() -> Case {
    Case::new(with_flags(&[], SHORT), |run| run.initializes(&names(1), s(0), T_INIT))
        .named("a valid command line")
}

/// Flag that opens the HTTPS endpoint. Without it a provider does not read the other flags of the
/// endpoint.
const PORT: &str = "--secure-port=$(port)";

/// Command lines with durations of a leader election that contradict each other. The cases run only
/// in virtual time, because client-go panics on such values, and a check should not demand a panic.
const CONTRADICTIONS: &[&[&str]] = &[
    &["--leader-elect", "--leader-elect-lease-duration=10s"],
    &["--leader-elect", "--leader-elect-renew-deadline=2s"],
    &["--leader-elect", "--leader-elect-renew-deadline=2.4s"],
];

/// Command lines that a cloud controller manager rejects, because it lacks a flag, because a value
/// is invalid, or because two values contradict each other.
const INVALID: &[&[&str]] = &[
    &["--no-such-flag"],
    &["--controllers=nope"],
    &["--controllers=*,-nope"],
    &["--cloud-provider=nope"],
    &["--cloud-config="],
    &["--concurrent-node-syncs=x"],
    &["--kube-api-qps=x"],
    &["--kube-api-burst=x"],
    &["--kube-api-qps=5", "--kube-api-burst=0"],
    &["--node-monitor-period=5"],
    &["--node-monitor-period=5 s"],
    &["--node-monitor-period=5d"],
    &["--node-monitor-period="],
    &["--node-monitor-period=s"],
    &["--node-monitor-period=1m30"],
    &["--node-status-update-frequency=99999999999h"],
    &["--leader-elect=maybe"],
    &["--leader-elect", "--leader-elect-resource-lock=endpoints"],
    &["--secure-port=70000"],
    &["--bind-address=x"],
    &["--v=x"],
    &["--profiling=maybe"],
    &["--logging-format=xml"],
    &[PORT, "--tls-min-version=VersionTLS9"],
    &[PORT, "--tls-cipher-suites=NOPE"],
    &[PORT, "--tls-curve-preferences=1"],
    &[PORT, "--tls-cert-file=/nope"],
    &[PORT, "--tls-private-key-file=/nope"],
    &[PORT, "--authorization-always-allow-paths=/a*b"],
    &["--authentication-token-webhook-cache-ttl=soon"],
];

/// Command lines with invalid labels for nodes. A provider without `--node-labels` rejects them
/// because the flag is unknown.
const INVALID_LABELS: &[&[&str]] = &[
    &["--node-labels=nothing"],
    &["--node-labels=a=b,c"],
    &["--node-labels==b"],
    &["--node-labels=a b=c"],
    &["--node-labels=-a=c"],
    &["--node-labels=/a=c"],
    &["--node-labels=a/=c"],
    &["--node-labels=a/b/c=d"],
];

/// Command lines with invalid flags of Supervisor mode.
const INVALID_SUPERVISOR: &[&[&str]] = &[
    &["--vm-operator-api-version=v1alpha9"],
    &["--vm-operator-api-version="],
    &["--cluster-ip-family=ipv5"],
    &["--cluster-ip-family=ipv6"],
    &["--cluster-ip-family=ipv4ipv6", "--vm-operator-api-version=v1alpha5"],
    &["--enable-vpc-mode=true"],
    &["--enable-vpc-mode=true", "--pod-ip-pool-type=Shared"],
    &["--pod-ip-pool-type=Public"],
    &["--is-legacy-paravirtual=maybe"],
];

/// Creates a case in which the provider must exit with an error, before it acquires a lease or
/// writes anything to the cluster.
fn ends_at_start(flags: &[&str]) -> Case {
    Case::new(with_flags(flags, SHORT).with_provider(|it| it.once = true), ended_early)
        .named(flags.join(" "))
}

/// Creates a case with zero workers, which would never initialize a node. Upstream has a validation
/// of this number, but does not call it.
fn no_worker() -> Case {
    ends_at_start(&["--concurrent-node-syncs=0"])
        .paced(Pace::Virtual("upstream accepts zero workers and then initializes no node"))
}

/// Fails unless the provider exited with an error and wrote nothing to the cluster.
pub(super) fn ended_early(run: &Run) -> Verdict {
    let write = run.calls().find(|call| call.class == Some(Class::Write) && call.is_cluster_call());
    let failed = matches!(run.exits.first(), Some(Exit::Failed(_)));
    Verdict::pass_if(failed, || {
        let how = run.exits.first().map_or("still runs".to_owned(), ToString::to_string);
        format!("the provider has to exit at its start with a code other than 0; it {how}")
    })
    .and(|| {
        Verdict::pass_if(write.is_none(), || {
            let call = write.map(ToString::to_string).unwrap_or_default();
            format!("the provider wrote to the cluster before it exited: {call}")
                .at(write.map(|it| it.t))
        })
    })
}

/// Spellings of ninety seconds that Go's `time.ParseDuration` accepts.
const DURATIONS: &[&str] = &[
    "90s",
    "1m30s",
    "1.5m",
    ".025h",
    "0h1m30s",
    "+90s",
    "90000ms",
    "1m29s1000ms",
    "90000000us",
    "90000000µs",
    "90000000000ns",
];

/// Creates a case in which the lease must have the duration of the flag, ninety seconds.
fn lease_lasts(text: &str) -> Case {
    let scenario = with_flags(&[&format!("--leader-elect-lease-duration={text}")], SHORT)
        .with_provider(|it| it.leader_election = true);
    Case::new(scenario, |run| {
        let lasts = terms(run).first().map(|term| term.lasts);
        Verdict::pass_if(lasts == Some(s(90)), || {
            format!("the duration of the lease is {lasts:?}, but the command line sets 90 s")
        })
        .and(|| run.initializes(&names(1), s(0), s(5) + T_INIT))
    })
    .named(format!("--leader-elect-lease-duration={text}"))
}

/// Flags with spellings of booleans that Go accepts, each with true if the provider must elect a
/// leader. The last flag on a command line decides.
const BOOLEANS: &[(&str, bool)] = &[
    ("--leader-elect", true),
    ("--leader-elect=T", true),
    ("--leader-elect=1", true),
    ("--leader-elect=TRUE", true),
    ("--leader_elect=t", true),
    ("--leader-elect=f", false),
    ("--leader-elect=0", false),
    ("--leader-elect=False", false),
    ("--leader-elect=true --leader-elect=false", false),
];

fn elects_as_flag_says(flags: &str, elects: bool) -> Case {
    let given: Vec<&str> = flags.split(' ').collect();
    let scenario = with_flags(&given, SHORT).with_provider(|it| it.leader_election = !elects);
    Case::new(scenario, move |run| {
        let has_lease = run.calls().any(|call| call.op.contains("leases"));
        Verdict::pass_if(has_lease == elects, || {
            let how = if has_lease { "requested" } else { "did not request" };
            format!(
                "the provider {how} a lease, but leader election on the command line is {elects}"
            )
        })
        .and(|| run.initializes(&names(1), s(0), s(5) + T_INIT))
    })
    .named(flags.to_owned())
}

/// Valid command lines, with which a provider must start and initialize a node.
const ACCEPTED: &[&[&str]] = &[
    &["--kube-api-qps=-1"],
    &["--kube-api-qps=-1", "--kube-api-burst=-1"],
    &["--kube-api-qps=0", "--kube-api-burst=0"],
    // The first write uses up the burst, so the rate limits all further writes.
    &["--kube-api-qps=0", "--kube-api-burst=1"],
    &["--kube-api-qps=5", "--kube-api-burst=1"],
    &["--logging-format=text"],
    &[PORT, "--tls-min-version=VersionTLS13"],
    &[PORT, "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"],
    &[PORT, "--tls-curve-preferences=23,29"],
    &[PORT, "--authorization-always-allow-paths=/metrics,/healthz*"],
    &["--secure-port=0"],
    &["--profiling=false"],
    &["--leader-elect", "--leader-elect-renew-deadline=2.5s"],
    &["--leader-elect", "--leader-elect-lease-duration=10001ms"],
    &["--v", "4"],
    &["-v", "4"],
    &["-v=4"],
];

fn starts(flags: &[&str]) -> Case {
    let scenario = with_flags(flags, SHORT).with_provider(|it| it.once = true);
    Case::new(scenario, |run| run.initializes(&names(1), s(0), s(5) + T_INIT))
        .named(flags.join(" "))
}

/// Namespace of the kubelets' leases.
const NODE_LEASES: &str = "kube-node-lease";

/// Creates a case in which the lease must have the name and the namespace of the flags.
fn another_lease() -> Case {
    let flags =
        ["--leader-elect-resource-name=another", "--leader-elect-resource-namespace=default"];
    let scenario = with_flags(&flags, SHORT).with_provider(|it| it.leader_election = true);
    Case::new(scenario, |run| {
        let leases = GroupResource::of("coordination.k8s.io", "leases");
        let held: Vec<_> = run
            .end
            .cluster
            .all(&leases)
            .filter(|lease| lease["metadata"]["namespace"] != NODE_LEASES)
            .map(|lease| {
                format!("{}/{}", lease["metadata"]["namespace"], lease["metadata"]["name"])
            })
            .map(|it| it.replace('"', ""))
            .collect();
        Verdict::pass_if(held == ["default/another"], || {
            format!("the leases in the cluster are {held:?}, but the command line names only default/another")
        })
        .and(|| run.initializes(&names(1), s(0), s(5) + T_INIT))
    })
    .named(flags.join(" "))
    .paced(Pace::Virtual("the driver of a process finds the leader only by the Lease with the default name"))
}
