//! The ways in which cases and sweeps let a call fail.

use std::time::Duration;

use sim::Face;
use sim::faults::{Action, HttpStatus, MissingPaths};

/// A way in which a call can fail.
#[derive(Clone, Debug)]
pub struct FaultKind {
    /// Name in reports and case names.
    pub name: &'static str,
    /// Actions of the fault rule.
    pub actions: Vec<Action>,
    /// True if cases and sweeps play the fault both without and with the operation carried out,
    /// because the client cannot see the difference.
    pub loses_answer: bool,
}

/// Returns the kinds of failure that cases and sweeps try on calls to this face.
pub fn fault_kinds(face: Face) -> Vec<FaultKind> {
    let mut kinds = vec![
        one("reset", Action::Reset, true),
        one("black hole", Action::Blackhole, true),
        one("truncated", Action::truncate(40), false),
        one("slow", Action::Delay(Duration::from_secs(12)), false),
        status("503", 503, None, true),
    ];
    kinds.extend(match face {
        Face::Soap => soap_kinds(),
        Face::Vapi => vec![
            status("401", 401, None, false),
            status("429", 429, Some(2), false),
            status("500", 500, None, true),
            one("empty result", Action::EmptyResult, false),
        ],
        Face::Cluster => vec![
            status("429", 429, Some(2), false),
            status("500", 500, None, true),
            status("504", 504, None, true),
            status("409", 409, None, false),
        ],
        // No call of a provider of nodes passes this face.
        Face::Autoscaler => Vec::new(),
        Face::Supervisor => vec![
            status("401", 401, None, false),
            status("403", 403, None, false),
            // The 404 of a version that the server does not serve: it is about the collection and
            // names no object.
            one("404", Action::NotServed, false),
            status("410", 410, None, false),
            status("429", 429, Some(2), false),
            status("500", 500, None, false),
            status("504", 504, None, false),
        ],
    });
    kinds
}

fn soap_kinds() -> Vec<FaultKind> {
    let missing = MissingPaths::new(["config", "guest", "runtime", "summary"], "SystemError");
    let mut kinds: Vec<FaultKind> = [
        "SystemError",
        "NotAuthenticated",
        "NoPermission",
        "HostNotConnected",
        "InvalidLogin",
        "RequestCanceled",
        "InvalidCollectorVersion",
    ]
    .map(|class| one(class, Action::soap_fault(class), false))
    .into();
    kinds.push(one("empty result", Action::EmptyResult, false));
    kinds.push(one("missing properties", Action::MissingSet(missing), false));
    kinds
}

fn one(name: &'static str, action: Action, loses_answer: bool) -> FaultKind {
    FaultKind { name, actions: vec![action], loses_answer }
}

fn status(
    name: &'static str,
    code: u16,
    retry_after: Option<u32>,
    loses_answer: bool,
) -> FaultKind {
    one(name, HttpStatus::new(code).retry_after(retry_after).into(), loses_answer)
}
