//! SESS: logins, sessions, and changes of credentials.

use std::time::Duration;

use sim::Face;
use sim::faults::{Action, Rule};
use sim::ledger::Record;
use sim::world::vcenter::{LoginRules, Password, SessionService};
use sim::world::{Command, PROVIDER_USER};

use crate::checks::build::{
    SETTLED, T_INIT, T_STATUS, create_joining_machine, s, set_address, with_outage, world,
    world_with,
};
use crate::checks::canary::Canary;
use crate::checks::queries::{name, names};
use crate::checks::{Case, Check};
use crate::judge::verdict::{AboutMoment as _, Verdict, when};
use crate::lab::{Exit, Run};
use crate::scenario::{Act, Backend};

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    let mut checks = promises(backend);
    // Sets the highest log level, at which a provider is most likely to log credentials.
    for case in checks.iter_mut().flat_map(|check| &mut check.cases) {
        case.scenario.provider.verbose = true;
    }
    checks
}

/// Returns the session checks; [`checks`] then sets the highest log level in each case.
fn promises(backend: Backend) -> Vec<Check> {
    // A Supervisor has tokens and no sessions.
    if !backend.is_vcenter() {
        let cases = [token(Duration::ZERO), token(s(60)), token_while_down()];
        return vec![Check::new("SESS-008", cases)];
    }
    vec![
        Check::new("SESS-001", [one_session()]),
        Check::new("SESS-002", [steady(), expiring(), idle()]),
        Check::new("SESS-003", [single_flight()]),
        Check::new("SESS-004", [logout(s(1)), logout(s(30)), logout(s(200))]),
        Check::new("SESS-005", [hundred_expiries(), tags_alone()]),
        Check::new("SESS-006", [full_table()]),
        Check::new("SESS-007", [wrong_password(), rejected_once()]),
        Check::new("SESS-008", [rotation(true), rotation(false), rotated_late(), rotated_early()]),
    ]
}

/// Creates a case in which the token for the Supervisor is replaced twice, and the old token stays
/// valid for `grace`. All watches end 70 s after the first replacement and 10 s after the second,
/// so that the provider has to send a token again.
fn token(grace: Duration) -> Case {
    let scenario = world(4, s(700))
        .at(SETTLED, Act::Token { grace })
        .at(s(130), Backend::Supervisor.disconnect())
        .at(s(140), Act::Token { grace })
        .at(s(150), Backend::Supervisor.disconnect())
        .at(s(300), set_address(1, &["10.6.0.1"]));
    let case = Case::new(scenario, |run| {
        let shown = run.when_after(&name(1), s(300), |node| node.ips().any(|ip| ip == "10.6.0.1"));
        Verdict::pass_if(shown.is_some_and(|at| at.since_start() < s(300) + T_STATUS + T_INIT), || {
            format!(
                "the node shows the new address {shown}; its machine has had it since 300 s, so this is too late",
                shown = when(shown)
            )
            .late(shown)
        })
        .and(|| one_start(run))
    });
    let name = format!("the old token stays valid for {} s", grace.as_secs());
    case.canary(Canary::Gone(4), s(200)).named(name)
}

/// Creates a case in which the token is replaced during an outage of the Supervisor, which then
/// refuses the old token at once.
fn token_while_down() -> Case {
    let scenario = with_outage(world(4, s(700)), Backend::Supervisor, SETTLED, s(240))
        .at(s(100), Act::Token { grace: Duration::ZERO });
    let case = Case::new(scenario, one_start);
    case.canary_within(Canary::Gone(4), s(300), s(60)).named("rotated during an outage")
}

/// Fails if the provider process ended more than once. One end is allowed, because the lab stops
/// the provider at the end of the run.
fn one_start(run: &Run) -> Verdict {
    let n = run.exits.len();
    Verdict::pass_if(n <= 1, || {
        format!("the provider process ended {n} times; at most 1 is allowed, at the end of the run")
    })
}

/// Returns the times of the calls with this operation.
fn logins(run: &Run, op: &str) -> Vec<Duration> {
    run.calls().filter(|call| call.op == op).map(|call| call.t.since_start()).collect()
}

