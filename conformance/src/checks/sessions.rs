//! SESS: logins and their endings.

use std::time::Duration;

use sim::Face;
use sim::faults::{Action, Rule};
use sim::world::vcenter::{Family, LoginRules, Password};
use sim::world::{Command, PROVIDER_USER};

use super::build::{SETTLED, T_INIT, T_STATUS, end_sessions, s, set_address, world};
use super::observe::{name, names};
use super::{Case, Check};
use crate::lab::Run;
use crate::scenario::Act;
use crate::verdict::Verdict;

pub(super) fn checks() -> Vec<Check> {
    vec![
        Check::new("SESS-001", [one_session()]),
        Check::new("SESS-002", [steady(), expiring()]),
        Check::new("SESS-003", [single_flight()]),
        Check::new("SESS-004", [logout(s(0)), logout(s(1)), logout(s(200))]),
        Check::new("SESS-005", [hundred_expiries()]),
        Check::new("SESS-006", [full_table()]),
        Check::new("SESS-007", [wrong_password()]),
        Check::new("SESS-008", [rotation(true), rotation(false)]),
    ]
}

fn logins(run: &Run, op: &str) -> Vec<Duration> {
    run.calls().filter(|call| call.op == op).map(|call| call.t.since_start()).collect()
}

fn one_session() -> Case {
    let mut scenario = world(30, s(1200));
    for minute in 2..10 {
        scenario = scenario.at(s(60 * minute), end_sessions());
        scenario = scenario.at(s(60 * minute + 20), set_address(1, &[&format!("10.6.0.{minute}")]));
    }
    Case::new(scenario, |run| {
        run.initializes(&names(30), s(0), T_INIT).and(|| run.keeps(&[50, 51])).and(|| {
            let n = logins(run, "Login").len();
            Verdict::of(n >= 9, || format!("{n} logins: the sessions that ended were not renewed"))
        })
    })
}

fn steady() -> Case {
    Case::new(world(20, s(4 * 3600)), |run| {
        for op in ["Login", "cis.session.create"] {
            let n = logins(run, op).len();
            if n > 4 {
                return Verdict::Fail(format!("{n} × {op} in four steady hours"));
            }
        }
        run.keeps(&[50, 51])
    })
    .named("four steady hours")
}

fn expiring() -> Case {
    // vAPI sessions idle out every ten minutes; a provider that wants none meanwhile opens none.
    let rules = LoginRules { idle_timeout: s(600), ..LoginRules::default() };
    let scenario = world(10, s(2 * 3600)).at(s(0), Command::SetLoginRules { vcenter: None, rules });
    Case::new(scenario, |run| {
        let n = logins(run, "cis.session.create").len();
        // Tags are refreshed on a slow timer.
        Verdict::of(n <= 14, || format!("{n} vAPI logins in two hours")).and(|| {
            let soap = logins(run, "Login").len();
            Verdict::of(soap <= 2, || format!("{soap} SOAP logins in two hours"))
        })
    })
    .named("short idle timeout")
}

fn single_flight() -> Case {
    // Slow logins, and many nodes that need the session at once.
    let slow = Rule::new("slow login", [Action::Delay(s(3))]).on(Face::Soap).op(["Login"]);
    let scenario =
        world(40, s(400)).fault(slow).at(s(120), end_sessions()).at(s(240), end_sessions());
    Case::new(scenario, |run| {
        let mut calls: Vec<(Duration, Duration)> = run
            .calls()
            .filter(|call| call.op == "Login")
            .filter_map(|call| Some((call.t.since_start(), call.ended.as_ref()?.at.since_start())))
            .collect();
        calls.sort();
        let overlap = calls.windows(2).find(|pair| pair[1].0 < pair[0].1);
        Verdict::of(overlap.is_none(), || format!("two logins at once: {overlap:?}"))
            .and(|| {
                Verdict::of(calls.len() == 3, || {
                    format!("{} logins for three sessions", calls.len())
                })
            })
            .and(|| run.keeps(&[50, 51]))
            .and(|| run.initializes(&names(40), s(0), T_INIT + s(5)))
    })
}

