//! The health check of leader election, with the rule of client-go's `HealthzAdaptor`.

use std::time::Duration;

use tokio::time::Instant;

/// Time for which a leader still counts as healthy after its lease has ended without a renewal.
const TOLERATED: Duration = Duration::from_secs(20);

/// The Lease of the leader election, and its last renewal by this process.
#[derive(Debug)]
pub(super) struct ElectionHealth {
    pub(super) lease: String,
    pub(super) lease_duration: Duration,
    /// Instant of the last acquisition or renewal; `None` while this process does not lead.
    pub(super) renewed_at: Option<Instant>,
}

impl ElectionHealth {
    pub(super) fn check(&self) -> Result<(), String> {
        match self.renewed_at {
            Some(at) if at.elapsed() > self.lease_duration + TOLERATED => {
                Err(format!("failed election to renew leadership on lease {}", self.lease))
            }
            _ => Ok(()),
        }
    }
}
