//! The health of leader election, as client-go's `HealthzAdaptor` judges it.

use std::time::Duration;

use tokio::time::Instant;

/// Time after the end of its lease at which a leader that does not renew should have ended.
const TOLERATED: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(super) struct Tenure {
    pub(super) lease: String,
    pub(super) lease_duration: Duration,
    /// `None` while another process leads.
    pub(super) renewed_at: Option<Instant>,
}

impl Tenure {
    pub(super) fn check(&self) -> Result<(), String> {
        match self.renewed_at {
            Some(at) if at.elapsed() > self.lease_duration + TOLERATED => {
                Err(format!("failed election to renew leadership on lease {}", self.lease))
            }
            _ => Ok(()),
        }
    }
}
