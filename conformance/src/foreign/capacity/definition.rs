//! The definition of the kind of templates: `--template-crd`.

use serde_json::{Value, json};
use sim::document::{self, DocumentError};

use crate::scenario::InputError;

/// Key of rules that the sim does not run.
const RULES: &str = "x-kubernetes-validations";

/// Definition of a kind in a file, ready to be installed.
#[derive(Clone, Debug)]
pub(super) struct DefinitionFile {
    pub(super) path: String,
    pub(super) content: Value,
    /// True if rules were left out.
    pub(super) has_rules: bool,
}

/// Definition of the kind of templates.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    pub(super) file: DefinitionFile,
    /// API group and version of the templates.
    pub(super) api_version: String,
    pub(super) kind: String,
    /// True if the status has `nodeInfo`.
    pub(super) has_node_info: bool,
}

impl DefinitionFile {
    /// Removes what the sim does not run, and the status, which an API server sets itself.
    fn new(path: &str, mut content: Value) -> Self {
        content.as_object_mut().and_then(|it| it.remove("status"));
        let has_rules = remove_rules(&mut content["spec"]["versions"]);
        Self { path: path.to_owned(), content, has_rules }
    }
}

/// Reads a definition of a kind whose status keeps the contract of Cluster API.
///
/// # Errors
/// If the file is no such definition.
pub(super) fn load(path: &str) -> Result<Definition, InputError> {
    check(read(path)?).map_err(|wrong| InputError::in_document(path, wrong))
}

/// Reads a definition of any kind.
///
/// # Errors
/// If the file is no definition.
pub(super) fn read(path: &str) -> Result<DefinitionFile, InputError> {
    let wrong = |wrong| InputError::in_document(path, wrong);
    let text = std::fs::read(path).map_err(|err| {
        let problem = format!("cannot be read: {err}");
        wrong(DocumentError::document(problem, "name a file with a CustomResourceDefinition"))
    })?;
    let content = document::yaml(&text).map_err(wrong)?;
    if content["kind"] != "CustomResourceDefinition" {
        let remedy = "name a file with one CustomResourceDefinition";
        return Err(wrong(DocumentError::at_key(
            "kind",
            &content["kind"],
            "is not known here",
            remedy,
        )));
    }
    Ok(DefinitionFile::new(path, content))
}

fn check(file: DefinitionFile) -> Result<Definition, DocumentError> {
    let content = &file.content;
    let versions = content["spec"]["versions"].as_array().cloned().unwrap_or_default();
    let is_used = |it: &&Value| it["served"] == true && it["storage"] == true;
    let Some(version) = versions.iter().find(is_used) else {
        let remedy = "serve the version with storage: true";
        let names = json!(versions.iter().map(|it| &it["name"]).collect::<Vec<_>>());
        return Err(DocumentError::at_key(
            "spec.versions",
            &names,
            "have no served one that is stored",
            remedy,
        ));
    };
    let name = version["name"].as_str().unwrap_or_default();
    let key = |rest: &str| format!("spec.versions[{name}].{rest}");
    if version["subresources"]["status"].is_null() {
        let remedy = "write status: {}";
        return Err(DocumentError::at_key(
            &key("subresources.status"),
            &Value::Null,
            "is missing",
            remedy,
        ));
    }
    let path = "schema.openAPIV3Schema.properties.status.properties";
    let status = &version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"];
    let missing = |name: &str| {
        let remedy = "add it as the contract of Cluster API for scale from zero describes it";
        DocumentError::at_key(&key(&format!("{path}.{name}")), &Value::Null, "is missing", remedy)
    };
    if !status["capacity"].is_object() {
        return Err(missing("capacity"));
    }
    let info = &status["nodeInfo"];
    for field in ["architecture", "operatingSystem"] {
        if info.is_object() && !info["properties"][field].is_object() {
            return Err(missing(&format!("nodeInfo.properties.{field}")));
        }
    }
    let (has_node_info, spec) = (info.is_object(), &content["spec"]);
    let group = spec["group"].as_str().unwrap_or_default();
    let api_version = format!("{group}/{name}");
    let kind = spec["names"]["kind"].as_str().unwrap_or_default().to_owned();
    Ok(Definition { api_version, kind, has_node_info, file })
}

/// Removes the rules that the sim does not run. Returns true if there were any.
fn remove_rules(value: &mut Value) -> bool {
    let mut had = false;
    match value {
        Value::Object(map) => {
            had = map.remove(RULES).is_some();
            for value in map.values_mut() {
                had |= remove_rules(value);
            }
        }
        Value::Array(list) => {
            for value in list {
                had |= remove_rules(value);
            }
        }
        _ => {}
    }
    had
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition() -> Value {
        let text = include_str!("../../../examples/capacity/instance-type.crd.yaml");
        document::yaml(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_storage_version_is_used_and_rules_are_left_out() {
        let mut content = definition();
        let schema = "/spec/versions/0/schema/openAPIV3Schema";
        content.pointer_mut(schema).unwrap()[RULES] = json!([{"rule": "true"}]);
        let definition = check(DefinitionFile::new("x.yaml", content)).unwrap();
        assert_eq!(definition.api_version, "infrastructure.cluster.x-k8s.io/v1beta2");
        assert!(definition.file.has_rules && definition.has_node_info);
        assert!(!definition.file.content.to_string().contains(RULES));
    }

    #[test]
    fn a_definition_without_a_stored_version_is_refused_with_the_names_of_its_versions() {
        let mut content = definition();
        content["spec"]["versions"][0]["storage"] = false.into();
        let wrong = check(DefinitionFile::new("x.yaml", content)).unwrap_err().summary();
        assert!(wrong.contains(r#"["v1beta2","v1beta1"]"#), "{wrong}");
    }

    #[test]
    fn a_definition_that_does_not_follow_the_contract_is_refused() {
        let status = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
        for (pointer, key, expected) in [
            (status, "capacity", "status.properties.capacity"),
            (&format!("{status}/nodeInfo/properties"), "architecture", "nodeInfo.properties.arch"),
            ("/spec/versions/0", "subresources", "subresources.status"),
            ("/spec", "versions", "spec.versions"),
        ] {
            let mut content = definition();
            content.pointer_mut(pointer).unwrap().as_object_mut().unwrap().remove(key);
            let wrong = check(DefinitionFile::new("x.yaml", content)).unwrap_err();
            let wrong = InputError::in_document("x.yaml", wrong).to_string();
            assert!(wrong.contains(expected) && wrong.contains("remedy: "), "{key}: {wrong}");
        }
    }
}
