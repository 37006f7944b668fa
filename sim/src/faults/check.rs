//! Validation of rules that parse but cannot work.

use super::{
    Action, Denial, GrpcStatus, HttpStatus, KubeStatus, Matcher, Ops, Rule, RuleId, SoapFault,
    Spoil,
};
use crate::call::operations::fault_class;
use crate::{Face, can_be_stale};

/// Classes of operations that a pattern can name.
const CLASSES: [&str; 5] = ["@read", "@write", "@login", "@longpoll", "@task"];

/// Checks that a rule can work.
///
/// # Errors
/// A text that names the rule, the key, the value and the remedy: for an empty id, no action, a
/// probability outside 0 to 1, `every: 0`, an unknown class of operations, `goaway` with an action
/// that gives no answer, or an action that cannot work.
pub fn check(rule: &Rule) -> Result<(), String> {
    let Rule { id, matcher, actions, when, .. } = rule;
    if id.as_str().is_empty() {
        return Err("id is empty; give the rule a name".to_owned());
    }
    if actions.is_empty() {
        return Err(format!("rule `{id}`: do is empty; name at least one action"));
    }
    if let Some(probability) = when.probability
        && !(0.0..=1.0).contains(&probability)
    {
        return Err(format!(
            "rule `{id}`: when.probability is {probability}; write a number from 0 to 1"
        ));
    }
    if when.every == Some(0) {
        return Err(format!("rule `{id}`: when.every is 0; write 1 or more"));
    }
    if let Some(wrong) = wrong_class(&matcher.op) {
        return Err(format!("rule `{id}`: match.op {wrong}"));
    }
    if let Some(name) = actions.iter().find_map(without_answer)
        && actions.contains(&Action::Goaway)
    {
        return Err(format!(
            "rule `{id}`: goaway goes with an answer, and {name} gives none; remove one of the two"
        ));
    }
    actions.iter().try_for_each(|action| check_action(id, matcher, action))
}

/// Returns the name of the action in rules if the call gets no answer; else `None`.
fn without_answer(action: &Action) -> Option<&'static str> {
    match action {
        Action::Reset => Some("reset"),
        Action::StreamReset => Some("streamReset"),
        Action::Blackhole => Some("blackhole"),
        _ => None,
    }
}

/// Checks that an action can work in the rule `id` with this matcher.
fn check_action(id: &RuleId, matcher: &Matcher, action: &Action) -> Result<(), String> {
    match action {
        Action::Status(HttpStatus { code, .. }) if !(100..=599).contains(code) => {
            return Err(format!(
                "rule `{id}`: status code {code} is not a status of HTTP; write 100 to 599"
            ));
        }
        Action::KubeStatus(KubeStatus { code, .. }) | Action::Deny(Denial { code, .. })
            if !(400..=599).contains(code) =>
        {
            return Err(format!(
                "rule `{id}`: status code {code} is not an error; write 400 to 599"
            ));
        }
        Action::Spoil(Spoil::CutShort(percent)) if *percent > 99 => {
            return Err(format!(
                "rule `{id}`: spoil.cutShort is {percent}, which cuts nothing off; write 0 to 99 percent"
            ));
        }
        Action::Spoil(Spoil::Padded(0)) => {
            return Err(format!(
                "rule `{id}`: spoil.padded is 0, which changes nothing; write 1 MiB or more"
            ));
        }
        Action::ReadStale(0) => {
            return Err(format!(
                "rule `{id}`: read.stale is 0, which is the current state; write 1 or more"
            ));
        }
        Action::ReadStale(_) => {
            if let Some(operation) = never_stale(matcher) {
                return Err(format!(
                    "rule `{id}`: {operation} always answers from the current state, so read.stale cannot change it; \
                         remove it from match.op"
                ));
            }
        }
        Action::SoapFault(SoapFault { class, .. }) if fault_class(class).is_none() => {
            return Err(format!(
                "rule `{id}`: soapFault type `{class}` is not known; try SystemError"
            ));
        }
        Action::GrpcStatus(GrpcStatus { code, .. }) if !(1..=16).contains(code) => {
            return Err(format!(
                "rule `{id}`: grpcStatus code {code} is not an error of gRPC; write 1 to 16"
            ));
        }
        action => check_face(id, matcher.protocol, action)?,
    }
    Ok(())
}

