//! The template that a group names.

use serde_json::Value;

use super::super::plan::text;
use crate::InputError;

/// A template of any kind, in the namespace of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateReference {
    /// API group.
    pub api_group: String,
    /// Version; `None` for the one that the API server prefers.
    pub version: Option<String>,
    /// Resource in paths: the kind in lower case with an `s`.
    pub resource: String,
    /// Name.
    pub name: String,
}

/// Returns the template that a group names, with `apiGroup` (v1beta2 of Cluster API) or `apiVersion`
/// (v1beta1); `None` if it names none.
///
/// # Errors
///
/// If a part of the name is missing.
pub fn template_reference(group: &Value) -> Result<Option<TemplateReference>, InputError> {
    TemplateReference::read(&group["spec"]["template"]["spec"]["infrastructureRef"])
}

impl TemplateReference {
    /// Reads a reference, also one to another object than a template; `None` if it is absent.
    ///
    /// # Errors
    ///
    /// If a part of the name is missing.
    pub(crate) fn read(reference: &Value) -> Result<Option<Self>, InputError> {
        if !reference.is_object() {
            return Ok(None);
        }
        let missing = |key: &str| {
            let err = InputError::new("is missing").remedy("correct the group").at_key(key);
            err.at_key("infrastructureRef")
        };
        let part = |key: &str| match text(&reference[key]) {
            "" => Err(missing(key)),
            part => Ok(part.to_owned()),
        };
        let (api_group, version) = match (part("apiGroup"), part("apiVersion")) {
            (Ok(api_group), _) => (api_group, None),
            (Err(_), Ok(api_version)) => match api_version.split_once('/') {
                Some((api_group, version)) => (api_group.to_owned(), Some(version.to_owned())),
                None => (String::new(), Some(api_version)),
            },
            (Err(err), Err(_)) => return Err(err),
        };
        let resource = format!("{}s", part("kind")?.to_lowercase());
        Ok(Some(Self { api_group, version, resource, name: part("name")? }))
    }
}
