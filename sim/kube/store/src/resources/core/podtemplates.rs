//! `podtemplates`: templates of pods that stand alone, as ProvisioningRequests refer to them.

use super::pods::template;
use crate::{Check, ResourceDef, Strategy};

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        returns_deleted: true,
        strategy: Strategy {
            generation: true,
            default: Some(|object| template::default(object, "template")),
            validate: |object, errors| {
                template::validate(&object["template"], "template", errors);
            },
            checks: &[Check::MetadataChange, Check::Whole],
            ..Strategy::PLAIN
        },
        ..ResourceDef::builtin("", "podtemplates", "PodTemplate")
    }
}
