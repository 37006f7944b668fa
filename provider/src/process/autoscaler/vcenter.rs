//! The vCenter backend of the process: configuration, credential and journal.

use std::{path::Path, sync::Arc};

use provider::{
    AutoscalerBackend, AutoscalerJournal, Clock, ConfigMapJournal, CredentialRef, InputError,
    JournalStore, UnknownKeys, VcenterLink, cli::AutoscalerArguments,
};

use super::{Guard, journal, tokens};
use crate::process::{
    LoadedConfig, files::read_secrets, files::read_text, kube::client_from_file,
    kube::client_of_this_pod, load,
};

/// Makes the connection and opens the journal.
pub(super) async fn backend(
    arguments: &AutoscalerArguments,
    guard: &Guard,
    clock: &Clock,
    seed: u64,
) -> Result<AutoscalerBackend, InputError> {
    let link = link(arguments, guard).await?;
    let store = store(arguments, &link.cluster)?;
    let journal = AutoscalerJournal::open(store, clock, seed).await?;
    let read_bootstrap =
        Arc::new(|path: &Path| std::fs::read(path).map_err(|err| format!("cannot be read: {err}")));
    let tokens = tokens(arguments, guard).await?;
    Ok(AutoscalerBackend::Vcenter { link: Box::new(link), journal, read_bootstrap, tokens })
}

/// Reads the configuration and the kubeconfig, without sending a request.
pub(super) async fn link(
    arguments: &AutoscalerArguments,
    guard: &Guard,
) -> Result<VcenterLink, InputError> {
    let path = arguments
        .cloud_config
        .as_deref()
        .ok_or_else(|| InputError::new("is required").remedy("give it").in_flag("cloud-config"))?;
    let in_flag = |err: InputError| err.in_source(format!("--cloud-config {}", path.display()));
    let text = read_text(path).map_err(in_flag)?;
    let LoadedConfig { mut config, mut transports, .. } = load(path, text, UnknownKeys::Warn)?;
    let [_] = &config.vcenters[..] else {
        let names: Vec<&str> = config.vcenters.iter().map(|it| it.endpoint.name.as_str()).collect();
        let problem = format!("names several vCenters: {}", names.join(", "));
        let err = InputError::new(problem);
        return Err(in_flag(err.remedy("write a file with the vCenter of the groups alone")));
    };
    let vcenter = config.vcenters.remove(0);
    let transport = transports.remove(&vcenter.endpoint.name).ok_or_else(|| {
        in_flag(InputError::new("no transport was made, which is a bug of the provider"))
    })?;
    let cluster = cluster(arguments).await?.map(|client| guard.on(client));
    if cluster.is_none() && matches!(vcenter.credentials, CredentialRef::Secret { .. }) {
        let err = InputError::new("names a Secret, and no cluster is known");
        return Err(in_flag(err.remedy("give --journal-kubeconfig")));
    }
    Ok(VcenterLink {
        config: vcenter,
        transport,
        cluster,
        secret_files: Some(Arc::new(|path: &Path| {
            read_secrets(path).map_err(|err| format!("{}: {err}", path.display()))
        })),
    })
}

/// Returns a client of the cluster of `--journal-kubeconfig`, or of this pod; `None` without both.
async fn cluster(arguments: &AutoscalerArguments) -> Result<Option<kube::Client>, InputError> {
    match &arguments.journal_kubeconfig {
        Some(path) => client_from_file("journal-kubeconfig", path, None).await.map(Some),
        None => client_of_this_pod(),
    }
}

/// Returns the store of the journal.
fn store(
    arguments: &AutoscalerArguments,
    cluster: &Option<kube::Client>,
) -> Result<Arc<dyn JournalStore>, InputError> {
    match (&arguments.journal, &arguments.journal_config_map, cluster) {
        (_, Some((namespace, name)), Some(client)) => {
            Ok(Arc::new(ConfigMapJournal::new(client.clone(), namespace, name)))
        }
        (_, Some((namespace, name)), None) => {
            let err = InputError::new("no cluster is known").remedy("give --journal-kubeconfig");
            Err(err.in_source(format!("--journal-config-map {namespace}/{name}")))
        }
        (Some(path), None, _) => Ok(journal::file(path)),
        (None, None, _) => Err(InputError::new("is required").remedy("give it").in_flag("journal")),
    }
}
