//! `rolebindings.rbac.authorization.k8s.io`: roles granted within one namespace.

use super::clusterrolebindings::{self, validate};
use super::clusterroles::GROUP;
use crate::{GroupResource, ResourceDef, Strategy};

pub(super) fn definition() -> ResourceDef {
    let like = clusterrolebindings::definition();
    ResourceDef {
        id: GroupResource::of(GROUP, "rolebindings"),
        kind: "RoleBinding".into(),
        singular: "rolebinding".into(),
        namespaced: true,
        registry: "rolebindings".into(),
        strategy: Strategy {
            validate: |binding, errors| validate(binding, &["Role", "ClusterRole"], errors),
            ..like.strategy
        },
        ..like
    }
}
