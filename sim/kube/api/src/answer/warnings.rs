//! `Warning` headers of answers, such as those for unknown fields and deprecated versions.

use http::HeaderValue;
use http::header::WARNING;

use crate::answer::Reply;

/// Adds a `Warning` header to an answer for each of `warnings`, except for warnings with characters
/// outside ASCII.
///
/// Follows `apiserver: pkg/endpoints/filters/warning.go`: RFC 7234 with the code 299 and no agent.
pub(crate) fn with_warnings(mut reply: Reply, warnings: &[String]) -> Reply {
    for warning in warnings {
        let quoted: String = warning
            .chars()
            .flat_map(|c| matches!(c, '"' | '\\').then_some('\\').into_iter().chain([c]))
            .filter(|c| !c.is_control())
            .collect();
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            reply.response.headers_mut().append(WARNING, value);
        }
    }
    reply
}
