//! Label and field selectors: their grammar, and the objects that they match.

mod fields;
mod labels;

use serde_json::Value;

pub use fields::FieldSelector;
pub use labels::LabelSelector;

/// A selection among the objects of a resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// Namespace of the objects; `None` for all namespaces.
    pub namespace: Option<String>,
    /// Labels of the objects.
    pub labels: LabelSelector,
    /// Fields of the objects.
    pub fields: FieldSelector,
}

impl Selection {
    /// Selects all objects in `namespace`, or in all namespaces if it is empty.
    pub fn in_namespace(namespace: &str) -> Self {
        let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
        Self { namespace, ..Self::default() }
    }

    /// True if labels and fields of `object` match. The namespace is not checked.
    pub fn matches(&self, object: &Value) -> bool {
        self.labels.matches(object) && self.fields.matches(object)
    }

    /// True if objects of `namespace` are selected.
    pub fn is_in_namespace(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_none_or(|ours| ours == namespace)
    }

    /// True if neither labels nor fields are restricted.
    pub fn selects_all(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }
}
