//! Validation of rules that parse but cannot work.

use super::{Action, Denial, KubeStatus, Rule, Spoil};

impl Rule {
    /// Checks that the rule can work.
    ///
    /// # Errors
    /// A text that names the rule, the key, the value and the remedy.
    pub fn check(&self) -> Result<(), String> {
        let Self { id, matcher, actions, when, .. } = self;
        if id.is_empty() {
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
        if let Some(wrong) = matcher.op.wrong_class() {
            return Err(format!("rule `{id}`: match.op {wrong}"));
        }
        for action in actions {
            match action {
                Action::Status { code, .. } if !(100..=599).contains(code) => {
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
                    if let Some(operation) = matcher.never_stale() {
                        return Err(format!(
                            "rule `{id}`: {operation} always answers from the current state, so read.stale cannot change it; \
                             remove it from match.op"
                        ));
                    }
                }
                Action::SoapFault { class, .. } if crate::vim::fault_class(class).is_none() => {
                    return Err(format!(
                        "rule `{id}`: soapFault type `{class}` is not known; try SystemError"
                    ));
                }
                action if matcher.protocol.is_some_and(|face| !face.is_kubernetes()) => {
                    if let Some(name) = action.of_cluster() {
                        return Err(format!(
                            "rule `{id}`: {name} works only in a Kubernetes API; remove match.protocol or write k8s.guest or k8s.supervisor"
                        ));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}
