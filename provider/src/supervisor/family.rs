//! The IP families of the cluster, and their order.

use std::{fmt, str::FromStr};

use crate::{InputError, model::Family};

/// Value of `--cluster-ip-family`: the IP families of the cluster, in order.
///
/// Upstream: `cloud-provider-vsphere: pkg/cloudprovider/vsphereparavirtual/ipfamily/ipfamily.go`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClusterFamily {
    /// IPv4 alone.
    #[default]
    V4,
    /// IPv6 alone.
    V6,
    /// Both, IPv4 first.
    V4V6,
    /// Both, IPv6 first.
    V6V4,
}

impl ClusterFamily {
    /// The families of the cluster, the preferred one first.
    pub fn families(self) -> &'static [Family] {
        match self {
            Self::V4 => &[Family::V4],
            Self::V6 => &[Family::V6],
            Self::V4V6 => &[Family::V4, Family::V6],
            Self::V6V4 => &[Family::V6, Family::V4],
        }
    }

    /// True if the cluster has this family.
    pub fn has(self, family: Family) -> bool {
        self.families().contains(&family)
    }

    /// Value of the flag.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V4 => "ipv4",
            Self::V6 => "ipv6",
            Self::V4V6 => "ipv4ipv6",
            Self::V6V4 => "ipv6ipv4",
        }
    }
}

impl fmt::Display for ClusterFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ClusterFamily {
    type Err = InputError;

    /// Parses a value of the flag. Ignores case and surrounding blanks, as upstream does.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wanted = text.trim().to_ascii_lowercase();
        [Self::V4, Self::V6, Self::V4V6, Self::V6V4]
            .into_iter()
            .find(|family| family.as_str() == wanted)
            .ok_or_else(|| {
                let err = InputError::unknown("invalid IP family", text);
                err.condition("expected ipv4, ipv6, ipv4ipv6 or ipv6ipv4")
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_parse_as_upstream_reads_them() {
        for (name, text, want) in [
            ("IPv4", "ipv4", Some(ClusterFamily::V4)),
            ("IPv6", "ipv6", Some(ClusterFamily::V6)),
            ("both", "ipv4ipv6", Some(ClusterFamily::V4V6)),
            ("both, the other first", "ipv6ipv4", Some(ClusterFamily::V6V4)),
            ("capitals", "IPv4IPv6", Some(ClusterFamily::V4V6)),
            ("blanks", "  ipv6\n", Some(ClusterFamily::V6)),
            ("empty", "", None),
            ("a blank", " ", None),
            ("a comma", "ipv4,ipv6", None),
            ("twice", "ipv4ipv4", None),
            ("something else", "dual", None),
        ] {
            assert_eq!(text.parse::<ClusterFamily>().ok(), want, "{name}");
        }
    }

    #[test]
    fn the_first_family_is_the_primary_one() {
        for (family, want) in [
            (ClusterFamily::V4, vec![Family::V4]),
            (ClusterFamily::V6, vec![Family::V6]),
            (ClusterFamily::V4V6, vec![Family::V4, Family::V6]),
            (ClusterFamily::V6V4, vec![Family::V6, Family::V4]),
        ] {
            assert_eq!(family.families(), want, "{family}");
            assert_eq!(family.has(Family::V4), want.contains(&Family::V4), "{family}");
            assert_eq!(family.to_string().parse(), Ok(family));
        }
    }
}