fn one_session() -> Case {
    let mut scenario = world(30, s(1200));
    for minute in 2..10 {
        scenario = scenario.at(s(60 * minute), Backend::VCenter.disconnect());
        scenario = scenario.at(s(60 * minute + 20), set_address(1, &[&format!("10.6.0.{minute}")]));
    }
    Case::new(scenario, |run| {
        run.initializes(&names(30), s(0), T_INIT).and(|| {
            let n = logins(run, "Login").len();
            Verdict::pass_if(n >= 9, || {
                format!(
                    "the provider made only {n} logins; at least 9 are needed, so it did not \
                     renew the sessions that ended"
                )
            })
        })
    })
}

fn steady() -> Case {
    Case::new(world(20, s(4 * 3600)), |run| {
        for op in ["Login", "cis.session.create"] {
            let n = logins(run, op).len();
            if n > 4 {
                return Verdict::fail(format!(
                    "in four steady hours the provider called {n} × {op}; at most 4 are allowed"
                ));
            }
        }
        Verdict::Pass
    })
    .canary(Canary::Gone(20), s(4 * 3600))
    .named("four steady hours")
}

/// Creates a case with a cluster without nodes for two hours. The provider has no reason for calls,
/// and vCenter ends a session after half an hour without a call.
fn idle() -> Case {
    let joins = s(2 * 3600);
    let scenario =
        world_with(0, 3, joins + s(120)).at(joins, create_joining_machine("newcomer", None));
    Case::new(scenario, move |run| {
        let n = logins(run, "Login").len();
        run.initializes(&["newcomer".to_owned()], joins, s(60)).and(|| {
            Verdict::pass_if(n <= 2, || {
                format!(
                    "the provider made {n} logins in two hours without a node; at most 2 are \
                     allowed"
                )
            })
        })
    })
    .named("two hours without a node")
}

fn expiring() -> Case {
    // vCenter ends a session after ten minutes without a call. For vAPI the provider must log in
    // again only when it needs tags.
    let rules = LoginRules { idle_timeout: s(600), ..LoginRules::default() };
    let scenario = world(10, s(2 * 3600)).at(s(0), Command::SetLoginRules { vcenter: None, rules });
    Case::new(scenario, |run| {
        let n = logins(run, "cis.session.create").len();
        // Allows a login for each periodic refresh of the tags.
        Verdict::pass_if(n <= 14, || {
            format!("the provider made {n} vAPI logins in two hours; at most 14 are allowed")
        })
        .and(|| {
            let soap = logins(run, "Login").len();
            Verdict::pass_if(soap <= 2, || {
                format!("the provider made {soap} SOAP logins in two hours; at most 2 are allowed")
            })
        })
    })
    .canary(Canary::Gone(10), s(2 * 3600))
    .named("short idle timeout")
}

fn single_flight() -> Case {
    // Each login takes three seconds, and many nodes need the session at the same time.
    let slow = Rule::new("slow login", [Action::Delay(s(3))]).on(Face::Soap).op(["Login"]);
    let scenario = world(40, s(400))
        .fault(slow)
        .at(s(120), Backend::VCenter.disconnect())
        .at(s(240), Backend::VCenter.disconnect());
    Case::new(scenario, |run| {
        let mut calls: Vec<(Duration, Duration)> = run
            .calls()
            .filter(|call| call.op == "Login")
            .filter_map(|call| Some((call.t.since_start(), call.ended.as_ref()?.at.since_start())))
            .collect();
        calls.sort();
        let overlap = calls.windows(2).find(|pair| pair[1].0 < pair[0].1);
        Verdict::pass_if(overlap.is_none(), || {
            format!("two logins of the provider overlap; begin and end of each: {overlap:?}")
        })
        .and(|| {
            Verdict::pass_if(calls.len() == 3, || {
                format!(
                    "the provider made {} logins; exactly 3 are needed, one per session",
                    calls.len()
                )
            })
        })
        .and(|| run.initializes(&names(40), s(0), T_INIT + s(5)))
    })
}

