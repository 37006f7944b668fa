//! Every key of `vsphere.conf` that this provider knows, in both spellings, and its effect here.

/// A section of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Section {
    Global,
    VirtualCenter,
    Labels,
    Nodes,
}

/// Effect of a key in this provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The provider uses the value.
    Read,
    /// Upstream parses the key without using it; this provider warns about it and ignores it.
    NoEffect,
}

/// A key of `vsphere.conf`, in both spellings.
pub(crate) struct Key {
    pub section: Section,
    pub ini: &'static str,
    pub yaml: &'static str,
    pub fate: Fate,
}

const fn key(section: Section, ini: &'static str, yaml: &'static str) -> Key {
    Key { section, ini, yaml, fate: Fate::Read }
}

const fn idle(section: Section, ini: &'static str, yaml: &'static str) -> Key {
    Key { section, ini, yaml, fate: Fate::NoEffect }
}

/// All keys of `vsphere.conf` that this provider knows (`cpi-vsphere` 1.6).
pub(crate) const KEYS: &[Key] = &[
    key(Section::Global, "user", "user"),
    key(Section::Global, "password", "password"),
    key(Section::Global, "server", "server"),
    key(Section::Global, "port", "port"),
    key(Section::Global, "insecure-flag", "insecureFlag"),
    key(Section::Global, "datacenters", "datacenters"),
    idle(Section::Global, "soap-roundtrip-count", "soapRoundtripCount"),
    key(Section::Global, "ca-file", "caFile"),
    key(Section::Global, "thumbprint", "thumbprint"),
    key(Section::Global, "secret-name", "secretName"),
    key(Section::Global, "secret-namespace", "secretNamespace"),
    key(Section::Global, "secrets-directory", "secretsDirectory"),
    idle(Section::Global, "api-disable", "apiDisable"),
    idle(Section::Global, "api-binding", "apiBinding"),
    key(Section::Global, "ip-family", "ipFamily"),
    key(Section::VirtualCenter, "user", "user"),
    key(Section::VirtualCenter, "password", "password"),
    key(Section::VirtualCenter, "server", "server"),
    key(Section::VirtualCenter, "port", "port"),
    key(Section::VirtualCenter, "insecure-flag", "insecureFlag"),
    key(Section::VirtualCenter, "datacenters", "datacenters"),
    idle(Section::VirtualCenter, "soap-roundtrip-count", "soapRoundtripCount"),
    key(Section::VirtualCenter, "ca-file", "caFile"),
    key(Section::VirtualCenter, "thumbprint", "thumbprint"),
    key(Section::VirtualCenter, "secret-name", "secretName"),
    key(Section::VirtualCenter, "secret-namespace", "secretNamespace"),
    key(Section::VirtualCenter, "ip-family", "ipFamily"),
    key(Section::Labels, "zone", "zone"),
    key(Section::Labels, "region", "region"),
    key(Section::Nodes, "internal-network-subnet-cidr", "internalNetworkSubnetCidr"),
    key(Section::Nodes, "external-network-subnet-cidr", "externalNetworkSubnetCidr"),
    key(Section::Nodes, "internal-vm-network-name", "internalVmNetworkName"),
    key(Section::Nodes, "external-vm-network-name", "externalVmNetworkName"),
    key(Section::Nodes, "exclude-internal-network-subnet-cidr", "excludeInternalNetworkSubnetCidr"),
    key(Section::Nodes, "exclude-external-network-subnet-cidr", "excludeExternalNetworkSubnetCidr"),
];

/// True if no message may show the value of `key`, which is in its INI spelling.
pub(crate) fn is_secret(key: &str) -> bool {
    matches!(key, "user" | "password")
}

/// Sections that upstream reads and this provider does not read yet, in both spellings.
pub(crate) const NOT_YET: &[&str] = &[
    "LoadBalancer",
    "LoadBalancerClass",
    "NSXT",
    "Route",
    "loadBalancer",
    "loadBalancerClass",
    "nsxt",
    "route",
];

/// Returns the known word that is most similar to `word`, ignoring case, for a hint; `None` if
/// every known word differs in more than one letter and in more than a third of its letters.
pub(crate) fn closest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|k| (strsim::levenshtein(&word.to_lowercase(), &k.to_lowercase()), k))
        .filter(|(d, k)| *d <= k.len().max(3) / 3)
        .min()
        .map(|(_, k)| k)
}

/// Returns the warning about an unknown key or section.
pub(crate) fn unknown(path: &str, hint: Option<String>) -> super::Warning {
    let hint = hint.map(|h| format!("; did you mean {h}?")).unwrap_or_default();
    super::Warning(format!("{path} is not a section or key of vsphere.conf and is ignored{hint}"))
}
