//! Catalogue of named failures: rules for failures of a Supervisor that were seen in production.

use std::sync::LazyLock;

use serde::Deserialize;

use super::Rule;

static CATALOGUE: LazyLock<Vec<Known>> = LazyLock::new(|| {
    serde_saphyr::from_str(include_str!("catalogue.yaml")).expect("catalogue.yaml is valid")
});

/// A failure with a name, which `sim fault add` and rules in files accept in place of a rule.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Known {
    /// Description of the failure in one line.
    pub about: String,
    /// The rule; its id is the name of the failure.
    pub rule: Rule,
}

impl Known {
    /// Name of the failure.
    pub fn name(&self) -> &str {
        self.rule.id.as_str()
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
}
