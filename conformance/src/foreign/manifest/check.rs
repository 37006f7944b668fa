//! Validates a manifest that parses, before the driver starts anything.

use std::collections::BTreeSet;

use jiff::civil::Date;
use serde_json::Value;
use sim::document::{self, DocumentError};
use sim::faults::{self, Rule};

use super::run::PLACE;
use super::{Features, Knob, Manifest, Skip};
use crate::catalogue;
use crate::foreign::manifest::template;

/// Classes of calls that `ready.firstCall` may name, in addition to `@any`.
const CLASSES: [&str; 5] = ["@read", "@write", "@login", "@longpoll", "@task"];
/// Files and directories that the driver itself writes to the folder of a replica.
const RESERVED: [&str; 4] = ["ca.pem", "kubeconfig", "supervisor", "supervisor.kubeconfig"];

/// Features beyond the contract of `k8s.io/cloud-provider` that a check may need and a provider may
/// claim.
const FEATURES: [&str; 17] = [
    "TagZones",
    "SupervisorZones",
    "HostGroupTopology",
    "SamlTokenAuth",
    "SharedSession",
    "CredentialHotReload",
    "SubnetSelection",
    "NetworkNameSelection",
    "ShutdownTaint",
    "DeletionOptOut",
    "MorefIdentity",
    "EventDrivenInventory",
    "LbClasses",
    "LbSourceRanges",
    "ScaleFromZero",
    "NodeGroupOptions",
    "Pricing",
];

impl Manifest {
    /// Checks that every knob has at least one argument, and `$(value)` in at least one of them.
    /// The knob `skipDeletion` needs no `$(value)`, because its only value is `true`. Also checks
    /// that a manifest of vCenter mode has no knob `ipFamily`.
    pub(super) fn check_knobs(&self) -> Result<(), DocumentError> {
        let mut knobs = self.spec.knobs.iter();
        knobs.try_for_each(|(knob, arguments)| self.check_knob(*knob, &arguments.0))
    }

    fn check_knob(&self, knob: Knob, arguments: &[String]) -> Result<(), DocumentError> {
        let value = match arguments {
            [argument] => Value::from(argument.as_str()),
            several => Value::from(several),
        };
        let wrong = |problem: &str, remedy: &str| {
            Err(DocumentError::at_key(
                &format!("spec.knobs.{}", knob.name()),
                &value,
                problem,
                remedy,
            ))
        };
        if arguments.is_empty() {
            return wrong("has no argument", "write one, or leave the knob out");
        }
        if knob == Knob::IpFamily && self.spec.mode.is_vcenter() {
            let remedy = "leave it out; in vCenter mode $(config.yaml) contains the IP families";
            return wrong("is a knob of Supervisor mode", remedy);
        }
        let has_value =
            |text: &String| template::names(text).iter().any(|placeholder| placeholder == "value");
        if knob != Knob::SkipDeletion && !arguments.iter().any(has_value) {
            return wrong(
                "has no $(value)",
                "write $(value) in an argument, in place of the value",
            );
        }
        Ok(())
    }

    /// Checks that `ready.firstCall` names one operation of the ledger or one class of calls, and
    /// that the name of each file is plain (not empty, not hidden, without a directory) and not one
    /// that the driver itself uses.
    pub(super) fn check_start(&self) -> Result<(), DocumentError> {
        let op = self.spec.ready.first_call.op.as_str();
        let value = Value::from(op);
        let key = "spec.ready.firstCall.op";
        if op.contains('*') {
            return Err(DocumentError::at_key(
                key,
                &value,
                "is not a single operation",
                "write one operation, without *",
            ));
        }
        let is_class = op == "@any" || CLASSES.contains(&op);
        if op.starts_with('@') && !is_class {
            let remedy = format!("expected @any, or one of {}", CLASSES.join(", "));
            return Err(DocumentError::at_key(key, &value, "is not a class of calls", remedy));
        }
        let doubts =
            if is_class { Vec::new() } else { faults::warnings(&Rule::new("ready", []).op([op])) };
        if let Some(doubt) = doubts.first() {
            let remedy = "write the operation as the ledger names it, or @any";
            return Err(DocumentError::at_key(key, &value, doubt, remedy));
        }
        for name in self.spec.files.keys() {
            let is_name = !name.is_empty() && !name.starts_with('.') && !name.contains('/');
            let problem = match name.as_str() {
                name if RESERVED.contains(&name) => "is written by the driver",
                _ if !is_name => "is not the name of a file in the provider's folder",
                _ => continue,
            };
            let key = format!("spec.files.{name}");
            let remedy = "give the file another name; $(files.NAME) is its path";
            return Err(DocumentError::at_key(&key, &Value::from(name.as_str()), problem, remedy));
        }
        Ok(())
    }

