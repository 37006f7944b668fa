//! Order of the versions of a kind.

/// Orders versions as Kubernetes does, preferred ones first.
pub fn compare_versions(one: &str, other: &str) -> std::cmp::Ordering {
    priority(other).cmp(&priority(one))
}

/// Returns the rank of a version, which is greater for a preferred one. As in Kubernetes, `v2`
/// ranks above `v1`, then follow `v1beta2`, `v1alpha1` and everything else.
pub(super) fn priority(name: &str) -> (bool, u8, u32, u32, std::cmp::Reverse<String>) {
    let parsed = || {
        let rest = name.strip_prefix('v')?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (major, stage) = rest.split_at(end);
        let major: u32 = major.parse().ok()?;
        if stage.is_empty() {
            return Some((2, major, 0));
        }
        let (level, minor) = if let Some(minor) = stage.strip_prefix("beta") {
            (1, minor)
        } else {
            (0, stage.strip_prefix("alpha")?)
        };
        Some((level, major, minor.parse().ok()?))
    };
    let other = std::cmp::Reverse(name.to_owned());
    match parsed() {
        Some((level, major, minor)) => (true, level, major, minor, other),
        None => (false, 0, 0, 0, other),
    }
}

#[cfg(test)]
mod tests {
    use super::priority;

    #[test]
    fn versions_are_ordered_as_kubernetes_does() {
        let mut versions =
            ["foo10", "v1alpha1", "v10", "v2", "v1beta2", "foo1", "v1", "v1beta1", "v11alpha2"];
        versions.sort_by_key(|name| std::cmp::Reverse(priority(name)));
        let want =
            ["v10", "v2", "v1", "v1beta2", "v1beta1", "v11alpha2", "v1alpha1", "foo1", "foo10"];
        assert_eq!(versions, want);
    }
}
