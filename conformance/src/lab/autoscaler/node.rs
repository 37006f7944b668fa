//! Serialized `v1.Node`, as far as the checks read it.

use std::collections::BTreeMap;

/// `v1.Node`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Node {
    /// Metadata.
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<Metadata>,
    /// Specification.
    #[prost(message, optional, tag = "2")]
    pub spec: Option<Spec>,
    /// Status.
    #[prost(message, optional, tag = "3")]
    pub status: Option<Status>,
}

/// `metav1.ObjectMeta`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Metadata {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Labels.
    #[prost(btree_map = "string, string", tag = "11")]
    pub labels: BTreeMap<String, String>,
}

/// `v1.NodeSpec`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Spec {
    /// Provider ID.
    #[prost(string, tag = "3")]
    pub provider_id: String,
}

/// `v1.NodeStatus`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Status {
    /// Resources of the machine.
    #[prost(btree_map = "string, message", tag = "1")]
    pub capacity: BTreeMap<String, Quantity>,
    /// Resources for Pods.
    #[prost(btree_map = "string, message", tag = "2")]
    pub allocatable: BTreeMap<String, Quantity>,
    /// Conditions.
    #[prost(message, repeated, tag = "4")]
    pub conditions: Vec<Condition>,
}

/// `resource.Quantity`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Quantity {
    /// The quantity as text, such as `8Gi`.
    #[prost(string, tag = "1")]
    pub text: String,
}

/// `v1.NodeCondition`, without its times.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Condition {
    /// Type, such as `Ready`.
    #[prost(string, tag = "1")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    #[prost(string, tag = "2")]
    pub status: String,
}

impl Quantity {
    /// Returns the amount; `None` if the text is not a quantity.
    pub fn amount(&self) -> Option<f64> {
        let digits = self.text.find(|c: char| !(c.is_ascii_digit() || "+-.".contains(c)));
        let (number, suffix) = self.text.split_at(digits.unwrap_or(self.text.len()));
        let number: f64 = number.parse().ok()?;
        let exponent = |text: &str| text.parse::<i32>().ok().map(|it| 10_f64.powi(it));
        let factor = match suffix {
            "" => 1.0,
            "n" => 1e-9,
            "u" => 1e-6,
            "m" => 1e-3,
            "k" => 1e3,
            "M" => 1e6,
            "G" => 1e9,
            "T" => 1e12,
            "P" => 1e15,
            "E" => 1e18,
            "Ki" => f64::from(1 << 10),
            "Mi" => f64::from(1 << 20),
            "Gi" => f64::from(1 << 30),
            "Ti" => 2_f64.powi(40),
            "Pi" => 2_f64.powi(50),
            "Ei" => 2_f64.powi(60),
            other => exponent(other.strip_prefix(['e', 'E'])?)?,
        };
        Some(number * factor)
    }
}

impl Node {
    /// Returns the labels.
    pub fn labels(&self) -> BTreeMap<String, String> {
        self.metadata.clone().unwrap_or_default().labels
    }

    /// Returns the amount of a resource for Pods; `None` without one.
    pub fn allocatable(&self, resource: &str) -> Option<f64> {
        self.status.as_ref()?.allocatable.get(resource)?.amount()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_with_each_kind_of_suffix() {
        for (text, amount) in [
            ("4", Some(4.0)),
            ("500m", Some(0.5)),
            ("8Gi", Some(8.0 * 1024.0 * 1024.0 * 1024.0)),
            ("1e3", Some(1000.0)),
            ("2E", Some(2e18)),
            ("1Q", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(Quantity { text: text.to_owned() }.amount(), amount, "{text}");
        }
    }
}