    /// Checks that all features exist and that none is listed twice. Checks that all skipped checks
    /// exist and are not aliases, and that no skip has expired.
    pub(super) fn check_claims(&self, today: Date) -> Result<(), DocumentError> {
        self.check_features()?;
        self.spec.skips.iter().enumerate().try_for_each(|(n, skip)| check_skip(n, skip, today))
    }

    fn check_features(&self) -> Result<(), DocumentError> {
        let Features { supported, unsupported } = &self.spec.features;
        let mut seen = BTreeSet::new();
        for (key, list) in [("supported", supported), ("unsupported", unsupported)] {
            for feature in list {
                let key = format!("spec.features.{key}");
                let value = Value::from(feature.as_str());
                if !FEATURES.contains(&feature.as_str()) {
                    let near = document::closest(feature, &FEATURES);
                    let remedy = match near {
                        Some(near) => format!("did you mean {near}?"),
                        None => format!("expected one of {}", FEATURES.join(", ")),
                    };
                    return Err(DocumentError::at_key(
                        &key,
                        &value,
                        "is not a known feature",
                        remedy,
                    ));
                }
                if !seen.insert(feature) {
                    return Err(DocumentError::at_key(
                        &key,
                        &value,
                        "is listed twice",
                        "remove one",
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks that the driver knows every placeholder at its place, and that `$(knobs)` stands only
    /// as a separate argument.
    pub(super) fn check_placeholders(&self) -> Result<(), DocumentError> {
        let known: Vec<String> = template::known(self);
        let among = |known: &[String], key: String, text: &str, own: &[&str]| {
            template::names(text).into_iter().try_for_each(|name| {
                let is_known = known.contains(&name)
                    || own.contains(&name.as_str())
                    || template::variable(&name).is_some();
                if is_known {
                    return Ok(());
                }
                let there = own.iter().copied().chain(known.iter().map(String::as_str));
                let there: Vec<&str> = there.collect();
                let remedy = format!("expected one of {}, or env.NAME", there.join(", "));
                let value = Value::from(format!("$({name})"));
                Err(DocumentError::at_key(&key, &value, "unknown placeholder", remedy))
            })
        };
        let check = |key: String, text: &str, own: &[&str]| among(&known, key, text, own);
        for name in self.spec.files.keys() {
            check(format!("spec.files.{name}"), &self.template(name)?, &[])?;
        }
        for (knob, arguments) in &self.spec.knobs {
            for (n, text) in arguments.0.iter().enumerate() {
                let place = if arguments.0.len() > 1 { format!("[{n}]") } else { String::new() };
                check(format!("spec.knobs.{}{place}", knob.name()), text, &["value"])?;
            }
        }
        let driver = self.driver();
        let (part, arguments) = driver.arguments();
        let below = format!("spec.run.{}", driver.name());
        for (n, argument) in arguments.iter().enumerate() {
            let key = format!("{below}.{part}[{n}]");
            if argument != "$(knobs)" && template::names(argument).iter().any(|it| it == "knobs") {
                let remedy = "write \"$(knobs)\" as a separate argument";
                return Err(DocumentError::at_key(
                    &key,
                    &Value::from(argument.as_str()),
                    "$(knobs) stands for several arguments",
                    remedy,
                ));
            }
            check(key, argument, &["knobs"])?;
        }
        for (name, text) in driver.env() {
            check(format!("{below}.env.{name}"), text, &[])?;
        }
        for (path, text) in driver.binds() {
            check(format!("{below}.binds.{}", path.display()), text, &[])?;
        }
        for (part, text) in driver.place() {
            among(&[], format!("{below}.{part}"), text, &PLACE)?;
        }
        Ok(())
    }
}

/// Checks the skip with index `n`: its check must exist and must not be an alias, and the skip must
/// not have expired.
fn check_skip(n: usize, skip: &Skip, today: Date) -> Result<(), DocumentError> {
    let key = format!("spec.skips[{n}]");
    if catalogue::entry(&skip.check).is_none() {
        let value = Value::from(skip.check.as_str());
        let problem = catalogue::unknown_id(&skip.check).to_string();
        return Err(DocumentError::at_key(
            &format!("{key}.check"),
            &value,
            &problem,
            "correct the ID",
        ));
    }
    let target = catalogue::entry(&skip.check).and_then(|it| it.alias_of);
    if let Some(target) = target {
        let value = Value::from(skip.check.as_str());
        let problem = format!("says the same as {target}, which is run in its place");
        let remedy = format!("write {target}");
        return Err(DocumentError::at_key(&format!("{key}.check"), &value, &problem, remedy));
    }
    if skip.expires < today {
        let value = Value::from(skip.expires.to_string());
        let problem = format!("the skip of {} has expired", skip.check);
        let remedy = "remove the skip, or review its reason and give it a new date";
        return Err(DocumentError::at_key(&format!("{key}.expires"), &value, &problem, remedy));
    }
    Ok(())
}
