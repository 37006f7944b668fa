//! Converts the entries of a file into a [`Config`]: applies inheritance from the global section
//! and defaults, and checks the values. Every error about a key names that key.

use std::{collections::BTreeMap, path::PathBuf};

use ipnet::IpNet;
use provider_vcenter::{Credential, Endpoint};

use super::{
    Config, CredentialRef, Raw, Value, VcenterConfig, Warning,
    host::host,
    keys::{Section, is_secret},
};
use crate::{
    InputError,
    instances::{Datacenters, Selection, ZoneCategories},
    model::Family,
};

/// Problem of a section without an address, in upstream's words.
const NO_ADDRESS: &str = "vsphere.conf does not have the VirtualCenter IP address specified";

/// Paths and values of one section, by key.
type ByKey<'a> = BTreeMap<&'static str, (&'a str, &'a Value)>;

/// All entries of a file, grouped by section. The code groups them only once, because files may
/// have many thousand sections.
struct Sections<'a> {
    file: &'a str,
    by_section: BTreeMap<(Section, Option<&'a str>), ByKey<'a>>,
}

impl<'a> Sections<'a> {
    fn of(file: &'a str, raw: &'a Raw) -> Self {
        let mut by_section: BTreeMap<_, ByKey<'a>> = BTreeMap::new();
        for entry in &raw.entries {
            let section = by_section.entry((entry.section, entry.subsection.as_deref()));
            section.or_default().insert(entry.key, (entry.path.as_str(), &entry.value));
        }
        Self { file, by_section }
    }

    fn get(&self, section: Section, subsection: Option<&'a str>) -> Entries<'a> {
        let by_key = self.by_section.get(&(section, subsection)).cloned().unwrap_or_default();
        Entries { file: self.file, by_key }
    }
}

/// Entries of one section, by key.
struct Entries<'a> {
    file: &'a str,
    by_key: ByKey<'a>,
}

impl<'a> Entries<'a> {
    /// Adds the key and the file to an error.
    fn fail(&self, key: &str, err: InputError) -> InputError {
        err.at_key(key).in_source(self.file)
    }

    /// Text of a key; `None` if the key is missing or empty, an error if its value is a list.
    fn text(&self, key: &str) -> Result<Option<String>, InputError> {
        match self.by_key.get(key) {
            Some((path, Value::List(items))) => {
                let what = "expected a single value, not a list";
                let err = if is_secret(key) {
                    InputError::new(what)
                } else {
                    InputError::list(items, what)
                };
                Err(self.fail(path, err.remedy("write one value")))
            }
            Some((_, Value::Text(text))) if !text.is_empty() => Ok(Some(text.clone())),
            _ => Ok(None),
        }
    }

    /// Items of a key whose value is a list or a text with commas: trimmed, without empty ones.
    fn list(&self, key: &str) -> Vec<String> {
        let parts: Vec<String> = match self.by_key.get(key) {
            Some((_, Value::List(items))) => items.clone(),
            Some((_, Value::Text(text))) => text.split(',').map(str::to_owned).collect(),
            None => Vec::new(),
        };
        parts.into_iter().map(|p| p.trim().to_owned()).filter(|p| !p.is_empty()).collect()
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, InputError> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        match text.to_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Ok(Some(true)),
            "false" | "no" | "off" | "0" => Ok(Some(false)),
            _ => {
                let err = InputError::invalid(&text, "is neither true nor false");
                Err(self.fail(self.path(key), err.remedy("write one of them")))
            }
        }
    }

    fn port(&self, key: &str) -> Result<Option<u16>, InputError> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        match text.trim().parse::<u16>() {
            Ok(port) if port > 0 => Ok(Some(port)),
            _ => {
                let err = InputError::invalid(&text, "is not a port number");
                Err(self.fail(self.path(key), err.remedy("write 1 to 65535")))
            }
        }
    }

    fn families(&self, key: &str) -> Result<Option<Vec<Family>>, InputError> {
        let mut families = Vec::new();
        for text in self.list(key) {
            let family = match text.to_lowercase().as_str() {
                "ipv4" => Family::V4,
                "ipv6" => Family::V6,
                other => {
                    let err = InputError::unknown("invalid IP family", other);
                    return Err(self.fail(self.path(key), err.remedy("write ipv4 or ipv6")));
                }
            };
            if !families.contains(&family) {
                families.push(family);
            }
        }
        Ok(Some(families).filter(|f| !f.is_empty()))
    }

    fn subnets(&self, key: &str) -> Result<Vec<IpNet>, InputError> {
        self.list(key)
            .iter()
            .map(|text| {
                text.parse().map_err(|_| {
                    let err = InputError::invalid(text, "is not a subnet");
                    self.fail(self.path(key), err.remedy("write it like 10.0.0.0/8"))
                })
            })
            .collect()
    }

    fn datacenters(&self) -> Option<Datacenters> {
        let key = format!("{}: {}", self.file, self.path("datacenters"));
        Some(Datacenters { names: self.list("datacenters"), key }).filter(|d| !d.names.is_empty())
    }

    fn path(&self, key: &'a str) -> &'a str {
        self.by_key.get(key).map_or(key, |(path, _)| path)
    }
}

