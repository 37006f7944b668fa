//! Errors that a test can get from its sim.

use testcontainers::TestcontainersError;

/// Reason for which a sim did not start, or did not do what the test asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The engine or the container failed: the engine or the image is missing, or sim ended before it served.
    #[error(
        "the container of {image} failed; if there is no such image, kind/images/build.sh sim makes it, and SIM_IMAGE names another"
    )]
    Container {
        /// Name and tag of the image.
        image: String,
        /// Error of testcontainers.
        #[source]
        source: TestcontainersError,
    },
    /// The admin port did not answer.
    #[error("{method} {path} at {base} was not answered")]
    Silent {
        /// Method of the request.
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
    #[error("{method} {path} was refused with {status}: {error}; remedy: {remedy}")]
    Refused {
        /// Method of the request.
        method: http::Method,
        /// Path of the request.
        path: String,
        /// Status of the answer.
        status: http::StatusCode,
        /// Problem, in the words of sim.
        error: String,
        /// Remedy, in the words of sim.
        remedy: String,
    },
    /// The answer of the admin port does not have the expected form: sim has another version, or the server is not a sim.
    #[error("the answer to {path} is not what this crate knows; take the image of its version")]
    Unknown {
        /// Path of the request.
        path: String,
        /// Place of the difference.
        #[source]
        source: serde_json::Error,
    },
    /// The world does not have this name.
    #[error("there is no {name} in this world; there are: {known}")]
    NoSuch {
        /// Kind and name that the test asked for.
        name: String,
        /// Known names, separated by commas.
        known: String,
    },
}