fn logout(at: Duration) -> Case {
    let scenario = world(5, at + s(30)).at(at, Act::Stop(0));
    Case::new(scenario, move |run| {
        // Requires both sessions, because the provider can fail to log out only of an open session.
        for op in ["Login", "cis.session.create"] {
            if !run.calls().any(|it| it.op == op && it.succeeded() && it.t.since_start() < at) {
                return Verdict::inconclusive(format!(
                    "the provider did not call {op} successfully before the stop"
                ));
            }
        }
        Verdict::pass_if(run.exits == [Exit::Stopped], || {
            format!(
                "the process of the provider has to stop cleanly exactly once; its ends are {:?}",
                run.exits
            )
        })
    })
    .named(format!("stopped after {} s", at.as_secs()))
}

fn hundred_expiries() -> Case {
    let mut scenario = world(10, s(60 + 100 * 37 + 120));
    for n in 0..100 {
        let family = [Some(SessionService::Soap), Some(SessionService::Vapi), None][n as usize % 3];
        let command = Command::ExpireSessions { vcenter: None, family };
        scenario = scenario.at(SETTLED + s(37 * n), command);
    }
    Case::new(scenario, |run| {
        let n = logins(run, "Login").len();
        Verdict::pass_if(n >= 60, || {
            format!(
                "the provider made only {n} logins; at least 60 are needed, so it did not renew \
                 the sessions that ended"
            )
        })
    })
}

/// Creates a case in which vCenter ends only the vAPI session, and then a node joins whose zone the
/// provider has to read through vAPI.
fn tags_alone() -> Case {
    let joins = SETTLED + s(10);
    let end = Command::ExpireSessions { vcenter: None, family: Some(SessionService::Vapi) };
    let scenario =
        world(4, s(300)).at(SETTLED, end).at(joins, create_joining_machine("newcomer", None));
    Case::new(scenario, move |run| {
        run.initializes(&["newcomer".to_owned()], joins, s(60)).and(|| {
            let zone = run.when_after("newcomer", joins, |node| node.labels[0].is_some());
            Verdict::pass_if(zone.is_some(), || "the new node never got its zone label".to_owned())
        })
    })
    .named("the session of the tags alone ends")
}

/// Creates a case in which vCenter accepts no new session for nine minutes. The gaps between the
/// provider's attempts must grow. After vCenter accepts sessions again, the provider must log in
/// within the longest of these gaps.
fn full_table() -> Case {
    let full = LoginRules { soap_cap: 0, vapi_cap_per_user: 0, ..LoginRules::default() };
    let room = s(600);
    let scenario = world(5, s(1500))
        .at(SETTLED, Command::SetLoginRules { vcenter: None, rules: full })
        .at(SETTLED, Backend::VCenter.disconnect())
        .at(room, Command::SetLoginRules { vcenter: None, rules: LoginRules::default() })
        .at(s(610), set_address(1, &["10.6.0.1"]));
    let judge = move |run: &Run| {
        // Counts refused calls within a second as one attempt, because a provider without a session
        // may send several calls at once.
        let mut refused: Vec<Duration> = run
            .machine_calls()
            .filter(|call| call.face == Some(Face::Soap) && !call.succeeded())
            .map(|call| call.t.since_start())
            .filter(|at| (SETTLED..room).contains(at))
            .collect();
        refused.dedup_by(|next, last| *next - *last < s(1));
        let accepted = run
            .calls()
            .filter(|call| call.op == "Login" && call.succeeded())
            .map(|call| call.t.since_start())
            .find(|at| *at >= room);
        let shown = run.when_after(&name(1), s(610), |node| node.ips().any(|ip| ip == "10.6.0.1"));
        if refused.len() < 4 {
            return Verdict::inconclusive(format!(
                "vCenter refused only {} attempts; the case needs 4",
                refused.len()
            ));
        }
        patient(&refused)
            .and(|| {
                let bound = room + longest_gap(&refused);
                Verdict::pass_if(accepted.is_some_and(|at| at <= bound), || {
                    format!(
                        "vCenter has room for sessions again, but the first accepted login came \
                         {accepted}, later than {bound:?}", accepted = when(accepted)
                    )
                    .at(accepted)
                })
            })
            .and(|| {
                Verdict::pass_if(
                    shown.is_some_and(|at| at.since_start() < s(610) + T_STATUS * 2),
                    || {
                        format!("vCenter has room for sessions again, but the node shows its new address {shown}", shown = when(shown))
                            .at(shown)
                    },
                )
            })
    };
    Case::new(scenario, judge).canary(Canary::Gone(5), s(900))
}

