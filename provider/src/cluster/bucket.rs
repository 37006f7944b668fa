//! A token bucket on tokio's clock.

use std::{sync::Mutex, time::Duration};

use tokio::time::Instant;

/// Lets `burst` through at once and `per_second` on average.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    per_second: f64,
    burst: f64,
    state: Mutex<(f64, Option<Instant>)>,
}

impl TokenBucket {
    pub(crate) fn new(per_second: f64, burst: u32) -> Self {
        let burst = f64::from(burst.max(1));
        Self { per_second: per_second.max(0.001), burst, state: Mutex::new((burst, None)) }
    }

    /// Takes a token and says how long to wait for it. Debts are paid in order of asking.
    pub(crate) fn reserve(&self) -> Duration {
        let now = Instant::now();
        let (tokens, last) = &mut *self.state.lock().expect("nothing panics under this lock");
        if let Some(last) = last {
            let refill = now.duration_since(*last).as_secs_f64() * self.per_second;
            *tokens = (*tokens + refill).min(self.burst);
        }
        *last = Some(now);
        *tokens -= 1.0;
        if *tokens >= 0.0 {
            return Duration::ZERO;
        }
        Duration::from_secs_f64(-*tokens / self.per_second)
    }

    /// Waits for a token.
    pub(crate) async fn take(&self) {
        let wait = self.reserve();
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_and_the_rest_is_paced() {
        let bucket = TokenBucket::new(10.0, 2);
        let waits: Vec<u128> = (0..4).map(|_| bucket.reserve().as_millis()).collect();
        assert_eq!(waits, [0, 0, 100, 200]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(bucket.reserve(), Duration::ZERO);
    }
}
