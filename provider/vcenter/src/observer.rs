//! Observer of calls, for metrics.

use std::{borrow::Cow, time::Duration};

/// One exchange with a vCenter, successful or failed. A call that the client did not send does not
/// count.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// Name of the vCenter in the configuration.
    pub vcenter: &'a str,
    /// Operation as the protocol names it.
    pub operation: &'static str,
    /// `ok`, or [`CallError::code`](crate::CallError::code).
    pub code: Cow<'static, str>,
    /// Time from the first byte sent to the decoded answer.
    pub took: Duration,
}

impl Call<'_> {
    /// The API that the call tries to log in to: `soap` or `vapi`; `None` for all other operations.
    pub fn logs_in_to(&self) -> Option<&'static str> {
        match self.operation {
            "Login" => Some("soap"),
            "cis.session.create" => Some("vapi"),
            _ => None,
        }
    }
}

/// Receives every call. Must not block.
pub trait CallObserver: std::fmt::Debug + Send + Sync {
    /// Receives a call that has ended. A call that its caller cut short is not reported.
    fn called(&self, call: &Call<'_>);
}
