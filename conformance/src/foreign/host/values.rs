//! Computes the values of the manifest's placeholders for one replica, and writes the replica's
//! files.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use sim::world::{PROVIDER_USER, REGION_CATEGORY, ZONE_CATEGORY};
use sim::{Endpoint, Endpoints, Sim, credentials, owner_ref};

use super::{Host, port};
use crate::foreign::manifest::Knob;
use crate::foreign::manifest::template::{self, Values};
use crate::lab::{LEASE, cloud_config};
use crate::scenario::periods::go_duration;
use crate::scenario::{Backend, ProviderSetup, Scenario};

/// Name of the only datacenter in the worlds of checks.
const DATACENTER: &str = "DC0";

/// Highest verbosity of klog that client-go uses; it logs headers and bodies of requests.
const MOST_VERBOSE: u8 = 10;

impl Host {
    /// Returns the command-line arguments of every knob of the manifest for which the scenario has
    /// a value.
    pub(super) fn knobs(
        &self,
        scenario: &Scenario,
        values: &Values,
    ) -> anyhow::Result<Vec<String>> {
        let setup = &scenario.provider;
        let mut arguments = Vec::new();
        for (knob, texts) in &self.setup.manifest.spec.knobs {
            let wanted = match knob {
                Knob::Flags => {
                    let flags = setup.flags.iter().map(|flag| expand(flag, values));
                    flags.collect::<anyhow::Result<Vec<String>>>()?
                }
                other => knob_value(*other, setup, self.pace).into_iter().collect(),
            };
            let mut values = values.clone();
            for value in wanted {
                values.insert("value".to_owned(), value);
                for text in &texts.0 {
                    arguments.push(expand(text, &values)?);
                }
            }
        }
        Ok(arguments)
    }

    /// Writes the files of a replica and returns the values of its placeholders, by name.
    pub(super) fn values(
        &self,
        sim: &Sim,
        scenario: &Scenario,
        index: usize,
    ) -> anyhow::Result<Values> {
        let directory = self.replica(index);
        std::fs::create_dir_all(&directory).with_context(|| {
            format!(
                "cannot create the folder {}; check TMPDIR, its free space and permissions",
                directory.display()
            )
        })?;
        let mut values = Values::new();
        for (name, value) in &self.setup.variables {
            values.insert(format!("env.{name}"), value.clone());
        }
        let mut set = |name: &str, value: String| values.insert(name.to_owned(), value);
        let endpoints = self.endpoints(index);
        let ca = endpoints.ca_pem().unwrap_or_default();
        set("dir", text(&directory));
        set("ca", text(&save(&directory, "ca.pem", ca)?));
        set("kubeconfig", text(&save(&directory, "kubeconfig", &endpoints.kubeconfig())?));
        set("port", port::free()?.to_string());
        set("replica", index.to_string());
        set("leaderElect", scenario.provider.elects().to_string());
        let (namespace, lease) = LEASE;
        set("lease.namespace", namespace.to_owned());
        set("lease.name", lease.to_owned());
        set("datacenter", DATACENTER.to_owned());
        let manifest = &self.setup.manifest;
        set("manifest.dir", manifest.directory.as_deref().map(text).unwrap_or_default());
        if let Some(binary) = &self.setup.binary {
            set("binary", text(binary));
        }
        match manifest.spec.mode {
            Backend::VCenter => vcenter((sim, endpoints), scenario, &directory, &mut values)?,
            Backend::Supervisor => supervisor((sim, endpoints), &directory, &mut values)?,
        }
        for name in manifest.spec.files.keys() {
            let template =
                manifest.template(name).map_err(|wrong| anyhow!("{}", wrong.summary()))?;
            let path = save(&directory, name, &expand(&template, &values)?)?;
            values.insert(format!("files.{name}"), text(&path));
        }
        Ok(values)
    }
}

/// Adds the values of the placeholders of vCenter mode.
fn vcenter(
    (sim, endpoints): (&Sim, &Endpoints),
    scenario: &Scenario,
    directory: &Path,
    values: &mut Values,
) -> anyhow::Result<()> {
    let mut set = |name: &str, value: String| values.insert(name.to_owned(), value);
    let (name, endpoint) = endpoints.vcenters.first_key_value().context(
        "the simulated world has no vCenter, which the manifest needs; report this bug of \
         conformance",
    )?;
    let password = sim.password(name, PROVIDER_USER).context(
        "the simulated vCenter has no account of the provider; report this bug of conformance",
    )?;
    set("vcenter.host", endpoint.address.ip().to_string());
    set("vcenter.port", endpoint.address.port().to_string());
    set("vcenter.user", PROVIDER_USER.to_owned());
    set("vcenter.password", password.expose().to_owned());
    set("vcenter.insecure", "false".to_owned());
    let ca = directory.join("ca.pem");
    set("vcenter.ca", text(&ca));
    if let Some(thumbprints) = endpoint.thumbprints() {
        set("vcenter.thumbprint", thumbprints.sha1);
        set("vcenter.thumbprint.sha256", thumbprints.sha256);
    }
    set("zones.region", REGION_CATEGORY.to_owned());
    set("zones.zone", ZONE_CATEGORY.to_owned());
    let at = |vcenter: &str| {
        let Endpoint { address, .. } = &endpoints.vcenters[vcenter];
        (address.ip().to_string(), Some(address.port()))
    };
    set("config.yaml", cloud_config(sim, scenario, Some(&ca), at));
    let labels = format!("labels:\n  region: {REGION_CATEGORY}\n  zone: {ZONE_CATEGORY}\n");
    set("config.labels", if scenario.provider.zones { labels } else { String::new() });
    Ok(())
}

