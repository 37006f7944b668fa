//! Quantities of Kubernetes, such as `250m` or `8Gi`.

use std::{fmt, str::FromStr};

use crate::InputError;

/// An amount of a resource, in thousandths of its unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i128);

/// Suffixes with their factor in thousandths.
const SUFFIXES: [(&str, i128); 13] = [
    ("Ki", 1000 << 10),
    ("Mi", 1000 << 20),
    ("Gi", 1000 << 30),
    ("Ti", 1000 << 40),
    ("Pi", 1000 << 50),
    ("Ei", 1000 << 60),
    ("m", 1),
    ("k", 1_000_000),
    ("M", 1_000_000_000),
    ("G", 1_000_000_000_000),
    ("T", 1_000_000_000_000_000),
    ("P", 1_000_000_000_000_000_000),
    ("E", 1_000_000_000_000_000_000_000),
];

/// Maximum number of digits of the number; more could overflow with the largest suffix.
const MAX_DIGITS: usize = 15;
/// Suffixes below a thousandth, with the number of thousandths that they are smaller by, as a power
/// of ten.
const SMALL: [(&str, i32); 2] = [("n", 6), ("u", 3)];
/// Largest amount, as in Kubernetes: 2^63 - 1 units.
const LARGEST: i128 = (i64::MAX as i128) * 1000;

impl Quantity {
    /// An amount of whole units.
    pub(crate) const fn whole(units: u32) -> Self {
        Self(units as i128 * 1000)
    }

    /// The amount multiplied by a factor.
    #[must_use]
    pub(crate) const fn times(self, factor: u32) -> Self {
        Self(self.0.saturating_mul(factor as i128))
    }

    /// The amount without `part`, at least zero.
    #[must_use]
    pub(crate) fn without(self, part: Self) -> Self {
        Self((self.0 - part.0).max(0))
    }

    /// The given number of hundredths of the amount.
    #[must_use]
    pub(crate) fn percent(self, hundredths: u8) -> Self {
        Self(self.0 * i128::from(hundredths) / 100)
    }

    /// True if the amount is zero.
    pub(crate) fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Parses a quantity of an object of Kubernetes, in every form that Kubernetes accepts: with
    /// sign, exponent, and decimals without digits before or after the point. Rounds up to a
    /// thousandth, and cuts amounts that are larger than 2^63 - 1 units, as Kubernetes does.
    ///
    /// # Errors
    ///
    /// If Kubernetes would not accept the text.
    pub fn of_object(text: &str) -> Result<Self, InputError> {
        let refuse = || refusal(text);
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let end = unsigned.find(|it: char| !it.is_ascii_digit() && it != '.');
        let (number, suffix) = unsigned.split_at(end.unwrap_or(unsigned.len()));
        let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && decimals.is_empty()) || decimals.contains('.') {
            return Err(refuse());
        }
        let (factor, exponent) = factor(suffix).ok_or_else(refuse)?;
        let digits = format!("{whole}{decimals}");
        let digits = digits.trim_start_matches('0');
        // With this many digits, the product with the factor has at most 36 of the 38 digits of
        // the type. The others do not count.
        let n_digits = 35_u32.saturating_sub(factor.ilog10());
        let kept = digits.len().min(usize::try_from(n_digits).map_err(|_| refuse())?);
        let left_out = i32::try_from(digits.len() - kept).map_err(|_| refuse())?;
        let scale = i32::try_from(decimals.len()).map_err(|_| refuse())?;
        let mut value: i128 = digits[..kept].parse().unwrap_or_default();
        if digits[kept..].bytes().any(|it| it != b'0') {
            value += 1;
        }
        let thousandths =
            scaled(value * factor, exponent.saturating_sub(scale).saturating_add(left_out))
                .min(LARGEST);
        Ok(Self(if text.starts_with('-') { -thousandths } else { thousandths }))
    }
}

fn refusal(text: &str) -> InputError {
    InputError::invalid(text, "is not a quantity")
        .remedy("write a number with a suffix of Kubernetes, such as 500m, 4 or 8Gi")
}

