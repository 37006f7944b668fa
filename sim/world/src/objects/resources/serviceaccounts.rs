//! `serviceaccounts`: names that programs act under.

use super::{FINALIZERS, OWNERS};
use crate::objects::{GroupResource, MergeRule, ResourceDef, Strategy};

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        id: GroupResource::core("serviceaccounts"),
        version: "v1".into(),
        kind: "ServiceAccount".into(),
        singular: "serviceaccount".into(),
        short_names: &["sa"],
        categories: &[],
        namespaced: true,
        confidential: false,
        returns_deleted: true,
        status: false,
        registry: "serviceaccounts",
        merge: const { &[FINALIZERS, OWNERS, MergeRule::by_key("secrets", "name")] },
        selectable: &[],
        shapes: &[],
        strategy: Strategy::PLAIN,
    }
}
