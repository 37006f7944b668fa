//! CCM-007, CCM-008 and CCM-028: the HTTPS endpoint for probes and monitoring.

use std::time::Duration;

use sim::Face;
use sim::faults::{Action, Rule};

use crate::checks::build::{s, world};
use crate::checks::queries::names;
use crate::checks::{Case, Check};
use crate::judge::verdict::{AboutMoment as _, Verdict};
use crate::lab::{EndpointAnswer, Run};
use crate::scenario::{Act, Caller, Pace, Scenario};

/// Time of the first request to the endpoint.
const FIRST: Duration = s(20);

pub(super) fn checks() -> Vec<Check> {
    let allowed = "--authorization-always-allow-paths";
    let mut checks = vec![
        Check::new("CCM-007", [healthy(1), healthy(2), verbose()]),
        Check::new(
            "CCM-008",
            [
                guarded(&[], &DEFAULT).named("the default paths"),
                guarded(&[&format!("{allowed}=/metrics,/healthz")], &METRICS_FREE)
                    .named("metrics are always allowed"),
                guarded(&[&format!("{allowed}=/met*")], &PREFIX_FREE).named("a prefix is allowed"),
                guarded(&[&format!("{allowed}=")], &NOTHING_FREE)
                    .named("no path is always allowed"),
                unreviewed(),
            ],
        ),
        Check::new(
            "CCM-028",
            [
                reviewed(Caller::Allowed, &[], s(5), [1, 1])
                    .named("a review is good for ten seconds"),
                reviewed(Caller::Allowed, &[], s(15), [2, 2])
                    .named("a review is too old after ten seconds"),
                reviewed(Caller::Allowed, &[TOKEN_TTL], s(15), [1, 2]).named(TOKEN_TTL),
                reviewed(Caller::Allowed, &[ALLOWED_TTL], s(15), [2, 1]).named(ALLOWED_TTL),
                reviewed(Caller::SystemMasters, &[], s(5), [1, 0])
                    .named("a member of system:masters"),
                refused_once(&[], 2).named("a refusal is too old after ten seconds"),
                refused_once(&[REFUSED_TTL], 1).named(REFUSED_TTL),
                certificate(),
                without_port(),
            ],
        ),
    ];
    for case in checks.iter_mut().flat_map(|check| &mut check.cases) {
        if case.pace == Pace::Usual {
            // The provider measures the age of a review with its own clock, which does not run
            // faster with the world.
            case.pace = Pace::Real;
        }
    }
    checks
}

/// Flag in the command line of every case. It makes the provider serve its endpoint on a free port.
const PORT: &str = "--secure-port=$(port)";

const TOKEN_TTL: &str = "--authentication-token-webhook-cache-ttl=1m";
const ALLOWED_TTL: &str = "--authorization-webhook-cache-authorized-ttl=1m";
const REFUSED_TTL: &str = "--authorization-webhook-cache-unauthorized-ttl=1m";

/// Returns a scenario in which one node joins and the command line has [`PORT`] and these flags.
fn serving(flags: &[&str], horizon: Duration) -> Scenario {
    let flags = std::iter::once(&PORT).chain(flags);
    let flags: Vec<String> = flags.map(|flag| (*flag).to_owned()).collect();
    world(1, horizon).with_provider(|it| it.flags = flags)
}

fn get(path: &str, by: Caller) -> Act {
    Act::GetEndpoint { path: path.to_owned(), by }
}

/// Returns the answers to requests for this path.
fn answers<'a>(run: &'a Run, path: &'a str) -> impl Iterator<Item = &'a EndpointAnswer> {
    run.answers.iter().filter(move |answer| answer.path == path)
}

fn status(answer: &EndpointAnswer) -> Option<u16> {
    answer.outcome.as_ref().ok().map(|(status, _)| *status)
}

/// Creates a case in which a client without a token reads `/healthz`. Every replica, leader or
/// standby, must answer 200 with the body `ok`.
fn healthy(replicas: usize) -> Case {
    let scenario = serving(&[], s(40))
        .with_provider(|it| it.replicas = replicas)
        .at(FIRST, get("/healthz", Caller::Anonymous));
    Case::new(scenario, move |run| {
        let answers: Vec<_> = answers(run, "/healthz").collect();
        let wrong = answers.iter().find(|it| it.outcome != Ok((200, "ok".to_owned())));
        Verdict::pass_if(answers.len() == replicas && wrong.is_none(), || {
            let said = wrong.map(|it| (it.replica, &it.outcome));
            format!("GET /healthz was sent to {} of {replicas} replicas; the first replica with an answer other than 200 with ok, and the answer: {said:?}", answers.len())
        })
        .and(|| run.initializes(&names(1), s(0), FIRST))
    })
    .named(if replicas == 1 { "one replica" } else { "leader and standby" })
}

