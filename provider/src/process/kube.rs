//! Makes clients of API servers, from kubeconfigs, `--master` or the cluster in which the provider
//! runs.

use std::path::Path;

use http::Uri;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use provider::{InputError, cli::Arguments};

use super::{
    files::unreadable,
    supervisor::{agent, with_token_of},
};

/// Makes the client of the workload cluster, without sending a request. Must run inside a runtime.
pub(super) async fn client(arguments: &Arguments) -> Result<kube::Client, InputError> {
    let master = arguments.master.as_deref().map(address).transpose()?;
    match (&arguments.kubeconfig, master) {
        (Some(path), master) => client_from_file("kubeconfig", path, master).await,
        // As in client-go, this client has no credentials, even inside a cluster: the token of the
        // pod is only for the API server of that cluster.
        (None, Some(master)) => make_client(kube::Config::new(master), "--master"),
        (None, None) => client_of_this_cluster("--kubeconfig"),
    }
}

/// Makes a client from the file of `--kubeconfig`, or of the cluster around this process.
pub(super) async fn client_from(kubeconfig: Option<&Path>) -> Result<kube::Client, InputError> {
    match kubeconfig {
        Some(path) => client_from_file("kubeconfig", path, None).await,
        None => client_of_this_cluster("--kubeconfig"),
    }
}

/// Makes a client of the cluster in which the provider runs. `flag` names a kubeconfig instead.
pub(super) fn client_of_this_cluster(flag: &str) -> Result<kube::Client, InputError> {
    let config = kube::Config::incluster().map_err(|err| {
        let err = InputError::new(format!(
            "cannot find the configuration of a cluster around this process: {err}"
        ));
        err.remedy(format!("give a kubeconfig: {flag} FILE"))
    })?;
    make_client(config, "the configuration of this cluster")
}

/// Makes a client from the kubeconfig that a flag names; `master` replaces the address in it.
pub(super) async fn client_from_file(
    flag: &str,
    path: &Path,
    master: Option<Uri>,
) -> Result<kube::Client, InputError> {
    let origin = format!("--{flag} {}", path.display());
    let mut config = read(path).await.map_err(|err| err.in_source(origin.as_str()))?;
    if let Some(master) = master {
        config.cluster_url = master;
    }
    make_client(config, &origin)
}

/// Makes the client of a Supervisor from a kubeconfig, and returns the namespace of its context.
pub(super) async fn supervisor_client(path: &Path) -> Result<(kube::Client, String), InputError> {
    let origin = format!("--supervisor-kubeconfig {}", path.display());
    let mut config = read(path).await.map_err(|err| err.in_source(origin.as_str()))?;
    let namespace = config.default_namespace.clone();
    // The library sends the content of a token file as it is, so that a newline at its end fails every
    // request, and reads a changed file late.
    let user = &mut config.auth_info;
    let file = if user.token.is_none() { user.token_file.take() } else { None };
    let client = make_client(config, &origin)?;
    let client = match file {
        Some(file) => with_token_of(client, file.into()),
        None => client,
    };
    Ok((client, namespace))
}

/// Makes a client of the cluster in which the provider runs; `None` outside a cluster.
pub(super) fn client_of_this_pod() -> Result<Option<kube::Client>, InputError> {
    let origin = "the configuration of this cluster";
    match kube::Config::incluster() {
        Err(InClusterError::ReadEnvironmentVariable(_)) => Ok(None),
        Err(err) => Err(InputError::new(format!("the provider cannot use {origin}: {err}"))),
        Ok(config) => make_client(config, origin).map(Some),
    }
}

/// Makes the client that reviews callers of the HTTPS endpoint; `None` outside a cluster, or if the
/// configuration of the cluster is invalid.
pub(super) fn reviewing_client() -> Option<kube::Client> {
    // As in upstream, the endpoint starts without this client, and then serves only paths that need
    // no review.
    let warn = |what: &InputError| {
        tracing::warn!(
            "cannot review callers of the HTTPS endpoint: {what}; starting without reviews"
        );
    };
    client_of_this_pod().inspect_err(warn).ok().flatten()
}

fn make_client(mut config: kube::Config, origin: &str) -> Result<kube::Client, InputError> {
    // The provider implements retries and deadlines itself. A retry of kube could repeat a write
    // that the API server has already applied.
    config.default_retry = false;
    config.read_timeout = None;
    config.headers.push((http::header::USER_AGENT, agent()));
    kube::Client::try_from(config).map_err(|err| {
        let err = InputError::new(format!("cannot make a client from this configuration: {err}"));
        err.remedy("correct the configuration").in_source(origin)
    })
}

async fn read(path: &Path) -> Result<kube::Config, InputError> {
    let usable = "give a file that kubectl can use";
    let read = Kubeconfig::read_from(path).map_err(|err| match err {
        KubeconfigError::ReadConfig(source, _) => unreadable(&source),
        KubeconfigError::Parse(err) => {
            // The library's error quotes the file, which may contain a token.
            let place =
                err.location().map(|it| format!(", line {}", it.line())).unwrap_or_default();
            InputError::new(format!("is not a kubeconfig{place}")).remedy(usable)
        }
        err => InputError::new(format!("cannot be used: {err}")).remedy(usable),
    })?;
    let is_proxied = read.clusters.iter().any(|it| {
        it.cluster.as_ref().and_then(|it| it.proxy_url.as_ref()).is_some_and(|url| !url.is_empty())
    });
    // The errors of the library already contain their causes.
    let mut config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
        .await
        .map_err(|err| InputError::new(format!("cannot be used: {err}")).remedy(usable))?;
    // The library uses HTTPS_PROXY for the API server and ignores NO_PROXY. In this provider
    // HTTPS_PROXY is for vCenters only.
    if !is_proxied {
        config.proxy_url = None;
    }
    Ok(config)
}

/// Parses `--master`: scheme, host and an optional port.
fn address(text: &str) -> Result<Uri, InputError> {
    let uri = text.parse::<Uri>().ok();
    let is_address = |uri: &Uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.host().is_some_and(|h| !h.is_empty())
    };
    uri.filter(is_address).ok_or_else(|| {
        let err = InputError::new("is not the address of an API server");
        err.remedy("write https://HOST:PORT").in_source(format!("--master {text}"))
    })
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn addresses_of_api_servers_are_urls() {
        for (text, is_good) in [
            ("https://10.0.0.1:6443", true),
            ("http://localhost:8080", true),
            ("https://[fd00::1]:6443", true),
            ("10.0.0.1:6443", false),
            ("nope", false),
            ("ftp://host", false),
            ("https://", false),
            ("a b", false),
        ] {
            assert_eq!(address(text).is_ok(), is_good, "{text}");
        }
    }
}