/// Returns the thousandths that a suffix stands for, and a power of ten to multiply them with;
/// `None` if Kubernetes has no such suffix.
fn factor(suffix: &str) -> Option<(i128, i32)> {
    if suffix.is_empty() {
        return Some((1000, 0));
    }
    if let Some((_, factor)) = SUFFIXES.iter().find(|(it, _)| *it == suffix) {
        return Some((*factor, 0));
    }
    if let Some((_, power)) = SMALL.iter().find(|(it, _)| *it == suffix) {
        return Some((1, -power));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((1000, exponent))
}

/// Multiplies an amount with a power of ten, at most up to the largest amount, and rounds up.
fn scaled(amount: i128, power: i32) -> i128 {
    let ten = |power: u32| 10_i128.checked_pow(power);
    match power {
        _ if amount == 0 => 0,
        0.. => {
            let product = ten(power.unsigned_abs()).and_then(|it| amount.checked_mul(it));
            product.unwrap_or(LARGEST)
        }
        _ => ten(power.unsigned_abs()).map_or(1, |it| (amount + it - 1) / it),
    }
}

impl FromStr for Quantity {
    type Err = InputError;

    /// Parses a number without sign, with up to three decimals and with one suffix.
    fn from_str(text: &str) -> Result<Self, InputError> {
        let refuse = || refusal(text);
        let suffix = SUFFIXES.iter().find(|(suffix, _)| text.ends_with(suffix));
        let (suffix, factor) = suffix.copied().unwrap_or(("", 1000));
        let number = text.strip_suffix(suffix).unwrap_or(text);
        let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
        let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let is_valid = !whole.is_empty()
            && is_digits(whole)
            && is_digits(decimals)
            && !number.ends_with('.')
            && whole.len() <= MAX_DIGITS
            && decimals.len() <= 3;
        if !is_valid {
            return Err(refuse());
        }
        let scale = 10_i128.pow(u32::try_from(decimals.len()).map_err(|_| refuse())?);
        let digits: i128 = format!("{whole}{decimals}").parse().map_err(|_| refuse())?;
        let scaled = digits * factor;
        // A part of a thousandth has no form here.
        if scaled % scale != 0 {
            return Err(refuse());
        }
        Ok(Self(scaled / scale))
    }
}

impl fmt::Display for Quantity {
    /// Writes the amount in the largest binary unit that divides it, else in whole units or in
    /// thousandths.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = SUFFIXES[..6].iter().rev().find(|(_, factor)| self.0 % factor == 0);
        match binary {
            Some((suffix, factor)) if self.0 > 0 => write!(f, "{}{suffix}", self.0 / factor),
            _ if self.0 % 1000 == 0 => write!(f, "{}", self.0 / 1000),
            _ => write!(f, "{}m", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_and_written_in_canonical_form() {
        for (text, canonical) in [
            ("4", "4"),
            ("0", "0"),
            ("250m", "250m"),
            ("1.5", "1500m"),
            ("2000m", "2"),
            ("8Gi", "8Gi"),
            ("8192Mi", "8Gi"),
            ("1.5Gi", "1536Mi"),
            ("1k", "1000"),
            ("1024", "1Ki"),
            ("1G", "1000000000"),
        ] {
            let canonical_text = text.parse::<Quantity>().map(|it| it.to_string());
            assert_eq!(canonical_text.as_deref(), Ok(canonical), "{text}");
        }
        for text in
            ["", "Gi", "-1", "1.", ".5", "1e3", "1 Gi", "1.0001", "1.5m", "0x1", "9999999999999999"]
        {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
    }

    #[test]
    fn quantities_of_objects_are_read_as_kubernetes_reads_them() {
        for (text, canonical) in [
            ("4", "4"),
            ("+4", "4"),
            ("-4", "-4"),
            (".5", "500m"),
            ("1.", "1"),
            ("1e3", "1000"),
            ("1E3", "1000"),
            ("1E", "976562500000000Ki"),
            ("1.5e-1", "150m"),
            ("0.0001", "1m"),
            ("1n", "1m"),
            ("1500u", "2m"),
            ("0n", "0"),
            ("8192Mi", "8Gi"),
            ("8589934592", "8Gi"),
            ("100Ei", "9223372036854775807"),
            ("1e99", "9223372036854775807"),
            ("1.5e-2147483648", "1m"),
            ("12345678901234567890123456789012345678e2147483647", "9223372036854775807"),
            ("123456789012345678901234567890", "9223372036854775807"),
            ("0.12345678901234567890123", "124m"),
        ] {
            let canonical_text = Quantity::of_object(text).map(|it| it.to_string());
            assert_eq!(canonical_text.as_deref(), Ok(canonical), "{text}");
        }
        for text in ["", ".", "+", "Gi", "1 Gi", "1.2.3", "0x1", "1e", "1e+", "1Kii", "4 ", "--1"] {
            assert!(Quantity::of_object(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn quantities_are_equal_in_every_notation() {
        for (one, other, is_equal) in [
            ("1024", "1Ki", true),
            ("1000m", "1", true),
            ("8Gi", "8589934592", true),
            ("2e3", "2k", true),
            ("1", "1m", false),
        ] {
            let [one, other] = [one, other].map(|it| Quantity::of_object(it).unwrap());
            assert_eq!(one == other, is_equal, "{one} {other}");
        }
    }
}
