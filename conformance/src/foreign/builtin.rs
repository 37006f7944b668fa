//! Manifests that come with the program, each by its name.

const ALL: [(&str, &str); 5] = [
    ("ours-vcenter", include_str!("../../providers/ours-vcenter.yaml")),
    ("ours-supervisor", include_str!("../../providers/ours-supervisor.yaml")),
    ("stock-ccm", include_str!("../../providers/stock-ccm.yaml")),
    ("upstream-vcenter", include_str!("../../providers/upstream-vcenter.yaml")),
    ("upstream-paravirtual", include_str!("../../providers/upstream-paravirtual.yaml")),
];

/// Their names.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name)
}

/// The manifest of this name.
pub(super) fn text(name: &str) -> Option<&'static str> {
    ALL.iter().find(|(it, _)| *it == name).map(|(_, text)| *text)
}
