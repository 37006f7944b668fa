//! The product release of a vCenter.

use serde::{Deserialize, Serialize};

use super::VcFault;

/// Version and build of a vCenter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// `about.version`: three numbers, such as `8.0.3`.
    pub version: String,
    /// `about.build`: a number.
    pub build: String,
}

impl Release {
    /// Creates a release after checking the form of both parts.
    ///
    /// # Errors
    ///
    /// Returns [`VcFault::InvalidArgument`] if `version` is not three numbers with dots between
    /// them, or `build` is not a number. Each number has 1 to 9 digits.
    pub fn new(version: String, build: String) -> Result<Self, VcFault> {
        let is_number = |text: &str| {
            !text.is_empty() && text.len() <= 9 && text.bytes().all(|it| it.is_ascii_digit())
        };
        if version.split('.').count() != 3 || !version.split('.').all(is_number) {
            let why = format!("version: {version:?} is not three numbers such as 9.0.0");
            return Err(VcFault::InvalidArgument(why));
        }
        if !is_number(&build) {
            let why = format!("build: {build:?} is not a number such as 24755230");
            return Err(VcFault::InvalidArgument(why));
        }
        Ok(Self { version, build })
    }

    /// `about.apiVersion`: the version of the vim25 API in this release, such as `8.0.3.0`.
    pub fn api_version(&self) -> String {
        format!("{}.0", self.version)
    }
}

impl Default for Release {
    fn default() -> Self {
        Self { version: "8.0.3".to_owned(), build: "24022515".to_owned() }
    }
}
