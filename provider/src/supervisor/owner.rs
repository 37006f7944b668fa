//! Owner reference for objects on the Supervisor. Upstream gives it to the objects that it creates
//! there; this provider creates none, and only checks and logs the reference.

use serde::Deserialize;

/// One owner reference, as in `ownerref.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// Group and version of the owner's kind.
    pub api_version: String,
    /// Kind of the owner, for example `Cluster` or `TanzuKubernetesCluster`; any kind is accepted.
    pub kind: String,
    /// Name of the owner.
    pub name: String,
    /// UID of the owner.
    pub uid: String,
    /// True if the owner manages the owned objects; `None` if the file does not say.
    pub controller: Option<bool>,
    /// True if a foreground deletion of the owner waits for the owned objects; `None` if the file
    /// does not say.
    pub block_owner_deletion: Option<bool>,
}

/// Reason why a text is not the JSON of an owner reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not the JSON of one owner reference: {0}")]
pub struct ParseOwnerError(pub String);

impl OwnerReference {
    /// Parses the content of `ownerref.json`.
    ///
    /// # Errors
    ///
    /// If the content is not JSON, not an object, or a field has another type. Empty and missing
    /// fields are not an error, as in upstream; see [`OwnerReference::missing`].
    pub fn from_json(bytes: &[u8]) -> Result<Self, ParseOwnerError> {
        let value: serde_json::Value =
            serde_json::from_slice(bytes).map_err(|err| ParseOwnerError(err.to_string()))?;
        // Serde would read an array as the fields in order; Go does not.
        if !value.is_object() {
            return Err(ParseOwnerError("the JSON is not an object".to_owned()));
        }
        Self::deserialize(value).map_err(|err| ParseOwnerError(err.to_string()))
    }

    /// Returns the names of the required fields that are empty: the Supervisor refuses objects with
    /// such an owner.
    pub fn missing(&self) -> Vec<&'static str> {
        let fields = [
            ("apiVersion", &self.api_version),
            ("kind", &self.kind),
            ("name", &self.name),
            ("uid", &self.uid),
        ];
        fields.into_iter().filter(|(_, value)| value.is_empty()).map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_read_as_upstream_reads_them() {
        let text = br#"{"apiVersion":"cluster.x-k8s.io/v1beta1","kind":"Cluster","name":"tkc1","uid":"u1","controller":true}"#;
        let owner = OwnerReference::from_json(text).unwrap();
        assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("Cluster", "tkc1"));
        assert_eq!((owner.controller, owner.block_owner_deletion), (Some(true), None));
        assert!(owner.missing().is_empty());
    }

    #[test]
    fn an_incomplete_owner_reference_is_read_and_lists_its_missing_fields() {
        let owner = OwnerReference::from_json(b" {} ").unwrap();
        assert_eq!(owner, OwnerReference::default());
        assert_eq!(owner.missing(), ["apiVersion", "kind", "name", "uid"]);
        let owner = OwnerReference::from_json(br#"{"name":"a","uid":"b"}"#).unwrap();
        assert_eq!(owner.missing(), ["apiVersion", "kind"]);
    }

    #[test]
    fn an_invalid_owner_reference_is_refused() {
        for (name, text) in [
            ("empty", ""),
            ("cut off", "{\"name\":"),
            ("no JSON", "name: tkc1"),
            ("a list", "[]"),
            ("a list of fields in order", r#"["v1","Cluster","a","b",null,null]"#),
            ("a text", "\"tkc1\""),
            ("a number for a name", r#"{"name":7}"#),
        ] {
            assert!(OwnerReference::from_json(text.as_bytes()).is_err(), "{name}");
        }
    }
}
