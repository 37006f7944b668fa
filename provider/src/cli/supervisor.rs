//! The flags of Supervisor mode. The provider checks them only in that mode; in vCenter mode it
//! logs a note that they have no effect.

use std::path::PathBuf;

use clap::{ArgMatches, parser::ValueSource};

use super::{ArgumentsError, Flags};
use crate::{
    AddressPolicy, HostnameEntry, InputError, InstancesMode, LateZone, MountPaths, NoneWanted,
    SupervisorFlags, SupervisorSettings, SupervisorTuning,
};

/// Flags that have an effect only in Supervisor mode.
const ONLY_HERE: [&str; 9] = [
    "vm-operator-api-version",
    "cluster-ip-family",
    "supervisor-credentials-dir",
    "supervisor-owner-ref",
    "supervisor-server",
    "supervisor-empty-hostname",
    "supervisor-replace-unwanted-addresses",
    "supervisor-late-zone-labels",
    "vm-cache-sync-timeout",
];

/// Settings of the Supervisor from a command line.
#[derive(Clone, Debug)]
pub struct SupervisorArguments {
    /// Paths of the mounted files.
    pub paths: MountPaths,
    /// API version, IP families and pool of pod addresses.
    pub settings: SupervisorSettings,
}

/// Parses and checks the flags of Supervisor mode.
pub(super) fn read(
    flags: Flags<'_>,
    mode: InstancesMode,
) -> Result<(SupervisorArguments, SupervisorTuning), ArgumentsError> {
    // These flags have no effect yet, but the provider refuses invalid values, as upstream does.
    flags.last_flag("is-legacy-paravirtual")?;
    flags.last_flag("enable-service-annotation-propagation")?;
    let raw = SupervisorFlags {
        version: flags.text("vm-operator-api-version"),
        family: flags.text("cluster-ip-family"),
        vpc: flags.last_flag("enable-vpc-mode")?,
        pod_ip_pool: flags.last("pod-ip-pool-type"),
        // This provider has no route controller.
        routes: false,
    };
    let settings = raw.check()?;
    let sync_timeout = flags.duration("vm-cache-sync-timeout")?;
    let path = |name: &'static str| match flags.text(name) {
        text if text.is_empty() => {
            Err(InputError::new("is empty").remedy("give a path, or omit the flag").in_flag(name))
        }
        text => Ok(PathBuf::from(text)),
    };
    let paths = MountPaths {
        credentials: path("supervisor-credentials-dir")?,
        owner: path("supervisor-owner-ref")?,
        server: Some(flags.text("supervisor-server")).filter(|text| !text.is_empty()),
    };
    let hostname = if flags.flag("supervisor-empty-hostname")? {
        HostnameEntry::Empty
    } else {
        HostnameEntry::Omitted
    };
    let none_wanted = if flags.flag("supervisor-replace-unwanted-addresses")? {
        NoneWanted::HostnameEntry
    } else {
        NoneWanted::Nothing
    };
    let late_zone = if flags.flag("supervisor-late-zone-labels")? {
        LateZone::Added
    } else {
        LateZone::LeftOut
    };
    let tuning = SupervisorTuning {
        mode,
        version: settings.version,
        addresses: AddressPolicy { family: settings.family, hostname, none_wanted },
        late_zone,
        sync_timeout,
        ..SupervisorTuning::default()
    };
    Ok((SupervisorArguments { paths, settings }, tuning))
}

/// Returns notes, for vCenter mode, about the given flags that have an effect only in Supervisor
/// mode.
pub(super) fn notes_elsewhere(matches: &ArgMatches) -> Vec<String> {
    let is_given = |name: &&&str| matches.value_source(name) == Some(ValueSource::CommandLine);
    let text = |name: &&str| {
        format!("--{name} has an effect only with --cloud-provider=vsphere-paravirtual")
    };
    ONLY_HERE.iter().filter(is_given).map(text).collect()
}
