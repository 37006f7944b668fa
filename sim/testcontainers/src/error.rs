//! What can go wrong between a test and its sim.

use testcontainers::TestcontainersError;

/// Why a sim could not be started, or did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The engine, or the container: no image, no engine, or sim ended before it served.
    #[error(
        "the container of {image} failed; if there is no such image, kind/images/build.sh sim makes it, and SIM_IMAGE names another"
    )]
    Container {
        /// Name and tag.
        image: String,
        /// What failed.
        #[source]
        source: TestcontainersError,
    },
    /// The admin port does not answer.
    #[error("{method} {path} at {base} was not answered")]
    Silent {
        /// The request's method.
        method: http::Method,
        /// Its path.
        path: String,
        /// The URL of the admin port.
        base: String,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The admin port refuses.
    #[error("{method} {path} was refused with {status}: {error}; remedy: {remedy}")]
    Refused {
        /// The request's method.
        method: http::Method,
        /// Its path.
        path: String,
        /// The answer's status.
        status: http::StatusCode,
        /// What is wrong.
        error: String,
        /// What to do about it.
        remedy: String,
    },
    /// The admin port answers with something else than it should: another version of sim, or no sim.
    #[error("the answer to {path} is not what this crate knows; take the image of its version")]
    Unknown {
        /// The request's path.
        path: String,
        /// Where it differs.
        #[source]
        source: serde_json::Error,
    },
    /// A name that this world has not.
    #[error("there is no {name} in this world; there are: {known}")]
    NoSuch {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
}
