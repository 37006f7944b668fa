//! Parser of `--controllers`: selects the controllers that run.

use crate::InputError;

/// True for each controller that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ControllerSelection {
    pub(super) cloud_node: bool,
    pub(super) cloud_node_lifecycle: bool,
}

/// Canonical name and alias of each controller of upstream, and true if this provider has it.
const KNOWN: [(&str, &str, bool); 4] = [
    ("cloud-node-controller", "cloud-node", true),
    ("cloud-node-lifecycle-controller", "cloud-node-lifecycle", true),
    ("service-lb-controller", "service", false),
    ("node-route-controller", "route", false),
];

/// Parses the list. The first entry that names a controller decides about it; `*` enables all
/// controllers without an entry. Fails if an entry is not the name of a controller of upstream, or
/// enables one that this provider does not have.
///
/// Upstream: `k8s.io/controller-manager: app/helper.go`, `IsControllerEnabled`.
pub(super) fn select(list: &str) -> Result<ControllerSelection, InputError> {
    let entries: Vec<&str> = list.split(',').map(str::trim).filter(|e| !e.is_empty()).collect();
    for entry in &entries {
        let name = entry.strip_prefix('-').unwrap_or(entry);
        if *entry == "*" {
            continue;
        }
        let Some((canonical, _, exists)) =
            KNOWN.iter().find(|(canonical, alias, _)| name == *canonical || name == *alias)
        else {
            let names: Vec<&str> =
                KNOWN.iter().filter(|it| it.2).map(|(_, alias, _)| *alias).collect();
            let names = names.join(", ");
            let err = InputError::invalid(name, "is not the name of a controller");
            let condition = format!("expected *, NAME or -NAME, with NAME one of {names}");
            return Err(err.condition(condition));
        };
        if !exists && !entry.starts_with('-') {
            let err = InputError::new(format!("{canonical} does not exist in this provider"));
            return Err(err.remedy("omit it, or write * for all that exist"));
        }
    }
    let is_enabled = |canonical: &str, alias: &str| {
        let names = |entry: &str| entry == canonical || entry == alias;
        let first = entries.iter().find(|e| names(e.strip_prefix('-').unwrap_or(e)));
        first.map_or_else(|| entries.contains(&"*"), |entry| !entry.starts_with('-'))
    };
    Ok(ControllerSelection {
        cloud_node: is_enabled(KNOWN[0].0, KNOWN[0].1),
        cloud_node_lifecycle: is_enabled(KNOWN[1].0, KNOWN[1].1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_selected_as_upstream_selects_them() {
        for (list, want) in [
            ("*", Ok((true, true))),
            ("cloud-node", Ok((true, false))),
            ("cloud-node-controller", Ok((true, false))),
            ("*,-service", Ok((true, true))),
            ("-cloud-node-lifecycle,*", Ok((true, false))),
            ("cloud-node,-cloud-node", Ok((true, false))),
            ("-cloud-node,cloud-node", Ok((false, false))),
            ("nope", Err(())),
            ("*,route", Err(())),
        ] {
            let got = select(list).map(|s| (s.cloud_node, s.cloud_node_lifecycle));
            assert_eq!(got.map_err(|_| ()), want, "{list}");
        }
    }

    /// Upstream searches the whole text for `-route`, and finds it in `node-route-controller`.
    #[test]
    fn a_controller_name_within_a_longer_name_does_not_match() {
        let selected = |list: &str| select(list).map(|s| (s.cloud_node, s.cloud_node_lifecycle));
        assert_eq!(selected("*,-node-route-controller"), Ok((true, true)));
        assert_eq!(selected("cloud-node-lifecycle"), Ok((false, true)));
        let said = selected("*,node-route-controller").unwrap_err().to_string();
        assert!(said.starts_with("node-route-controller does not exist"), "{said}");
    }
}
