//! Errors of this crate's functions.

use testcontainers::TestcontainersError;

/// Reason for which a sim did not start, or did not carry out a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The container engine or the container failed: for example, the engine or the image is
    /// missing, or sim ended before it was ready.
    #[error(
        "the container of {image} failed; \
         if the image is missing, build it with kind/images/build.sh sim or set SIM_IMAGE"
    )]
    Container {
        /// Name and tag of the image.
        image: String,
        /// Error of the crate testcontainers.
        #[source]
        source: TestcontainersError,
    },
    /// The admin port did not answer.
    #[error(
        "the admin port at {base} did not answer {method} {path}; \
         check that the container still runs"
    )]
    Silent {
        /// HTTP method of the request.
        method: http::Method,
        /// Path of the request.
        path: String,
        /// URL of the admin port.
        base: String,
        /// Error of the HTTP client, or the timeout.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The admin port refused the request.
    #[error("the admin port refused {method} {path} with {status}: {error}; remedy: {remedy}")]
    Refused {
        /// HTTP method of the request.
        method: http::Method,
        /// Path of the request.
        path: String,
        /// HTTP status of the answer.
        status: http::StatusCode,
        /// Problem, as sim reports it.
        error: String,
        /// Remedy, as sim reports it.
        remedy: String,
    },
    /// The answer of the admin port does not have the expected form, because sim has another
    /// version or the server is not a sim.
    #[error("the answer to {path} has an unexpected form: use the image of this crate's version")]
    Unknown {
        /// Path of the request.
        path: String,
        /// Error of the JSON parser, with the place of the difference.
        #[source]
        source: serde_json::Error,
    },
    /// The world has no vCenter with this name.
    #[error("the world has no {name}: expected one of {known}")]
    NoSuch {
        /// Kind and name that the test asked for.
        name: String,
        /// The existing names, separated by commas.
        known: String,
    },
}
