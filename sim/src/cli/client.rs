//! Client of the admin port.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use super::CliError;
use super::args::Admin;
use crate::listen::admin::{ErrorBody, VERSION_HEADER};
use crate::listen::causes::with_causes;

/// Maximum time for an answer of the admin port, long enough for a large ledger.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the content type of a request body: YAML, which includes JSON, for rules, else JSON.
fn content_type(path: &str) -> &'static str {
    if path == "/faults" { "application/yaml" } else { "application/json" }
}

/// Sends one request to the admin port and returns the body of the answer.
///
/// # Errors
/// An invalid URL in `--admin`, no answer within 30 s, an answer of a server that is not a sim, the
/// error answer of the admin port, or a runtime that cannot start.
pub(super) fn call(
    admin: &Admin,
    method: Method,
    path: &str,
    body: Vec<u8>,
) -> Result<String, CliError> {
    let base = admin.admin.trim_end_matches('/');
    let request = request(admin, base, method, path, body)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
            CliError::failed(format!("cannot start a runtime: {error}"), "try again")
        })?;
    let (status, body) = runtime.block_on(async {
        let answer = tokio::time::timeout(PATIENCE, exchange(request, base)).await;
        answer.unwrap_or_else(|_| Err(unreachable(base, &"no answer within 30 s")))
    })?;
    let text = String::from_utf8_lossy(&body).into_owned();
    if status.is_success() { Ok(text) } else { Err(failure(base, status, &text)) }
}

fn request(
    admin: &Admin,
    base: &str,
    method: Method,
    path: &str,
    body: Vec<u8>,
) -> Result<http::Request<Full<Bytes>>, CliError> {
    let mut request = http::Request::builder().method(method).uri(format!("{base}{path}"));
    if !body.is_empty() {
        request = request.header(header::CONTENT_TYPE, content_type(path));
    }
    if let Some(token) = &admin.admin_token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    request.body(Full::new(Bytes::from(body))).map_err(|error| {
        CliError::input(
            format!("--admin {base}: {error}"),
            "write a URL such as http://127.0.0.1:8900, which `sim serve` prints as SIM_ADMIN",
        )
    })
}

/// Sends `request` to the admin port, and returns status and body of the answer. Fails if no server
/// answers, or if the server is not a sim. `base` is the URL of the admin port for error messages.
async fn exchange(
    request: http::Request<Full<Bytes>>,
    base: &str,
) -> Result<(StatusCode, Bytes), CliError> {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let response = client.request(request).await.map_err(|error| {
        // The sources of the error say more than the message of the HTTP client.
        let cause = std::error::Error::source(&error).unwrap_or(&error);
        unreachable(base, &with_causes(cause))
    })?;
    let status = response.status();
    if !response.headers().contains_key(VERSION_HEADER) {
        return Err(CliError::failed(
            format!(
                "the server at {base} is not a sim: it answers {status} without the header {VERSION_HEADER}"
            ),
            "set --admin or SIM_ADMIN to the URL that `sim serve` prints as SIM_ADMIN",
        ));
    }
    let body = response.into_body().collect().await.map_err(|error| unreachable(base, &error))?;
    Ok((status, body.to_bytes()))
}

fn unreachable(base: &str, error: &dyn std::fmt::Display) -> CliError {
    CliError::failed(
        format!("no sim answers at {base}: {error}"),
        "start one with `sim serve`, or set --admin or SIM_ADMIN to its URL",
    )
}

/// Converts an error answer of the admin port at `base`.
fn failure(base: &str, status: StatusCode, text: &str) -> CliError {
    let (error, remedy) = match serde_json::from_str::<ErrorBody>(text) {
        // The remedies of the admin port name its paths. Users of the command line need commands.
        Ok(ErrorBody { error, remedy, .. }) => {
            (error, remedy.replace("GET /world", "sim world list"))
        }
        Err(_) => (
            format!("{base} answers {status}: {text}"),
            "use the same version of sim on both sides".to_owned(),
        ),
    };
    match status {
        // The named object does not exist, or the input is invalid.
        StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND => CliError::input(error, remedy),
        _ => CliError::failed(error, remedy),
    }
}