/// Adds the values of the placeholders of Supervisor mode, and writes the files that a Supervisor
/// mounts into a provider.
fn supervisor(
    (sim, endpoints): (&Sim, &Endpoints),
    directory: &Path,
    values: &mut Values,
) -> anyhow::Result<()> {
    let supervisor = sim.supervisor().context(
        "the simulated world has no Supervisor, which the manifest needs; report this bug of \
         conformance",
    )?;
    let endpoint = endpoints.supervisor.as_ref().context(
        "the simulated Supervisor does not listen on a port; report this bug of conformance",
    )?;
    let mounts = directory.join("supervisor");
    std::fs::create_dir_all(&mounts).with_context(|| {
        format!(
            "cannot create the folder {}; check TMPDIR, its free space and permissions",
            mounts.display()
        )
    })?;
    supervisor.mount(&mounts, endpoints.ca_pem().unwrap_or_default())?;
    let owner = owner_ref(&mounts);
    let kubeconfig = endpoints.supervisor_kubeconfig().unwrap_or_default();
    let mut set = |name: &str, value: String| values.insert(name.to_owned(), value);
    set("supervisor.credentials", text(&credentials(&mounts)));
    set("supervisor.ownerDir", owner.parent().map(text).unwrap_or_default());
    set("supervisor.ownerRef", text(&owner));
    set("supervisor.server", endpoint.url.clone());
    set("supervisor.port", endpoint.address.port().to_string());
    set("supervisor.namespace", supervisor.namespace().to_owned());
    set("supervisor.kubeconfig", text(&save(directory, "supervisor.kubeconfig", &kubeconfig)?));
    Ok(())
}

/// Returns the text with every placeholder replaced. Fails if a placeholder has no value.
pub(super) fn expand(text: &str, values: &Values) -> anyhow::Result<String> {
    template::expand(text, values).map_err(|name| {
        match (name.as_str(), template::variable(&name)) {
            ("binary", _) => anyhow!(
                "the placeholder $(binary) has no value; name the program with --binary PATH"
            ),
            (_, Some(variable)) => {
                anyhow!("$({name}): {variable} is not set in the environment; set the variable")
            }
            _ => anyhow!(
                "the placeholder $({name}) has no value in this mode; remove it from the manifest"
            ),
        }
    })
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn save(directory: &Path, name: &str, content: &str) -> anyhow::Result<PathBuf> {
    let path = directory.join(name);
    std::fs::write(&path, content).with_context(|| {
        format!("cannot write {}; check TMPDIR, its free space and permissions", path.display())
    })?;
    Ok(path)
}

/// Returns the value of a knob, or `None` if the scenario has no value for the knob. Periods are
/// divided by `pace`, and the number of requests per second is multiplied by it. Also returns
/// `None` for [`Knob::Flags`], which can have several values.
fn knob_value(knob: Knob, setup: &ProviderSetup, pace: u32) -> Option<String> {
    match knob {
        Knob::Monitor => Some(go_duration(setup.monitor_period / pace)),
        Knob::Status => Some(go_duration(setup.status_period / pace)),
        Knob::LeaderElection => Some(setup.elects().to_string()),
        Knob::SkipDeletion => setup.skip_deletion.then(|| true.to_string()),
        Knob::Qps => Some((setup.kube_qps * pace).to_string()),
        Knob::IpFamily => (!setup.families.is_empty()).then(|| setup.families.concat()),
        Knob::NodeLabels => (!setup.node_labels.is_empty()).then(|| {
            let pairs = setup.node_labels.iter().map(|(key, value)| format!("{key}={value}"));
            pairs.collect::<Vec<_>>().join(",")
        }),
        Knob::Workers => {
            (setup.workers != ProviderSetup::default().workers).then(|| setup.workers.to_string())
        }
        Knob::Verbosity => setup.verbose.then(|| MOST_VERBOSE.to_string()),
        Knob::Flags => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks;

    #[test]
    fn the_log_has_verbosity_10_exactly_in_checks_of_sessions_and_secrets() {
        for backend in Backend::ALL {
            for check in checks::all(backend) {
                let is_wanted = check.id.starts_with("SESS") || check.id.as_str() == "SEC-001";
                let wanted = is_wanted.then(|| "10".to_owned());
                for case in &check.cases {
                    let value = knob_value(Knob::Verbosity, &case.scenario.provider, 1);
                    assert_eq!(value, wanted, "{}", check.id);
                }
            }
        }
    }
}
