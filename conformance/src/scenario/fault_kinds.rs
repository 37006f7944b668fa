//! The ways in which cases and sweeps let a call fail.

use std::time::Duration;

use sim::Face;
use sim::faults::{Action, MissingPaths};

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
    let one = |name, action, loses_answer| FaultKind { name, actions: vec![action], loses_answer };
    let soap = |name, class: &str| {
        one(name, Action::SoapFault { class: class.to_owned(), message: None }, false)
    };
    let status = |name, code, retry_after, lost| {
        one(name, Action::Status { code, retry_after, message: None }, lost)
    };
    let mut kinds = vec![
        one("reset", Action::Reset, true),
        one("black hole", Action::Blackhole, true),
        one("truncated", Action::Truncate { bytes: 40 }, false),
        one("slow", Action::Delay(Duration::from_secs(12)), false),
        status("503", 503, None, true),
    ];
    match face {
        Face::Soap => kinds.extend([
            soap("SystemError", "SystemError"),
            soap("NotAuthenticated", "NotAuthenticated"),
            soap("NoPermission", "NoPermission"),
            soap("HostNotConnected", "HostNotConnected"),
            soap("InvalidLogin", "InvalidLogin"),
            soap("RequestCanceled", "RequestCanceled"),
            soap("InvalidCollectorVersion", "InvalidCollectorVersion"),
            one("empty result", Action::EmptyResult, false),
            one(
                "missing properties",
                Action::MissingSet(MissingPaths {
                    paths: vec![
                        "config".into(),
                        "guest".into(),
                        "runtime".into(),
                        "summary".into(),
                    ],
                    fault: "SystemError".into(),
                }),
                false,
            ),
        ]),
        Face::Vapi => kinds.extend([
            status("401", 401, None, false),
            status("429", 429, Some(2), false),
            status("500", 500, None, true),
            one("empty result", Action::EmptyResult, false),
        ]),
        Face::Cluster => kinds.extend([
            status("429", 429, Some(2), false),
            status("500", 500, None, true),
            status("504", 504, None, true),
            status("409", 409, None, false),
        ]),
        Face::Supervisor => kinds.extend([
            status("401", 401, None, false),
            status("403", 403, None, false),
            // The 404 of a version that the server does not serve: it is about the collection and
            // names no object.
            one("404", Action::NotServed, false),
            status("410", 410, None, false),
            status("429", 429, Some(2), false),
            status("500", 500, None, false),
            status("504", 504, None, false),
        ]),
    }
    kinds
}
