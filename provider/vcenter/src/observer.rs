//! Observer of the client's calls, for metrics.

use std::{borrow::Cow, time::Duration};

use crate::VcenterName;

/// A call to a vCenter that has ended with success or failure. A repeated call counts each time,
/// and a login consists of one or two calls. Calls that the client refuses before it sends them are
/// not reported.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// Name of the vCenter in the configuration.
    pub vcenter: &'a VcenterName,
    /// Operation as the protocol names it.
    pub operation: &'static str,
    /// `ok`, or the [`CallError::code`](crate::CallError::code) of the failure.
    pub code: Cow<'static, str>,
    /// Time from the start of the call, before the connection is made, to the decoded answer or the
    /// failure.
    pub took: Duration,
}

impl Call<'_> {
    /// Returns the API that the call logs in to, `soap` or `vapi`; `None` for all other operations.
    pub fn logs_in_to(&self) -> Option<&'static str> {
        match self.operation {
            "Login" => Some("soap"),
            "cis.session.create" => Some("vapi"),
            _ => None,
        }
    }
}

/// Receiver of every call. The implementation must not block.
pub trait CallObserver: std::fmt::Debug + Send + Sync {
    /// Receives a call that has ended. The client does not report a call whose caller cancelled it.
    fn called(&self, call: &Call<'_>);
}
