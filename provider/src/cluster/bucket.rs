//! A token bucket on tokio's clock.

use std::{sync::Mutex, time::Duration};

use tokio::time::Instant;

/// Requests per second for which zero stands (client-go: `rest.DefaultQPS`).
const DEFAULT_PER_SECOND: f64 = 5.0;
/// Burst for which zero stands (client-go: `rest.DefaultBurst`).
const DEFAULT_BURST: u32 = 10;

/// Rate limiter: lets `burst` requests pass at once, and `per_second` requests per second on
/// average.
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

    /// Returns the limiter for the values of `--kube-api-qps` and `--kube-api-burst`, with their
    /// meaning in client-go: zero stands for client-go's default (5 per second, burst of 10), and a
    /// negative rate means no limit (`None`).
    pub(crate) fn of_client(per_second: f64, burst: u32) -> Option<Self> {
        if per_second < 0.0 {
            return None;
        }
        let per_second = if per_second == 0.0 { DEFAULT_PER_SECOND } else { per_second };
        Some(Self::new(per_second, if burst == 0 { DEFAULT_BURST } else { burst }))
    }

    /// Takes a token if one is available; returns true if it took one.
    pub(crate) fn try_take(&self) -> bool {
        let now = Instant::now();
        let mut state = self.state.lock().expect("nothing panics under this lock");
        let tokens = self.refilled(*state, now);
        let is_there = tokens >= 1.0;
        *state = (if is_there { tokens - 1.0 } else { tokens }, Some(now));
        is_there
    }

    fn refilled(&self, (tokens, last): (f64, Option<Instant>), now: Instant) -> f64 {
        let Some(last) = last else { return tokens };
        let refill = now.duration_since(last).as_secs_f64() * self.per_second;
        (tokens + refill).min(self.burst)
    }

    /// Takes a token and returns the time after which the caller may use it. Callers get their
    /// tokens in the order of their calls.
    pub(crate) fn reserve(&self) -> Duration {
        let now = Instant::now();
        let mut state = self.state.lock().expect("nothing panics under this lock");
        let tokens = self.refilled(*state, now) - 1.0;
        *state = (tokens, Some(now));
        if tokens >= 0.0 {
            return Duration::ZERO;
        }
        Duration::from_secs_f64(-tokens / self.per_second)
    }

    /// Takes a token and waits until the caller may use it.
    ///
    /// Cancel safe: if the caller gives up while it waits, the token goes back.
    pub(crate) async fn take(&self) {
        let wait = self.reserve();
        if !wait.is_zero() {
            let debt = Debt(self);
            tokio::time::sleep(wait).await;
            std::mem::forget(debt);
        }
    }

    fn give_back(&self) {
        let now = Instant::now();
        let mut state = self.state.lock().expect("nothing panics under this lock");
        *state = ((self.refilled(*state, now) + 1.0).min(self.burst), Some(now));
    }
}

/// A token that a caller has reserved and still waits for. If the caller gives up and drops it, the
/// token goes back to the bucket; otherwise the debts of such callers would grow without limit.
struct Debt<'a>(&'a TokenBucket);

impl Drop for Debt<'_> {
    fn drop(&mut self) {
        self.0.give_back();
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

    #[tokio::test(start_paused = true)]
    async fn zero_and_negative_rates_have_the_meaning_of_client_go() {
        let second_wait = |bucket: TokenBucket| {
            bucket.reserve();
            bucket.reserve().as_millis()
        };
        for (name, per_second, burst, want) in [
            ("as given", 20.0, 1, Some(50)),
            ("zero is five per second", 0.0, 1, Some(200)),
            ("less than one per second", 0.5, 1, Some(2000)),
            ("negative is no limit", -1.0, 1, None),
            ("negative with any burst", -0.1, 0, None),
        ] {
            assert_eq!(TokenBucket::of_client(per_second, burst).map(second_wait), want, "{name}");
        }
        let bucket = TokenBucket::of_client(0.0, 0).unwrap();
        let at_once = (0..20).filter(|_| bucket.reserve().is_zero()).count();
        assert_eq!(at_once, 10, "client-go's default burst");
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_caller_consumes_the_token_it_waited_for() {
        let bucket = TokenBucket::new(10.0, 2);
        let begin = Instant::now();
        for _ in 0..52 {
            bucket.take().await;
        }
        assert_eq!(begin.elapsed().as_millis(), 5000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_gives_up_owes_no_token() {
        let bucket = TokenBucket::new(1.0, 1);
        bucket.take().await;
        for _ in 0..100 {
            let taken = tokio::time::timeout(Duration::from_millis(1), bucket.take()).await;
            assert!(taken.is_err());
        }
        assert!(bucket.reserve() <= Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_try_take_leaves_no_debt() {
        let bucket = TokenBucket::new(1.0, 2);
        let taken: Vec<bool> = (0..4).map(|_| bucket.try_take()).collect();
        assert_eq!(taken, [true, true, false, false]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((bucket.try_take(), bucket.try_take()), (true, false));
    }
}
