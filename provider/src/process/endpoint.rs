//! Makes the HTTPS endpoint: reads certificate and key from files, and makes the clients that
//! review its callers.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use provider::{
    AccessSettings, CertificateSource, HealthEndpoint, InputError, Serving,
    cli::{Arguments, ServingArguments},
};

use super::{
    files::unreadable,
    kube::{client_from_file, reviewing_client},
};

/// Makes the endpoint; `None` with `--secure-port=0`. Must run inside a runtime.
pub(super) async fn endpoint(arguments: &Arguments) -> Result<Option<HealthEndpoint>, InputError> {
    if arguments.secure_port == 0 {
        return Ok(None);
    }
    endpoint_with(&arguments.serving).await.map(Some)
}

/// Makes the endpoint with these settings. Must run inside a runtime.
pub(super) async fn endpoint_with(
    arguments: &ServingArguments,
) -> Result<HealthEndpoint, InputError> {
    let ServingArguments { certificate, tls, .. } = arguments;
    let certificate = certificate.clone().map(|(certificate, key)| -> CertificateSource {
        Arc::new(move || {
            let read = |flag: &str, path: &Path| {
                std::fs::read(path).map_err(|err| {
                    unreadable(&err).in_source(format!("--{flag} {}", path.display()))
                })
            };
            Ok((read("tls-cert-file", &certificate)?, read("tls-private-key-file", &key)?))
        })
    });
    let access = access(arguments).await?;
    HealthEndpoint::new(Serving { certificate, tls: tls.clone(), access })
}

async fn access(arguments: &ServingArguments) -> Result<AccessSettings, InputError> {
    let client = async |flag: &str, path: &Option<PathBuf>| match path {
        Some(path) => client_from_file(flag, path, None).await.map(Some),
        // As in upstream, the client uses the account of this pod, not `--kubeconfig`.
        None => Ok(reviewing_client()),
    };
    let authentication =
        client("authentication-kubeconfig", &arguments.authentication_kubeconfig).await?;
    let authorization =
        client("authorization-kubeconfig", &arguments.authorization_kubeconfig).await?;
    if authorization.is_none() {
        tracing::info!(
            "the HTTPS endpoint serves only the paths of --authorization-always-allow-paths to callers outside \
             system:masters, because no API server reviews their permissions; to serve more, set \
             --authorization-kubeconfig"
        );
    }
    Ok(AccessSettings {
        authentication,
        authorization,
        always_allowed: arguments.always_allowed.clone(),
        token_ttl: arguments.token_ttl,
        allowed_ttl: arguments.allowed_ttl,
        refused_ttl: arguments.refused_ttl,
    })
}
