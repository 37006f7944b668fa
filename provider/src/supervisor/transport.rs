//! A client of the Supervisor that sends the current bearer token with each request.

use std::sync::Arc;

use http::{HeaderValue, Request, Response, StatusCode, header};
use kube::client::Body;
use provider_vcenter::BoxError;

use super::TokenSource;

/// Returns a client that sends its requests through `client`, each with the current token. Without
/// any token a request fails unsent. If the Supervisor refuses a request with 401, another token
/// exists by then and the body is not a stream, the client sends the request once more with that
/// token.
///
/// `agent` is the value of `User-Agent`.
pub fn authenticated(
    client: kube::Client,
    tokens: Arc<TokenSource>,
    agent: HeaderValue,
) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, tokens, agent) = (client.clone(), Arc::clone(&tokens), agent.clone());
        async move { send(&client, &tokens, agent, request).await }
    });
    kube::Client::new(service, namespace)
}

async fn send(
    client: &kube::Client,
    tokens: &TokenSource,
    agent: HeaderValue,
    mut request: Request<Body>,
) -> Result<Response<Body>, BoxError> {
    let token = tokens.header()?;
    request.headers_mut().insert(header::USER_AGENT, agent);
    request.headers_mut().insert(header::AUTHORIZATION, token.clone());
    let again = copy(&request);
    let response = client.send(request).await?;
    if response.status() != StatusCode::UNAUTHORIZED {
        return Ok(response);
    }
    let (Some(mut again), Some(token)) = (again, tokens.after_refusal(&token)) else {
        return Ok(response);
    };
    tracing::info!("the Supervisor refused the token; sending the request again with a newer one");
    again.headers_mut().insert(header::AUTHORIZATION, token);
    Ok(client.send(again).await?)
}

/// Copies a request; `None` if its body is a stream.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let body = request.body().try_clone()?;
    let mut copy = Request::new(body);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, sync::Mutex};

    use super::*;

    type Seen = Arc<Mutex<Vec<String>>>;

    /// Returns a client of a server that accepts one token, and the requests that the server
    /// receives.
    fn server(accepted: &'static str) -> (kube::Client, Seen) {
        let seen = Seen::default();
        let log = Arc::clone(&seen);
        let service = tower::service_fn(move |request: Request<Body>| {
            let log = Arc::clone(&log);
            async move {
                let (parts, body) = request.into_parts();
                let text = |name| {
                    let value = parts.headers.get(name).map(HeaderValue::to_str);
                    value.and_then(Result::ok).unwrap_or_default().to_owned()
                };
                let (token, agent) = (text(header::AUTHORIZATION), text(header::USER_AGENT));
                let body = body.collect_bytes().await.unwrap();
                let body = String::from_utf8(body.to_vec()).unwrap();
                log.lock().unwrap().push(format!("{token} {agent} {body}"));
                let is_known = token == format!("Bearer {accepted}");
                let status = if is_known { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
                let mut response = Response::new(Body::empty());
                *response.status_mut() = status;
                Ok::<_, Infallible>(response)
            }
        });
        (kube::Client::new(service, "dev"), seen)
    }

    /// A source that reads the tokens of the list one after the other, and then always the last
    /// one.
    fn tokens(list: Vec<&'static str>) -> Arc<TokenSource> {
        let n_reads = Mutex::new(0);
        Arc::new(TokenSource::new(Arc::new(move || {
            let n_reads = &mut *n_reads.lock().unwrap();
            *n_reads += 1;
            let token = list.get(*n_reads - 1).or(list.last()).copied();
            token.map(|it| it.as_bytes().to_vec()).ok_or_else(|| "gone".to_owned())
        })))
    }

    async fn post(client: &kube::Client) -> u16 {
        let request = Request::post("/x").body(Body::from(b"text".to_vec())).unwrap();
        client.send(request).await.unwrap().status().as_u16()
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_request_is_sent_once_more_with_another_token() {
        for (name, list, want, want_seen) in [
            ("accepted", vec!["new"], 200, vec!["Bearer new me text"]),
            ("rotated", vec!["old", "new"], 200, vec!["Bearer old me text", "Bearer new me text"]),
            ("nothing newer", vec!["old"], 401, vec!["Bearer old me text"]),
            (
                "still wrong",
                vec!["old", "odd"],
                401,
                vec!["Bearer old me text", "Bearer odd me text"],
            ),
        ] {
            let (client, seen) = server("new");
            let tokens = tokens(list);
            let agent = HeaderValue::from_static("me");
            let client = authenticated(client, Arc::clone(&tokens), agent);
            assert_eq!(client.default_namespace(), "dev");
            // The source read the token a while ago, so a refusal may read the file again.
            tokens.header().unwrap();
            tokio::time::advance(std::time::Duration::from_secs(2)).await;
            assert_eq!(post(&client).await, want, "{name}");
            assert_eq!(*seen.lock().unwrap(), want_seen, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_token_no_request_is_sent() {
        let (client, seen) = server("new");
        let client = authenticated(client, tokens(Vec::new()), HeaderValue::from_static("me"));
        let request = Request::get("/x").body(Body::empty()).unwrap();
        assert!(client.send(request).await.is_err());
        assert!(seen.lock().unwrap().is_empty());
    }
}
