//! Growing pauses with jitter from a seed: the same seed gives the same pauses on every computer.
//!
//! Written by hand although kube brings the crate `backon`: its jitter adds up to the whole pause,
//! from a generator of its own, and it has no full jitter. The bounds in SPECIFICATION.md and the
//! recorded ledgers need a stretch by up to half, rounded to milliseconds, and one stream of random
//! numbers per purpose.

use std::time::Duration;

/// Stream of pseudo-random numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Jitter(u64);

impl Jitter {
    /// Creates the stream of one purpose. Each purpose has a separate stream, because its name is
    /// mixed into the seed.
    pub fn new(seed: u64, purpose: &str) -> Self {
        let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
        for byte in purpose.bytes() {
            state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Self(state)
    }

    /// Returns the next number.
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns `base` multiplied by a random factor in [1, 1 + `spread`).
    ///
    /// The result is rounded to milliseconds, because tokio's paused clock ticks in milliseconds.
    pub fn stretch(&mut self, base: Duration, spread: f64) -> Duration {
        #[expect(clippy::cast_precision_loss, reason = "53 bits are what a fraction needs")]
        let fraction = (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let millis = base.as_secs_f64() * 1000.0 * (1.0 + spread * fraction);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "pauses are small and positive"
        )]
        Duration::from_millis(millis.round() as u64)
    }
}

/// Distribution of a pause, given its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Draw {
    /// Between the limit and one and a half times the limit.
    Stretched,
    /// Between zero and the limit ("full jitter"), but at least a tenth of [`Backoff`]'s `first`.
    Full,
}

/// Exponential pauses: the limit is `first` after the first failure, and doubles with each failure
/// up to `max`. By default, a pause is its limit stretched by up to half.
#[derive(Clone, Debug)]
pub struct Backoff {
    draw: Draw,
    first: Duration,
    max: Duration,
    /// Number of failures since the last success; it determines the limit.
    failures: u32,
    jitter: Jitter,
}

impl Backoff {
    /// Creates a sequence without failures.
    pub fn new(first: Duration, max: Duration, jitter: Jitter) -> Self {
        Self { draw: Draw::Stretched, first, max, failures: 0, jitter }
    }

    /// Makes each pause random between zero and its limit, but at least a tenth of `first`, so that
    /// many clients that failed together do not come back together.
    #[must_use]
    pub fn with_full_jitter(self) -> Self {
        Self { draw: Draw::Full, ..self }
    }

    /// Counts a failure and returns the pause before the next try.
    pub fn next_pause(&mut self) -> Duration {
        let base = self.first.saturating_mul(1u32 << self.failures.min(16)).min(self.max);
        self.failures = self.failures.saturating_add(1);
        match self.draw {
            Draw::Stretched => self.jitter.stretch(base, 0.5),
            Draw::Full => {
                let drawn = self.jitter.stretch(base, 1.0).saturating_sub(base);
                drawn.max(self.first / 10)
            }
        }
    }

    /// Resets the count after a success, so that the limit of the next pause is `first` again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Returns the number of failures since the last success.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_limit_and_start_again() {
        let s = Duration::from_secs;
        let mut backoff = Backoff::new(s(1), s(60), Jitter::new(7, "test"));
        let pauses: Vec<_> = (0..9).map(|_| backoff.next_pause()).collect();
        assert!(pauses[0] >= s(1) && pauses[0] < s(2), "{pauses:?}");
        assert!(pauses[8] >= s(60) && pauses[8] <= s(90), "{pauses:?}");
        backoff.reset();
        assert!(backoff.next_pause() < s(2));
    }

    #[test]
    fn full_jitter_draws_from_everything_up_to_the_limit() {
        let s = Duration::from_secs;
        let mut backoff = Backoff::new(s(1), s(30), Jitter::new(7, "test")).with_full_jitter();
        for limit in [1, 2, 4, 8, 16] {
            let pause = backoff.next_pause();
            assert!(pause >= s(1) / 10 && pause <= s(limit), "{pause:?} of {limit} s");
        }
        let pauses: Vec<_> = (0..200).map(|_| backoff.next_pause()).collect();
        assert!(pauses.iter().all(|pause| (s(1) / 10..=s(30)).contains(pause)), "{pauses:?}");
        assert!(pauses.iter().any(|pause| *pause < s(5)), "{pauses:?}");
        assert!(pauses.iter().any(|pause| *pause > s(25)), "{pauses:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let mut a = Jitter::new(1, "x");
        let mut b = Jitter::new(1, "x");
        let mut c = Jitter::new(1, "y");
        let first = a.next_u64();
        assert_eq!(first, b.next_u64());
        assert_ne!(first, c.next_u64());
    }
}
