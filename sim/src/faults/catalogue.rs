//! Catalogue of named failures: rules for failures of a Supervisor that were seen in production.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use super::Rule;
use crate::document::{self, DocumentError, closest};

static CATALOGUE: LazyLock<Vec<Known>> = LazyLock::new(|| {
    serde_saphyr::from_str(include_str!("catalogue.yaml")).expect("catalogue.yaml is valid")
});

/// A named failure.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Known {
    /// Description in one line.
    pub about: String,
    /// The rule; its id is the name of the failure.
    pub rule: Rule,
}

impl Known {
    /// Name of the failure.
    pub fn name(&self) -> &str {
        &self.rule.id
    }
}

/// Returns all named failures.
pub fn catalogue() -> &'static [Known] {
    &CATALOGUE
}

/// Returns the rule of the failure with this name; `None` if the catalogue has no such name.
pub fn known(name: &str) -> Option<Rule> {
    catalogue().iter().find(|known| known.name() == name).map(|known| known.rule.clone())
}

/// Expands the name of a failure in a rule of a document. A text stands for the rule of that name.
/// An object with the key `use` stands for the rule that `use` names; its other keys replace keys
/// of that rule. Returns any other value unchanged.
///
/// # Errors
/// A name that is not in the catalogue, or a `use` that is not a text.
pub(crate) fn named(value: Value) -> Result<Value, DocumentError> {
    let (name, own) = match value {
        Value::String(name) => (name, None),
        Value::Object(mut own) if own.contains_key("use") => {
            let name: String = document::typed(own.shift_remove("use").unwrap_or_default())
                .map_err(|wrong| wrong.prefix_key("use"))?;
            (name, Some(own))
        }
        other => return Ok(other),
    };
    let Some(rule) = known(&name) else {
        let names: Vec<&str> = catalogue().iter().map(Known::name).collect();
        let remedy = match closest(&name, &names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`sim fault known` lists the names".to_owned(),
        };
        return Err(DocumentError::at_key("", &name.into(), "no failure has this name", remedy));
    };
    let mut rule = serde_json::to_value(rule).unwrap_or_default();
    if let (Some(own), Value::Object(rule)) = (own, &mut rule) {
        rule.extend(own);
    }
    Ok(rule)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::faults::{check, warnings};

    #[test]
    fn every_catalogue_rule_is_valid_and_has_a_unique_name() {
        let all = catalogue();
        let mut names: Vec<&str> = all.iter().map(Known::name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
        for known in all {
            assert_eq!(check(&known.rule), Ok(()), "{}", known.name());
            assert_eq!(warnings(&known.rule), Vec::<String>::new(), "{}", known.name());
            let text = serde_json::to_string(&known.rule).unwrap();
            assert_eq!(serde_json::from_str::<Rule>(&text).unwrap(), known.rule, "{text}");
        }
    }

    #[test]
    fn the_documentation_lists_every_catalogue_rule() {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        if package.join("Cargo.toml.orig").exists() {
            return; // An unpacked package: it contains no documents.
        }
        let page = fs::read_to_string(package.join("../docs/supervisor.md")).unwrap();
        for known in catalogue() {
            let row = format!("| `{}` | {} |", known.name(), known.about);
            assert!(page.contains(&row), "docs/supervisor.md lacks the row\n{row}");
        }
    }

    #[test]
    fn a_catalogue_name_in_a_rule_file_stands_for_its_rule() {
        let read = |text: &str| document::rules(document::yaml(text.as_bytes()).unwrap());
        let rules = read("[hangs, {use: token-refused, id: mine, when: {nth: 2}}]").unwrap();
        assert_eq!(rules[0], known("hangs").unwrap());
        let mut mine = known("token-refused").unwrap().nth(2);
        mine.id = "mine".into();
        assert_eq!(rules[1], mine);
        let wrong = |text: &str| read(text).map_err(|wrong| (wrong.summary(), wrong.remedy));
        assert_eq!(
            wrong("[hang]"),
            Err(("[0]: \"hang\": no failure has this name".into(), "did you mean `hangs`?".into()))
        );
        assert_eq!(
            wrong("[{use: hangs, wen: {}}]"),
            Err(("[0].wen: unknown key".into(), "did you mean `when`?".into()))
        );
    }
}