/// Returns the longest time between two consecutive attempts; 0 with fewer than two attempts.
fn longest_gap(times: &[Duration]) -> Duration {
    times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
}

/// Fails unless the gaps between attempts grow by a factor of at least 1.5 until they reach half of
/// the longest gap. Later gaps may shrink because of jitter, but not below this half.
fn patient(times: &[Duration]) -> Verdict {
    let gaps: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let limit = longest_gap(times) / 2;
    let hasty = gaps.windows(2).find(|pair| pair[1] < pair[0].mul_f64(1.5) && pair[1] < limit);
    Verdict::pass_if(hasty.is_none(), || {
        format!("the gaps between login attempts have to grow; they are {gaps:?}")
    })
}

fn wrong_password() -> Case {
    let (secret, new) = ("vsphere-credentials", "changed behind the provider's back");
    let user = PROVIDER_USER.to_owned();
    let rotate = Command::RotatePassword { vcenter: None, user, password: Password::new(new) };
    let repaired = s(1800);
    let scenario = world(5, repaired)
        .with_provider(|it| it.secret = Some(secret.to_owned()))
        .at(SETTLED, rotate)
        .at(s(70), Backend::VCenter.disconnect())
        .at(repaired, Act::Secret { name: secret.to_owned(), password: new.to_owned() });
    let judge = move |run: &Run| {
        let refused = |from: Duration, to: Duration| {
            run.calls()
                .filter(|call| matches!(call.op.as_str(), "Login" | "cis.session.create"))
                .filter(|call| !call.succeeded())
                .filter(|call| (from..to).contains(&call.t.since_start()))
                .count()
        };
        let soon = refused(s(0), s(370));
        Verdict::pass_if(soon > 0, || "vCenter refused no login".to_owned()).and(|| {
            Verdict::pass_if(soon <= 3, || {
                format!(
                    "{soon} refused logins within five minutes of the first; at most 3 are allowed"
                )
            })
        })
    };
    Case::new(scenario, judge).canary_within(Canary::Gone(5), repaired, LOCKED)
}

/// Creates a case in which vCenter refuses a valid password once. The provider must initialize the
/// first nodes within [`T_INIT`] plus 60 s, instead of pausing for minutes.
fn rejected_once() -> Case {
    let refused = Action::soap_fault("InvalidLogin");
    let rule = Rule::new("refused", [refused]).on(Face::Soap).op(["Login"]).first(1);
    let scenario = world(3, T_INIT + s(120)).fault(rule);
    Case::new(scenario, |run| run.initializes(&names(3), s(0), T_INIT + s(60)))
        .named("a good password is refused once")
}

/// Longest pause of a provider after vCenter refused its credentials.
const LOCKED: Duration = s(300);

/// Creates a case in which vCenter gets a new password and rejects the old one several times before
/// the Secret contains the new one. The provider must initialize a node whose machine is created a
/// minute after that within 70 s of the creation.
fn rotated_late() -> Case {
    let secret = "vsphere-credentials";
    let new = "a new password";
    let rotate = Command::RotatePassword {
        vcenter: None,
        user: PROVIDER_USER.to_owned(),
        password: Password::new(new),
    };
    // Our provider makes three attempts in the first minute and then none for five minutes. The new
    // password must end this pause.
    let known = s(180);
    let scenario = world(3, s(500))
        .with_provider(|it| it.secret = Some(secret.to_owned()))
        .at(s(100), rotate)
        .at(s(101), Backend::VCenter.disconnect())
        .at(known, Act::Secret { name: secret.to_owned(), password: new.to_owned() })
        .at(known + s(60), create_joining_machine("newcomer", None));
    Case::new(scenario, move |run| {
        let rejected = logins(run, "Login").len();
        // Allows a provider that reads the Secret as rarely as once a minute.
        run.initializes(&["newcomer".to_owned()], known + s(60), s(70)).and(|| {
            Verdict::pass_if(rejected > 2, || {
                "vCenter rejected no login before the Secret had the new password".to_owned()
            })
        })
    })
    .named("after logins were rejected")
}

