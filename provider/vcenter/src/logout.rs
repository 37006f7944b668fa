//! End of a client: both logouts at once.

use std::sync::atomic::Ordering;

use tracing::Instrument as _;

use crate::Vcenter;

impl Vcenter {
    /// Logs out of SOAP and vAPI, and refuses further calls. The client only logs errors, because a
    /// caller cannot act on them.
    pub async fn close(&self) {
        self.inner.closed.store(true, Ordering::Release);
        let (soap, rest) = (self.inner.soap.take(), self.inner.rest.take());
        let span = tracing::info_span!("vcenter", vcenter = %self.inner.name, task = "logout");
        let logouts = async {
            let ((), ()) = futures::join!(
                async {
                    if let Some(session) = soap {
                        self.logout_soap(&session).await;
                    }
                },
                async {
                    if let Some(session) = rest {
                        self.logout_rest(&session).await;
                    }
                }
            );
        };
        logouts.instrument(span).await;
    }
}
