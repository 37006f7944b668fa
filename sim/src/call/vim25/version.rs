//! Releases of vim25, in their order.

/// A release of vim25, such as `8.0.3.0` or `2.5u2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version([u32; 4]);

impl Version {
    /// Later than every release.
    pub(crate) const LATEST: Self = Self([u32::MAX; 4]);

    /// Reads the numbers of a release. Any other character separates two numbers, and a missing
    /// number is 0.
    pub(crate) fn parse(text: &str) -> Self {
        let mut numbers = [0; 4];
        let given = text.split(|it: char| !it.is_ascii_digit());
        for (number, given) in numbers.iter_mut().zip(given) {
            *number = given.parse().unwrap_or(0);
        }
        Self(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_ordered_by_their_numbers() {
        let order = ["2.0", "2.5", "2.5u2", "4.0", "6.7", "6.7.1", "7.0.0.0", "8.0.3.0", "9.0.0.0"];
        for (n, earlier) in order.iter().enumerate() {
            for later in &order[n + 1..] {
                assert!(Version::parse(earlier) < Version::parse(later), "{earlier} < {later}");
            }
        }
        assert_eq!(Version::parse("7.0"), Version::parse("7.0.0.0"));
    }
}
