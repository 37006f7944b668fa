//! Keep-alive for a vCenter in which no node has a machine. While no lookup or proof asks such a
//! vCenter, no other call would keep the session or show that a failure is over.

use provider_vcenter::Chain;

use crate::instances::vcenter::{Shared, state::VcenterIndex};

/// Makes the cheapest call that keeps the session alive; makes none without a session. If the last
/// lookup, wait or read at this vCenter failed, logs in first where necessary, and a success clears
/// that failure. Only logs errors.
pub(in crate::instances::vcenter) async fn keep_alive(shared: &Shared, index: VcenterIndex) {
    let client = &shared.vcenters[index].client;
    let was_troubled = shared.lock().vcenters[index].last_call_failed;
    let result = async {
        if was_troubled {
            client.session().await?;
        }
        // If the session has ended, the next call that needs one logs in.
        client.keep_alive().await
    };
    match result.await {
        Ok(()) if was_troubled => shared.lock().vcenters[index].last_call_failed = false,
        Ok(()) => {}
        Err(err) => {
            tracing::info!(error = %Chain(&err), "keeping the session at vCenter alive, or logging in again, failed; retrying later");
        }
    }
}