/// Checks that the face of a rule can carry out an action.
fn check_face(id: &RuleId, face: Option<Face>, action: &Action) -> Result<(), String> {
    let Some(face) = face else { return Ok(()) };
    if !face.is_kubernetes()
        && let Some(name) = kubernetes_only(action)
    {
        return Err(format!(
            "rule `{id}`: {name} works only in a Kubernetes API; remove match.protocol or write k8s.guest or k8s.supervisor"
        ));
    }
    let grpc_only = match action {
        Action::GrpcStatus(_) => Some("grpcStatus"),
        Action::TrailersOnly => Some("trailersOnly"),
        _ => None,
    };
    if let (Some(name), true) = (grpc_only, face != Face::Autoscaler) {
        return Err(format!(
            "rule `{id}`: {name} works only in gRPC; remove match.protocol or write grpc.ca"
        ));
    }
    let simulated_only = match action {
        Action::EmptyResult => Some("emptyResult"),
        Action::Hide(_) => Some("hide"),
        Action::MissingSet(_) => Some("missingSet"),
        Action::VersionReset => Some("updates.versionReset"),
        Action::SoapFault(_) => Some("soapFault"),
        _ => None,
    };
    if let (Some(name), Face::Autoscaler) = (simulated_only, face) {
        return Err(format!(
            "rule `{id}`: {name} cannot change calls that the sim forwards; remove match.protocol, or write the protocol of a simulated server"
        ));
    }
    Ok(())
}

/// Returns an error text with remedy about the first pattern that names an unknown class; `None` if
/// no pattern does.
pub(crate) fn wrong_class(ops: &Ops) -> Option<String> {
    let pattern = ops.patterns().find(|it| it.starts_with('@') && !CLASSES.contains(it))?;
    Some(format!(
        "`{pattern}` is not a class of operations; expected one of {}",
        CLASSES.join(", ")
    ))
}

/// Returns the first operation in `op`, named without `*` or `@`, that `read.stale` cannot affect
/// on any face that the rule matches ([`can_be_stale`]); `None` if it can affect all of them.
fn never_stale(matcher: &Matcher) -> Option<&str> {
    let all = [Face::Soap, Face::Vapi, Face::Cluster, Face::Supervisor, Face::Autoscaler];
    let protocol = matcher.protocol;
    let can_be = |operation: &str| {
        let of = |face: &&Face| protocol.is_none_or(|it| it == **face);
        all.iter().filter(of).any(|face| can_be_stale(*face, operation))
    };
    matcher.op.patterns().filter(|it| !it.contains(['*', '@'])).find(|it| !can_be(it))
}

/// Returns the name of the action in rules if only a Kubernetes API server can perform it; else
/// `None`.
fn kubernetes_only(action: &Action) -> Option<&'static str> {
    Some(match action {
        Action::WatchGone => "watch.gone410",
        Action::WatchGoneAfter(_) => "watch.gone410After",
        Action::WatchSilent => "watch.silent",
        Action::WatchNoBookmark => "watch.noBookmark",
        Action::WatchCloseAfter(_) => "watch.closeAfter",
        Action::WatchHoldAfter(_) => "watch.holdAfter",
        Action::WatchDuplicate => "watch.duplicate",
        Action::WatchDelay(_) => "watch.delay",
        Action::WatchLasts(_) => "watch.lasts",
        Action::ListPartial(_) => "list.partial",
        Action::ListStale(_) => "list.stale",
        Action::ListContinueExpired => "list.continueExpired",
        Action::ConversionDown => "webhook.conversionDown",
        Action::Deny(_) => "webhook.deny",
        Action::WebhookUnreachable => "webhook.unreachable",
        Action::KubeStatus(_) => "k8sStatus",
        Action::Throttle(_) => "throttle",
        Action::NotServed => "notServed",
        Action::NamespaceTerminating => "namespaceTerminating",
        // The actions of every face, and those of vCenters.
        _ => return None,
    })
}