/// Creates a case in which `/healthz?verbose` must answer with one line per check.
fn verbose() -> Case {
    let path = "/healthz?verbose";
    let scenario = serving(&[], s(40))
        .with_provider(|it| it.leader_election = true)
        .at(FIRST, get(path, Caller::Anonymous));
    Case::new(scenario, move |run| {
        let outcome = answers(run, path).next().map(|it| it.outcome.clone());
        let is_right = matches!(&outcome, Some(Ok((200, body))) if lists_checks(body));
        Verdict::pass_if(is_right, || {
            format!("GET {path} has to answer with a line per check and the result, not with {outcome:?}")
        })
        .and(|| run.initializes(&names(1), s(0), FIRST))
    })
    .named("verbose")
}

/// True if the text has `[+]leaderElection ok`, only lines of this form before the last line, and
/// the last line `healthz check passed`.
fn lists_checks(body: &str) -> bool {
    let mut lines: Vec<&str> = body.lines().collect();
    let last = lines.pop();
    let is_check = |line: &&str| line.starts_with("[+]") && line.ends_with(" ok");
    last == Some("healthz check passed")
        && lines.iter().all(is_check)
        && lines.contains(&"[+]leaderElection ok")
}

/// A path, a client that requests it, and the HTTP status codes of which the client must receive
/// one.
type Access = (&'static str, Caller, &'static [u16]);

/// Access without the flag `--authorization-always-allow-paths`.
const DEFAULT: [Access; 6] = [
    ("/healthz", Caller::Anonymous, &[200]),
    ("/metrics", Caller::Anonymous, &[401, 403]),
    ("/metrics", Caller::InvalidToken, &[401]),
    ("/metrics", Caller::NoRoles, &[403]),
    ("/metrics", Caller::Allowed, &[200]),
    ("/metrics", Caller::SystemMasters, &[200]),
];

/// Access if `--authorization-always-allow-paths` lists `/metrics` and `/healthz`.
const METRICS_FREE: [Access; 5] = [
    ("/healthz", Caller::Anonymous, &[200]),
    ("/metrics", Caller::Anonymous, &[200]),
    ("/metrics/slis", Caller::Anonymous, &[401, 403]),
    ("/metrics", Caller::InvalidToken, &[401]),
    ("/nowhere", Caller::Anonymous, &[401, 403]),
];

/// Access if `--authorization-always-allow-paths` lists the prefix `/met*`.
const PREFIX_FREE: [Access; 3] = [
    ("/metrics", Caller::Anonymous, &[200]),
    ("/nowhere", Caller::Anonymous, &[401, 403]),
    ("/nowhere", Caller::SystemMasters, &[404]),
];

/// Access if the flag is empty. The role `system:public-info-viewer` still permits every client to
/// read `/healthz`.
const NOTHING_FREE: [Access; 3] = [
    ("/healthz", Caller::Anonymous, &[200]),
    ("/metrics", Caller::Anonymous, &[401, 403]),
    ("/metrics", Caller::Allowed, &[200]),
];

/// Creates a case in which the clients of `wanted` request their paths. With the roles in the
/// cluster and these flags, each must receive one of its status codes.
fn guarded(flags: &[&str], wanted: &'static [Access]) -> Case {
    let mut scenario = serving(flags, s(60));
    for (n, (path, by, _)) in wanted.iter().enumerate() {
        let at = FIRST + Duration::from_secs(n as u64);
        scenario = scenario.at(at, get(path, *by));
    }
    Case::new(scenario, move |run| {
        let wrong = wanted.iter().find_map(|(path, by, statuses)| {
            let mut asked = answers(run, path).filter(|it| it.by == *by);
            let seen = asked.next().and_then(status);
            let is_right = seen.is_some_and(|seen| statuses.contains(&seen));
            (!is_right).then(|| {
                format!(
                    "GET {path} by client {by:?} got status {seen:?}; expected one of {statuses:?}"
                )
            })
        });
        Verdict::none(wrong, |wrong| wrong)
            .and(|| has_metrics(run))
            .and(|| run.initializes(&names(1), s(0), FIRST))
    })
}

/// Fails if an answer 200 to `/metrics` contains no metric.
fn has_metrics(run: &Run) -> Verdict {
    let bad = answers(run, "/metrics")
        .find(|answer| matches!(&answer.outcome, Ok((200, body)) if !body.contains("# TYPE ")));
    Verdict::pass_if(bad.is_none(), || {
        "GET /metrics got 200 with a body without metrics".to_owned()
    })
}

