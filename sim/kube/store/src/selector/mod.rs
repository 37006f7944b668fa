//! Label and field selectors: parsing, and matching of objects.

mod fields;
mod labels;
mod structured;

use serde_json::Value;

pub use fields::FieldSelector;
pub use labels::LabelSelector;
pub(crate) use structured::validate as validate_label_selector;

/// Conditions that select some of the objects of a resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// Namespace of the selected objects; `None` for all namespaces.
    pub namespace: Option<String>,
    /// Requirements on the labels of the objects; empty for none.
    pub labels: LabelSelector,
    /// Conditions on the fields of the objects; empty for none.
    pub fields: FieldSelector,
}

impl Selection {
    /// Returns the selection of all objects in `namespace`, or in all namespaces if `namespace` is
    /// empty.
    pub fn in_namespace(namespace: &str) -> Self {
        let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
        Self { namespace, ..Self::default() }
    }

    /// True if labels and fields of `object` match. Does not check the namespace.
    pub fn matches(&self, object: &Value) -> bool {
        self.labels.matches(object) && self.fields.matches(object)
    }

    /// True if `namespace` is the selected namespace, or all namespaces are selected.
    pub(crate) fn is_in_namespace(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_none_or(|ours| ours == namespace)
    }

    /// True if the selection has no condition on labels or fields.
    pub(crate) fn selects_all(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }
}
