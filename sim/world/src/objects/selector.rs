//! Label and field selectors: their grammar, and what they match.

mod fields;
mod labels;

use serde_json::Value;

pub use fields::FieldSelector;
pub use labels::LabelSelector;

/// Which objects of a resource are meant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Only objects with such labels.
    pub labels: LabelSelector,
    /// Only objects with such fields.
    pub fields: FieldSelector,
}

impl Selection {
    /// Everything in `namespace`, or everywhere if it is empty.
    pub fn in_namespace(namespace: &str) -> Self {
        let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
        Self { namespace, ..Self::default() }
    }

    /// Whether labels and fields of `object` are as they should be. The namespace is not looked at.
    pub fn matches(&self, object: &Value) -> bool {
        self.labels.matches(object) && self.fields.matches(object)
    }

    /// Whether objects of `namespace` are meant.
    pub fn is_in_namespace(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_none_or(|ours| ours == namespace)
    }

    /// Whether labels and fields are free.
    pub fn selects_all(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }
}
