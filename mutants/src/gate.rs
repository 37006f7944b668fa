//! Decides if the result of a small sample is so bad that chance does not explain it.
//!
//! The results of samples of twenty mutants, drawn anew each week, vary: a fixed share would fail a
//! good catalogue every few weeks. So the gate computes the probability that a catalogue with the
//! expected share catches as few mutants of a sample or fewer. It fails if that probability is
//! below one in a thousand.

/// The probability below which chance no longer explains a sample.
const SIGNIFICANCE: f64 = 0.001;

/// True if `caught` of `counted` is too few for a catalogue that catches `percent` of all mutants.
pub(crate) fn is_too_few(caught: usize, counted: usize, percent: u8) -> bool {
    let share = f64::from(percent.min(100)) / 100.0;
    at_most(caught, counted, share) < SIGNIFICANCE
}

/// The probability of at most `k` successes in `n` trials that succeed with probability `p` each:
/// the binomial distribution.
fn at_most(k: usize, n: usize, p: f64) -> f64 {
    if k >= n {
        return 1.0;
    }
    // One row of Pascal's triangle, weighted: after each round, chance[i] is the probability of i
    // successes in the first `trial` trials.
    let mut chance = vec![0.0; n + 1];
    chance[0] = 1.0;
    for trial in 1..=n {
        for i in (0..=trial).rev() {
            let before = if i == 0 { 0.0 } else { chance[i - 1] };
            chance[i] = chance[i] * (1.0 - p) + before * p;
        }
    }
    chance[..=k].iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probability_is_that_of_the_binomial_distribution() {
        for (k, n, p, wanted) in [
            (0, 1, 0.5, 0.5),
            (1, 2, 0.5, 0.75),
            (3, 13, 0.5, 378.0 / 8192.0),
            (0, 10, 0.0, 1.0),
            (9, 10, 1.0, 0.0),
            (5, 5, 0.9, 1.0),
        ] {
            let found = at_most(k, n, p);
            assert!((found - wanted).abs() < 1e-12, "{k} of {n} at {p}: {found}");
        }
    }

    #[test]
    fn a_sample_is_too_few_when_chance_does_not_explain_it() {
        assert!(!is_too_few(3, 13, 50), "probability 1 in 22");
        assert!(is_too_few(1, 16, 50), "probability 1 in 3,855");
        assert!(is_too_few(0, 10, 50), "probability 1 in 1,024");
        assert!(!is_too_few(0, 9, 50), "probability 1 in 512");
        assert!(!is_too_few(0, 0, 80), "a sample without mutants that count");
    }
}