/// Creates a case in which first reviews of tokens and later reviews of access fail in the cluster.
/// The endpoint must refuse the clients that need such a review, and must still serve a member of
/// `system:masters` without a review of its access.
fn unreviewed() -> Case {
    let failure = Action::status(500);
    let down = |id: &str, op: &str| Rule::new(id, [failure.clone()]).on(Face::Cluster).op([op]);
    let scenario = serving(&[], s(120))
        .at(s(10), down("tokens", "create tokenreviews"))
        .at(FIRST, get("/metrics", Caller::Allowed))
        .at(s(60), Act::RemoveRules)
        .at(s(61), down("access", "create subjectaccessreviews"))
        .at(s(62), get("/metrics", Caller::NoRoles))
        .at(s(90), get("/metrics", Caller::SystemMasters));
    Case::new(scenario, |run| {
        let (masters, others): (Vec<_>, Vec<_>) =
            run.answers.iter().partition(|it| it.by == Caller::SystemMasters);
        let open = others.iter().find(|it| status(it).is_none_or(|it| it < 400));
        Verdict::pass_if(open.is_none() && others.len() == 2, || {
            format!("reviews fail in the cluster, so both requests for /metrics have to be refused; not refused: {open:?}")
        })
        .and(|| {
            let seen = masters.first().and_then(|it| status(it));
            Verdict::pass_if(seen == Some(200), || {
                format!("GET /metrics by a member of system:masters needs no access review and has to get 200, not {seen:?}")
            })
        })
        .and(|| run.initializes(&names(1), s(0), FIRST))
    })
    .named("the cluster answers no review")
}

/// Returns the number of calls with this operation.
fn n_reviews(run: &Run, what: &str) -> usize {
    run.calls().filter(|call| call.op == what).count()
}

/// Creates a case with two requests of one client, at a distance of `apart`. Together they must
/// cause the `wanted` number of token reviews and of access reviews.
fn reviewed(by: Caller, flags: &[&str], apart: Duration, wanted: [usize; 2]) -> Case {
    let scenario =
        serving(flags, s(60)).at(FIRST, get("/metrics", by)).at(FIRST + apart, get("/metrics", by));
    Case::new(scenario, move |run| {
        let n_answered = answers(run, "/metrics").filter(|it| status(it) == Some(200)).count();
        let seen =
            ["create tokenreviews", "create subjectaccessreviews"].map(|it| n_reviews(run, it));
        Verdict::pass_if(n_answered == 2, || {
            format!("{n_answered} of two requests got 200; both have to")
        })
        .and(|| {
            Verdict::pass_if(seen == wanted, || {
                format!(
                    "two requests {apart:?} apart caused {} token reviews and {} access reviews; \
                         {} and {} are expected",
                    seen[0], seen[1], wanted[0], wanted[1]
                )
            })
        })
        .and(|| run.initializes(&names(1), s(0), FIRST))
    })
}

/// Creates a case with two requests, 15 s apart, of a client whose access the cluster denies.
/// Together they must cause `n_access` access reviews.
fn refused_once(flags: &[&str], n_access: usize) -> Case {
    let scenario = serving(flags, s(60))
        .at(FIRST, get("/metrics", Caller::NoRoles))
        .at(FIRST + s(15), get("/metrics", Caller::NoRoles));
    Case::new(scenario, move |run| {
        let n_refused = answers(run, "/metrics").filter(|it| status(it) == Some(403)).count();
        let seen = n_reviews(run, "create subjectaccessreviews");
        Verdict::pass_if(n_refused == 2 && seen == n_access, || {
            format!("{n_refused} of two requests were refused, with {seen} access reviews; 2 refusals and {n_access} reviews are expected")
        })
        .and(|| run.initializes(&names(1), s(0), FIRST))
    })
}

/// Creates a case in which the serving certificate comes from files. The provider must serve a new
/// certificate within 90 s, and keep the last valid one when the files become unusable.
fn certificate() -> Case {
    let flags = ["--tls-cert-file=serving.crt", "--tls-private-key-file=serving.key"];
    let healthz = || get("/healthz", Caller::Anonymous);
    let scenario = serving(&flags, s(260))
        .at(FIRST, healthz())
        .at(s(30), Act::RenewCertificate)
        .at(s(120), healthz())
        .at(s(130), Act::SpoilCertificate)
        .at(s(220), healthz());
    Case::new(scenario, |run| {
        let served: Vec<_> = run.answers.iter().map(|it| it.certificate).collect();
        let [first, second] = run.certificates[..] else {
            return Verdict::inconclusive(
                "the lab did not write exactly two certificates to the files".to_owned(),
            );
        };
        let wanted = [first, second, second].map(Some);
        let wrong = (0..wanted.len()).find(|n| served.get(*n) != Some(&wanted[*n]));
        Verdict::pass_if(wrong.is_none(), || {
            let at = wrong.and_then(|n| run.answers.get(n)).map(|it| it.at);
            "the provider does not serve the last valid certificate of its files".to_owned().at(at)
        })
        .and(|| run.initializes(&names(1), s(0), FIRST))
    })
    .named("the certificate follows its files")
}

/// Creates a case with port 0: the provider must not serve the endpoint, and its controllers must
/// work.
fn without_port() -> Case {
    let scenario =
        serving(&["--secure-port=0"], s(60)).at(FIRST, get("/healthz", Caller::Anonymous));
    Case::new(scenario, |run| {
        let answered = run.answers.iter().find(|it| it.outcome.is_ok());
        Verdict::pass_if(answered.is_none() && run.answers.len() == 1, || {
            format!(
                "the command line sets --secure-port=0, but a client received an answer: {answered:?}"
            )
        })
        .and(|| run.initializes(&names(1), s(0), FIRST))
    })
    .named("--secure-port=0")
}
