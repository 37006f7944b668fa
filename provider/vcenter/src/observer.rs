//! Who is told of calls, for metrics.

use std::{borrow::Cow, time::Duration};

/// One exchange with a vCenter, ended well or not. A call that was not sent is none.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// Name of the vCenter in the configuration.
    pub vcenter: &'a str,
    /// Operation as the protocol names it.
    pub operation: &'static str,
    /// `ok`, or [`CallError::code`](crate::CallError::code).
    pub code: Cow<'static, str>,
    /// From the first byte sent to the answer decoded.
    pub took: Duration,
}

impl Call<'_> {
    /// Which API it was an attempt to log in to, if it was one.
    pub fn logs_in_to(&self) -> Option<&'static str> {
        match self.operation {
            "Login" => Some("soap"),
            "cis.session.create" => Some("vapi"),
            _ => None,
        }
    }
}

/// Is told of every call. Must not block.
pub trait CallObserver: std::fmt::Debug + Send + Sync {
    /// A call has ended. One that was cut short by its caller is not told.
    fn called(&self, call: &Call<'_>);
}
