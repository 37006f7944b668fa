//! `serviceaccounts`: identities of programs.

use crate::{GroupResource, ResourceDef, Strategy};

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        id: GroupResource::core("serviceaccounts"),
        version: "v1".into(),
        kind: "ServiceAccount".into(),
        singular: "serviceaccount".into(),
        short_names: &["sa"],
        categories: &[],
        namespaced: true,
        hides_content_in_errors: false,
        returns_deleted: true,
        status: false,
        scales: false,
        registry: "serviceaccounts".into(),
        custom: None,
        deprecation: "",
        selectable: &[],
        strategy: Strategy::PLAIN,
    }
}
