//! The flags of Supervisor mode. They are checked in that mode alone; given in the other one, they are said to have no
//! effect.

use std::path::PathBuf;

use clap::{ArgMatches, parser::ValueSource};

use super::{ArgumentsError, Flags, fail, parse_duration};
use crate::{
    AddressPolicy, HostnameEntry, InstancesMode, LateZone, MountPaths, NoneWanted, SupervisorFlags,
    SupervisorSettings, SupervisorTuning,
};

/// Flags with an effect in this mode alone.
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

/// What a command line says about the Supervisor.
#[derive(Clone, Debug)]
pub struct SupervisorArguments {
    /// Where things are mounted.
    pub paths: MountPaths,
    /// What objects are spoken about, and how.
    pub settings: SupervisorSettings,
}

/// Reads the flags of this mode.
pub(super) fn read(
    flags: Flags<'_>,
    mode: InstancesMode,
) -> Result<(SupervisorArguments, SupervisorTuning), ArgumentsError> {
    // Nothing comes of these yet, but what cannot be meant is refused as upstream does.
    flags.last_flag("is-legacy-paravirtual")?;
    flags.last_flag("enable-service-annotation-propagation")?;
    let raw = SupervisorFlags {
        version: flags.text("vm-operator-api-version"),
        family: flags.text("cluster-ip-family"),
        vpc: flags.last_flag("enable-vpc-mode")?,
        pod_ip_pool: flags.last("pod-ip-pool-type"),
        // There is no route controller here.
        routes: false,
    };
    let settings = raw.check()?;
    let sync_timeout = parse_duration(&flags.text("vm-cache-sync-timeout"))
        .map_err(|err| fail("vm-cache-sync-timeout", err.to_string()))?;
    let path = |name: &'static str| match flags.text(name) {
        text if text.is_empty() => Err(fail(name, "is empty; name a path, or leave it out")),
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

/// What was asked for and is another mode's.
pub(super) fn notes_elsewhere(matches: &ArgMatches) -> Vec<String> {
    let is_given = |name: &&&str| matches.value_source(name) == Some(ValueSource::CommandLine);
    let text = |name: &&str| {
        format!("--{name} has an effect only with --cloud-provider=vsphere-paravirtual")
    };
    ONLY_HERE.iter().filter(is_given).map(text).collect()
}
