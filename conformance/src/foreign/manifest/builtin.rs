//! The built-in manifests, by name.

const ALL: [(&str, &str); 5] = [
    ("ours-vcenter", include_str!("../../../providers/ours-vcenter.yaml")),
    ("ours-supervisor", include_str!("../../../providers/ours-supervisor.yaml")),
    ("stock-ccm", include_str!("../../../providers/stock-ccm.yaml")),
    ("upstream-vcenter", include_str!("../../../providers/upstream-vcenter.yaml")),
    ("upstream-paravirtual", include_str!("../../../providers/upstream-paravirtual.yaml")),
];

/// Returns the names of the built-in manifests.
pub(in crate::foreign) fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name)
}

/// Returns the text of the built-in manifest with this name; `None` for an unknown name.
pub(in crate::foreign) fn text(name: &str) -> Option<&'static str> {
    ALL.iter().find(|(it, _)| *it == name).map(|(_, text)| *text)
}
