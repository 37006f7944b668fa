//! Quantities of Kubernetes, such as `250m` or `8Gi`.

use std::{fmt, str::FromStr};

use crate::InputError;

/// An amount of a resource, in thousandths of its unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Quantity(i128);

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

impl Quantity {
    /// An amount of whole units.
    pub(crate) const fn whole(units: u32) -> Self {
        Self(units as i128 * 1000)
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
}

impl FromStr for Quantity {
    type Err = InputError;

    /// Parses a number without sign, with up to three decimals and with one suffix.
    fn from_str(text: &str) -> Result<Self, InputError> {
        let refuse = || {
            InputError::invalid(text, "is not a quantity")
                .remedy("write a number with a suffix of Kubernetes, such as 500m, 4 or 8Gi")
        };
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
}