/// Creates a case in which vCenter rejects the old password at least twice, and then the Secret
/// contains the new password 15 s before vCenter accepts it. A rejection in this time is the first
/// one of the new password, so the provider must make only its first, short pause.
fn rotated_early() -> Case {
    let secret = "vsphere-credentials";
    let password = |text: &str| Command::RotatePassword {
        vcenter: None,
        user: PROVIDER_USER.to_owned(),
        password: Password::new(text),
    };
    let new = "a new password";
    let (told, valid) = (s(125), s(140));
    let scenario = world(3, s(400))
        .with_provider(|it| it.secret = Some(secret.to_owned()))
        .at(s(100), password("not yet told to anybody"))
        .at(s(101), Backend::VCenter.disconnect())
        .at(told, Act::Secret { name: secret.to_owned(), password: new.to_owned() })
        .at(valid, password(new))
        .at(valid, create_joining_machine("newcomer", None));
    Case::new(scenario, move |run| {
        let rejected = |from: Duration, to: Duration| {
            let of = logins(run, "Login").into_iter().filter(move |at| (from..to).contains(at));
            of.count()
        };
        if rejected(s(100), told) < 2 {
            return Verdict::inconclusive(
                "vCenter rejected the old password less than twice".to_owned(),
            );
        }
        run.initializes(&["newcomer".to_owned()], valid, s(120))
    })
    .named("the Secret has the new password first")
}

/// Creates a case in which both vCenter and the Secret get a new password, five minutes apart,
/// vCenter first with `overlap`. The sessions end after both changes.
fn rotation(overlap: bool) -> Case {
    let secret = "vsphere-credentials";
    let new = "a new password";
    let rotate = Command::RotatePassword {
        vcenter: None,
        user: PROVIDER_USER.to_owned(),
        password: Password::new(new),
    };
    let (first, second) = if overlap { (s(100), s(400)) } else { (s(400), s(100)) };
    let scenario = world(5, s(1800))
        .with_provider(|it| it.secret = Some(secret.to_owned()))
        .at(first, rotate)
        .at(second, Act::Secret { name: secret.to_owned(), password: new.to_owned() })
        .at(s(401), Backend::VCenter.disconnect())
        .at(s(1000), set_address(1, &["10.6.0.1"]));
    Case::new(scenario, |run| {
        let shown = run.when_after(&name(1), s(1000), |node| node.ips().any(|ip| ip == "10.6.0.1"));
        let mut written = Vec::new();
        for name in names(5) {
            let meanwhile = |call: &&Record| (s(100)..s(1000)).contains(&call.t.since_start());
            written.extend(run.writes_on(&name).filter(meanwhile).map(ToString::to_string));
        }
        Verdict::pass_if(shown.is_some_and(|at| at.since_start() < s(1000) + T_STATUS), || {
            format!("the machine got a new address at 1000 s, after the rotation; its node shows it {shown}", shown = when(shown)).at(shown)
        })
        .and(|| {
            Verdict::pass_if(written.is_empty(), || {
                format!("the rotation gives no reason to write Nodes, but the provider wrote: {}", written.join("; "))
            })
        })
        .and(|| {
            // Allows one end of the process, which the lab causes at the end of the run.
            Verdict::pass_if(run.exits == [Exit::Stopped], || format!("the process of the provider has to stop cleanly exactly once; its ends are {:?}", run.exits))
        })
        .and(|| run.initializes(&names(5), s(0), T_INIT))
    })
    .canary(Canary::Gone(5), s(1400))
    .named(if overlap { "vCenter first" } else { "Secret first" })
}