fn logout(at: Duration) -> Case {
    let scenario = world(5, at + s(30)).at(at, Act::Stop(0));
    Case::new(scenario, |run| run.keeps(&[54])).named(format!("stopped after {} s", at.as_secs()))
}

fn hundred_expiries() -> Case {
    let mut scenario = world(10, s(60 + 100 * 37 + 120));
    for n in 0..100 {
        let family = [Some(Family::Soap), Some(Family::Vapi), None][n as usize % 3];
        let command = Command::ExpireSessions { vcenter: None, family };
        scenario = scenario.at(SETTLED + s(37 * n), command);
    }
    Case::new(scenario, |run| {
        let n = logins(run, "Login").len();
        Verdict::of(n >= 60, || format!("{n} logins only: sessions were not renewed"))
            .and(|| run.keeps(&[50, 51, 54]))
    })
}

fn full_table() -> Case {
    let full = LoginRules { soap_cap: 0, vapi_cap_per_user: 0, ..LoginRules::default() };
    let scenario = world(5, s(1500))
        .at(SETTLED, Command::SetLoginRules { vcenter: None, rules: full })
        .at(SETTLED, end_sessions())
        .at(s(600), Command::SetLoginRules { vcenter: None, rules: LoginRules::default() })
        .at(s(610), set_address(1, &["10.6.0.1"]));
    Case::new(scenario, |run| {
        let attempts: Vec<Duration> = run
            .calls()
            .filter(|call| {
                call.face == Some(Face::Soap)
                    && !call.succeeded()
                    && call.t.since_start() > SETTLED
                    && call.t.since_start() < s(600)
            })
            .map(|call| call.t.since_start())
            .collect();
        let shown = run.when_after(&name(1), s(610), |node| node.ips().any(|ip| ip == "10.6.0.1"));
        Verdict::of(!attempts.is_empty(), || "no call was tried".to_owned())
            .and(|| {
                Verdict::of(attempts.len() <= 40, || {
                    format!("{} attempts in nine minutes", attempts.len())
                })
            })
            .and(|| {
                Verdict::of(
                    shown.is_some_and(|at| at.since_start() < s(610) + T_STATUS * 2),
                    || format!("after room was made the new address was shown at {shown:?}"),
                )
            })
            .and(|| run.keeps(&[1, 17]))
    })
}

fn wrong_password() -> Case {
    let password = Password::new("changed behind the provider's back");
    let rotate =
        Command::RotatePassword { vcenter: None, user: PROVIDER_USER.to_owned(), password };
    let scenario = world(5, s(1800)).at(SETTLED, rotate).at(s(70), end_sessions());
    Case::new(scenario, |run| {
        let refused = |from: Duration, to: Duration| {
            run.calls()
                .filter(|call| matches!(call.op.as_str(), "Login" | "cis.session.create"))
                .filter(|call| !call.succeeded())
                .filter(|call| (from..to).contains(&call.t.since_start()))
                .count()
        };
        let soon = refused(s(0), s(370));
        Verdict::of(soon > 0, || "no login was refused".to_owned())
            .and(|| {
                Verdict::of(soon <= 3, || {
                    format!("{soon} bad logins within five minutes of the first")
                })
            })
            .and(|| run.keeps(&[1, 17, 53]))
    })
}

/// The new password reaches the provider through its Secret; sessions end before or after.
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
        .with(|it| it.secret = Some(secret.to_owned()))
        .at(first, rotate)
        .at(second, Act::Secret { name: secret.to_owned(), password: new.to_owned() })
        .at(s(401), end_sessions())
        .at(s(1000), set_address(1, &["10.6.0.1"]));
    Case::new(scenario, |run| {
        let shown = run.when_after(&name(1), s(1000), |node| node.ips().any(|ip| ip == "10.6.0.1"));
        Verdict::of(shown.is_some_and(|at| at.since_start() < s(1000) + T_STATUS), || {
            format!("after the rotation a new address was shown at {shown:?}")
        })
        .and(|| run.keeps(&[1, 17, 53, 63]))
        .and(|| run.initializes(&names(5), s(0), T_INIT))
    })
    .named(if overlap { "vCenter first" } else { "Secret first" })
}
