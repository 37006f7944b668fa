//! Effects of fired rules on the content of an answer, which the handler of the call carries out.
//! The call path carries out delays, failures and compactions before or without the handler.

use sim_rules::MissingPaths;
use sim_world::supervisor::OUTAGE;
use sim_world::vcenter::{MoRef, VCenter};

use kube_sim_api::WatchEffects;

/// Changes that fired rules make to the content of an answer or to the kept history. The default
/// changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    /// True if the answer must be empty: a search or a property read that finds nothing, an empty
    /// list, a get that answers 404, a watch without initial objects.
    pub empty_result: bool,
    /// True if the connection must end after the answer. The connection carries that out.
    pub goaway: bool,
    /// Objects to hide from the caller, by machine name, object name or managed object id.
    pub hidden: Vec<String>,
    /// Property paths of a vCenter's objects that the answer reports as `missingSet` entries.
    pub missing_set: Vec<MissingPaths>,
    /// True if the property collector must reject the version in the request.
    pub version_reset: bool,
    /// Effects on the events and the duration of a watch.
    pub watch: WatchEffects,
    /// Maximum number of objects in a list, or in the initial state of a watch; `None` for all.
    pub partial: Option<usize>,
    /// Number of changes by which reads that accept any state (`resourceVersion=0`) lag behind;
    /// `None` for the current state.
    pub stale: Option<usize>,
    /// Number of changes by which reads lag behind, even those that must be consistent
    /// ([`Action::ReadStale`](super::Action::ReadStale)); `None` for the current state.
    pub read_stale: Option<usize>,
    /// True if requests for a further page of a list get 410.
    pub continue_expired: bool,
    /// True if the conversion webhook must be unavailable.
    pub conversion_down: bool,
    /// Number of changes per resource that the API server keeps; it drops older ones before it
    /// serves this call. `None` drops nothing.
    pub compact: Option<usize>,
}

impl Effects {
    /// True if any effect is set except `missing_set` and `version_reset`, which only a vCenter can
    /// have, and `goaway`, which changes no answer.
    pub(crate) fn change_cluster_answers(&self) -> bool {
        let about_vcenter = Self {
            missing_set: self.missing_set.clone(),
            version_reset: self.version_reset,
            goaway: self.goaway,
            ..Self::default()
        };
        *self != about_vcenter
    }

    /// Effects that an API server carries out. The others are those of vCenters and connections, and
    /// `compact`, which takes effect before the server answers.
    pub(crate) fn for_cluster(&self) -> kube_sim_api::Effects {
        let Self {
            empty_result,
            goaway: _,
            hidden,
            missing_set: _,
            version_reset: _,
            watch,
            partial,
            stale,
            read_stale,
            continue_expired,
            conversion_down,
            compact: _,
        } = self;
        kube_sim_api::Effects {
            empty_result: *empty_result,
            hidden: hidden.clone(),
            watch: watch.clone(),
            partial: *partial,
            stale: *stale,
            read_stale: *read_stale,
            continue_expired: *continue_expired,
            conversion_outage: conversion_down.then_some(OUTAGE),
        }
    }

    /// True if a rule hides the object with this name or managed object id.
    pub(crate) fn hides(&self, name: &str) -> bool {
        self.hidden.iter().any(|hidden| hidden == name)
    }

    /// True if a rule hides this object of a vCenter, by its name or by its managed object id.
    pub(crate) fn hides_object(&self, vcenter: &VCenter, id: MoRef) -> bool {
        !self.hidden.is_empty()
            && (self.hides(&id.to_string())
                || vcenter.inventory.get(id).is_some_and(|entity| self.hides(&entity.name)))
    }
}
