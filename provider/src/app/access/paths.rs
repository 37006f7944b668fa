//! `--authorization-always-allow-paths`: paths that need no authorization.

use std::str::FromStr;

use crate::InputError;

/// The paths and prefixes of paths that need no authorization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedPaths {
    exact: Vec<String>,
    prefixes: Vec<String>,
}

impl Default for AllowedPaths {
    /// Allows the health paths, as upstream does.
    fn default() -> Self {
        let exact = ["healthz", "readyz", "livez"].map(str::to_owned).to_vec();
        Self { exact, prefixes: Vec::new() }
    }
}

impl FromStr for AllowedPaths {
    type Err = InputError;

    /// Parses a comma-separated list; an empty text allows no path. A slash at the beginning of a
    /// path makes no difference. A `*` at the end of a path matches any suffix; any other `*` is an
    /// error.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut allowed = Self { exact: Vec::new(), prefixes: Vec::new() };
        if text.is_empty() {
            return Ok(allowed);
        }
        for given in text.split(',') {
            let path = given.strip_prefix('/').unwrap_or(given);
            let (path, paths) = match path.strip_suffix('*') {
                Some(prefix) => (prefix, &mut allowed.prefixes),
                None => (path, &mut allowed.exact),
            };
            if path.contains('*') {
                let err = InputError::invalid(given, "contains a * that is not the last character");
                return Err(err.remedy("remove it"));
            }
            paths.push(path.to_owned());
        }
        Ok(allowed)
    }
}

impl AllowedPaths {
    pub(super) fn contains(&self, path: &str) -> bool {
        let path = path.strip_prefix('/').unwrap_or(path);
        self.exact.iter().any(|it| it == path)
            || self.prefixes.iter().any(|it| path.starts_with(it.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_allowed_as_upstream_allows_them() {
        for (list, path, want) in [
            ("/healthz,/readyz", "/healthz", Some(true)),
            ("healthz", "/healthz", Some(true)),
            ("/healthz", "/healthz/ping", Some(false)),
            ("/healthz", "/metrics", Some(false)),
            ("/metrics*", "/metrics/slis", Some(true)),
            ("*", "/anything", Some(true)),
            ("/", "/", Some(true)),
            ("/", "/metrics", Some(false)),
            ("", "/healthz", Some(false)),
            ("", "/", Some(false)),
            ("/a*b", "/", None),
            ("/a**", "/", None),
        ] {
            let allowed = list.parse::<AllowedPaths>().ok();
            assert_eq!(allowed.map(|it| it.contains(path)), want, "{list:?} {path}");
        }
    }
}
