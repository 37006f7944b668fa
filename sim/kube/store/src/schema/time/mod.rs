//! Times in Go's form of RFC 3339, with Go's error texts.
//!
//! Follows Go's `time.Parse`, with the layouts of `apimachinery: pkg/apis/meta/v1/time.go` and
//! `micro_time.go`. Accepts times beyond the range of `jiff::Timestamp`, because clients write the
//! end of the year 9999 for "never".

const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
const MICRO_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Start of year 1 in seconds since 1970: Go's zero time.
const ZERO: i64 = -62_135_596_800;
const DAY: i64 = 86_400;

/// A moment, independent of its original time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instant {
    /// Whole seconds since 1970, rounded down.
    seconds: i64,
    nanos: u32,
}

impl Instant {
    /// True for Go's zero time. Without `with_fraction`, the fraction does not matter.
    pub(super) fn is_zero(self, with_fraction: bool) -> bool {
        self.seconds == ZERO && !(with_fraction && self.nanos > 0)
    }

    /// Writes the instant in whole seconds, as Go does; `None` for Go's zero time.
    pub(super) fn in_seconds(self) -> Option<String> {
        (!self.is_zero(false)).then(|| format!("{}Z", self.date()))
    }

    /// Writes the instant in microseconds, as Go does; `None` for Go's zero time.
    pub(super) fn in_micros(self) -> Option<String> {
        (!self.is_zero(true)).then(|| format!("{}.{:06}Z", self.date(), self.nanos / 1000))
    }

    fn date(self) -> String {
        let (days, second) = (self.seconds.div_euclid(DAY), self.seconds.rem_euclid(DAY));
        let (year, month, day) = date_of(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        // The sign is part of the width.
        let width = if year < 0 { 5 } else { 4 };
        format!("{year:0width$}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
    }
}

/// Reads a time with any number of digits after the point, or none.
///
/// # Errors
/// Go's error text for any other text.
pub(crate) fn rfc3339(text: &str) -> Result<Instant, String> {
    Reader { text, layout: LAYOUT, rest: text }.read()
}

/// Reads a time with exactly six digits after the point.
///
/// # Errors
/// Go's error text for any other text.
pub(super) fn rfc3339_micro(text: &str) -> Result<Instant, String> {
    Reader { text, layout: MICRO_LAYOUT, rest: text }.read()
}

struct Reader<'a> {
    text: &'a str,
    layout: &'static str,
    rest: &'a str,
}

impl Reader<'_> {
    fn read(mut self) -> Result<Instant, String> {
        let year = self.digits(4, "2006")?;
        self.literal("-")?;
        let month = self.digits(2, "01")?;
        self.limit("month", (1..=12).contains(&month))?;
        self.literal("-")?;
        let day = self.digits(2, "02")?;
        self.literal("T")?;
        // Go, unlike RFC 3339, accepts an hour of one digit.
        let is_short = !self.rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
        let hour = self.digits(if is_short { 1 } else { 2 }, "15")?;
        self.limit("hour", hour < 24)?;
        self.literal(":")?;
        let minute = self.digits(2, "04")?;
        self.limit("minute", minute < 60)?;
        self.literal(":")?;
        let second = self.digits(2, "05")?;
        self.limit("second", second < 60)?;
        let nanos = self.fraction()?;
        let offset = self.zone()?;
        if !self.rest.is_empty() {
            return Err(format!(
                "parsing time {}: extra text: {}",
                quote(self.text),
                quote(self.rest)
            ));
        }
        // `days_of` turns a day that the month does not have into a day of another month.
        let days = days_of(year, month, day);
        self.limit("day", date_of(days) == (year, month, day))?;
        let seconds = days * DAY + hour * 3600 + minute * 60 + second - offset;
        Ok(Instant { seconds, nanos })
    }

    /// Reads a number of exactly `n` digits. The error names `part` of the layout.
    fn digits(&mut self, n: usize, part: &str) -> Result<i64, String> {
        let found = self.rest.get(..n).and_then(number).ok_or_else(|| self.unreadable(part))?;
        self.rest = &self.rest[n..];
        Ok(found)
    }

    fn literal(&mut self, part: &str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(part).ok_or_else(|| self.unreadable(part))?;
        Ok(())
    }

    /// Reads the fraction in nanoseconds, 0 if absent; ignores digits after the ninth. The layout
    /// with microseconds requires six digits.
    fn fraction(&mut self) -> Result<u32, String> {
        const N_NANO: usize = 9;
        let digits = self.rest.strip_prefix(['.', ',']).unwrap_or_default();
        let n = if self.layout == MICRO_LAYOUT {
            6
        } else {
            digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len())
        };
        let Some(found) = digits.get(..n.min(N_NANO)).and_then(number) else {
            if self.layout == MICRO_LAYOUT {
                return Err(self.unreadable(".000000"));
            }
            return Ok(0);
        };
        self.rest = &digits[n..];
        let power = u32::try_from(N_NANO.saturating_sub(n)).unwrap_or_default();
        Ok(u32::try_from(found * 10_i64.pow(power)).unwrap_or_default())
    }

    /// Reads the time zone, `Z` or an offset, in seconds east of Greenwich. Fails with Go's error
    /// text for any other text, and for more than 24 hours or 60 minutes.
    fn zone(&mut self) -> Result<i64, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let read = |rest: &str| {
            let sign = match rest.as_bytes().first() {
                Some(b'+') => 1,
                Some(b'-') => -1,
                _ => return None,
            };
            let is_split = rest.as_bytes().get(3) == Some(&b':');
            let part = |from: usize| number(rest.get(from..from + 2)?).filter(|_| is_split);
            Some((sign, part(1)?, part(4)?))
        };
        let (sign, hours, minutes) = read(self.rest).ok_or_else(|| self.unreadable("Z07:00"))?;
        // Go allows 60 minutes and 24 hours.
        self.limit("time zone offset minute", minutes <= 60)?;
        self.limit("time zone offset hour", hours <= 24)?;
        self.rest = &self.rest["+00:00".len()..];
        Ok(sign * (hours * 3600 + minutes * 60))
    }

    fn limit(&self, what: &str, is_within: bool) -> Result<(), String> {
        if is_within {
            return Ok(());
        }
        Err(format!("parsing time {}: {what} out of range", quote(self.text)))
    }

    fn unreadable(&self, part: &str) -> String {
        let (text, rest) = (quote(self.text), quote(self.rest));
        format!("parsing time {text} as \"{}\": cannot parse {rest} as \"{part}\"", self.layout)
    }
}

/// Parses at least one digit and nothing else; `None` for any other text, and for a number that
/// does not fit an `i64`.
fn number(text: &str) -> Option<i64> {
    if text.bytes().all(|c| c.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// Quotes a text as Go's messages about times do.
fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            0x20..0x80 => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push('"');
    out
}

/// Returns the days since 1970. Uses the Gregorian calendar for all years. Counts years from March,
/// so that the leap day is their last day.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Inverse of [`days_of`]: year, month and day.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12 + 1;
    (era * 400 + year + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests;
