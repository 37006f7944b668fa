//! The health of leader election, as client-go's `HealthzAdaptor` judges it.

use std::time::Duration;

use tokio::time::Instant;

/// A leader that has not renewed for this long after its lease ran out should have ended.
const TOLERATED: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(super) struct Tenure {
    pub(super) lease: String,
    pub(super) lease_duration: Duration,
    /// `None` while another leads.
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
