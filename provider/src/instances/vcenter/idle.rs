//! Keep-alive for a vCenter in which no node has a machine. No other call would keep its session or end its trouble.

use provider_vcenter::Chain;

use super::{Shared, state::VcenterIndex};

/// Keeps the session alive. Logs in to a vCenter in trouble if needed, because no other call would show that the
/// trouble is over.
pub(super) async fn keep_alive(shared: &Shared, index: VcenterIndex) {
    let client = &shared.vcenters[index].client;
    let was_troubled = shared.lock().vcenters[index].troubled;
    let result = async {
        if was_troubled {
            client.session().await?;
        }
        // The next call that needs a session replaces one that has ended.
        client.keep_alive().await
    };
    match result.await {
        Ok(()) if was_troubled => shared.lock().vcenters[index].troubled = false,
        Ok(()) => {}
        Err(err) => tracing::info!(error = %Chain(&err), "keeping the session alive failed"),
    }
}
