//! `roles.rbac.authorization.k8s.io`: permissions within one namespace.

use super::clusterroles::{self, Scope, validate_rules};
use crate::{GroupResource, ResourceDef, Strategy};

pub(super) fn definition() -> ResourceDef {
    let like = clusterroles::definition();
    ResourceDef {
        id: GroupResource::of(clusterroles::GROUP, "roles"),
        kind: "Role".into(),
        singular: "role".into(),
        namespaced: true,
        registry: "roles".into(),
        strategy: Strategy {
            validate: |role, errors| validate_rules(role, Scope::Namespace, errors),
            ..like.strategy
        },
        ..like
    }
}
