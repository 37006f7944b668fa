//! A vCenter in which no node has a machine: nobody calls it, and its session and its trouble would stay as they are.

use provider_vcenter::Chain;

use super::{Shared, state::VcenterIndex};

/// Keeps the session alive. A vCenter in trouble is logged in to if need be: no other call would show that its trouble is
/// over.
pub(super) async fn keep_alive(shared: &Shared, index: VcenterIndex) {
    let client = &shared.vcenters[index].client;
    let was_troubled = shared.lock().vcenters[index].troubled;
    let result = async {
        if was_troubled {
            client.session().await?;
        }
        // A session that has ended is made anew by the next call that needs one.
        client.keep_alive().await
    };
    match result.await {
        Ok(()) if was_troubled => shared.lock().vcenters[index].troubled = false,
        Ok(()) => {}
        Err(err) => tracing::info!(error = %Chain(&err), "session not kept alive"),
    }
}