pub(super) fn validate(file: &str, raw: Raw) -> Result<(Config, Vec<Warning>), InputError> {
    let sections = Sections::of(file, &raw);
    let global = sections.get(Section::Global, None);
    let mut vcenters = Vec::new();
    let mut names = raw.vcenters.clone();
    // The legacy form: the global section alone configures one vCenter.
    let legacy = global.text("server")?.filter(|server| !names.contains(server));
    names.extend(legacy.clone());
    if names.is_empty() {
        let err = InputError::new("no Virtual Center hosts defined");
        return Err(err.remedy("add a vcenter section").in_source(file));
    }
    for name in &names {
        let is_legacy = legacy.as_ref() == Some(name);
        let own = if is_legacy {
            Entries { file, by_key: global.by_key.clone() }
        } else {
            let subsection = Some(name.as_str()).filter(|n| !n.is_empty());
            sections.get(Section::VirtualCenter, subsection)
        };
        if name.is_empty() {
            return Err(nameless(&own, raw.is_yaml));
        }
        let place = match (is_legacy, raw.is_yaml) {
            (true, true) => "global.".to_owned(),
            (true, false) => "[Global] ".to_owned(),
            (false, true) => format!("vcenter.{name}."),
            (false, false) => format!("[VirtualCenter \"{name}\"] "),
        };
        vcenters.push(vcenter(name, &place, &own, &global, raw.is_yaml && !is_legacy)?);
    }
    let labels = sections.get(Section::Labels, None);
    let zones = match (labels.text("zone")?, labels.text("region")?) {
        (Some(zone), Some(region)) => Some(ZoneCategories { zone, region }),
        _ => None,
    };
    let nodes = sections.get(Section::Nodes, None);
    let selection = Selection {
        internal_subnets: nodes.subnets("internal-network-subnet-cidr")?,
        external_subnets: nodes.subnets("external-network-subnet-cidr")?,
        internal_network: nodes.text("internal-vm-network-name")?,
        external_network: nodes.text("external-vm-network-name")?,
        exclude_internal: nodes.subnets("exclude-internal-network-subnet-cidr")?,
        exclude_external: nodes.subnets("exclude-external-network-subnet-cidr")?,
    };
    Ok((Config { vcenters, selection, zones }, raw.warnings))
}

/// Returns the error for a vCenter without a name.
fn nameless(own: &Entries<'_>, is_yaml: bool) -> InputError {
    if is_yaml {
        let err = InputError::new("the name of a vCenter is empty");
        own.fail("vcenter", err.remedy("write a name before the colon"))
    } else {
        let err = InputError::new(NO_ADDRESS).remedy("write [VirtualCenter \"address\"]");
        own.fail("VirtualCenter", err)
    }
}

fn vcenter(
    name: &str,
    place: &str,
    own: &Entries<'_>,
    global: &Entries<'_>,
    server_required: bool,
) -> Result<VcenterConfig, InputError> {
    let host = server(name, place, own, server_required)?;
    let or_global = |key: &str| -> Result<Option<String>, InputError> {
        Ok(own.text(key)?.or(global.text(key)?))
    };
    let credentials = credential_ref(own, global)?;
    let inline = match (or_global("user")?, or_global("password")?) {
        (Some(user), Some(password)) => Some(Credential::new(user, password)),
        (user, _) if credentials == CredentialRef::None => {
            let (key, what) = if user.is_none() {
                ("user", "Username is missing")
            } else {
                ("password", "Password is missing")
            };
            let remedy = "give user and password, or either a Secret or a directory of secrets";
            let err = InputError::new(what).remedy(remedy);
            return Err(own.fail(&format!("{place}{key}"), err));
        }
        _ => None,
    };
    if inline.as_ref().is_some_and(|credential| credential.username.contains("-----BEGIN")) {
        let err = InputError::new("this provider does not support logins with a certificate yet");
        let err = err.remedy("use a user name and a password");
        return Err(own.fail(&format!("{place}user"), err));
    }
    let port = own.port("port")?.or(global.port("port")?).unwrap_or(443);
    Ok(VcenterConfig {
        endpoint: Endpoint { name: name.into(), host, port },
        insecure: own.flag("insecure-flag")?.unwrap_or(false)
            || global.flag("insecure-flag")?.unwrap_or(false),
        ca_file: or_global("ca-file")?.map(PathBuf::from),
        thumbprint: or_global("thumbprint")?,
        families: own
            .families("ip-family")?
            .or(global.families("ip-family")?)
            .unwrap_or_else(|| vec![Family::V4]),
        inline,
        credentials,
        datacenters: own.datacenters().or(global.datacenters()).unwrap_or_default(),
    })
}

/// Returns the host of a vCenter: the key `server`, or the name of the section where the dialect
/// permits to omit the key.
fn server(
    name: &str,
    place: &str,
    own: &Entries<'_>,
    server_required: bool,
) -> Result<String, InputError> {
    let (key, server) = match own.text("server")? {
        Some(server) => (own.path("server").to_owned(), server),
        None if server_required => {
            let err = InputError::new(NO_ADDRESS).remedy("write server: ADDRESS");
            return Err(own.fail(&format!("{place}server"), err));
        }
        None => (place.trim_end().to_owned(), name.to_owned()),
    };
    host(&server).map_err(|err| {
        // The name of a section may be an address with a password in it.
        let is_shown = !key.contains('@');
        own.fail(if is_shown { &key } else { "VirtualCenter" }, err)
    })
}

/// Returns the source of the credential: the Secret that the vCenter's section names, else the
/// global Secret or directory. If the global section names both a Secret and a directory, neither
/// counts.
fn credential_ref(own: &Entries<'_>, global: &Entries<'_>) -> Result<CredentialRef, InputError> {
    if let (Some(name), Some(namespace)) = (own.text("secret-name")?, own.text("secret-namespace")?)
    {
        return Ok(CredentialRef::Secret { namespace, name });
    }
    let secret = global.text("secret-name")?.zip(global.text("secret-namespace")?);
    let directory = global.text("secrets-directory")?;
    Ok(match (secret, directory) {
        (Some((name, namespace)), None) => CredentialRef::Secret { namespace, name },
        (None, Some(directory)) => CredentialRef::Directory(PathBuf::from(directory)),
        _ => CredentialRef::None,
    })
}
