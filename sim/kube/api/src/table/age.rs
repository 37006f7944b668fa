//! Durations and ages as tables show them.

use jiff::Timestamp;
use serde_json::Value;

/// Time since an instant; `<unknown>` if the value is not an instant.
///
/// After `printers.go: translateTimestampSince`.
pub(super) fn since(instant: &Value, now: Timestamp) -> String {
    match instant.as_str().and_then(|text| text.parse::<Timestamp>().ok()) {
        None => "<unknown>".into(),
        Some(then) => human(now.as_millisecond() - then.as_millisecond()),
    }
}

/// Time from one instant to another; `<unknown>` if one of the values is not an instant.
pub(super) fn between(start: &Value, end: &Value) -> String {
    match end.as_str().and_then(|text| text.parse::<Timestamp>().ok()) {
        None => "<unknown>".into(),
        Some(end) => since(start, end),
    }
}

/// Formats an age in milliseconds for people, in at most two units.
///
/// After `apimachinery: pkg/util/duration`, `HumanDuration`. A negative age above -2 s is `0s`,
/// because clocks may differ; an age of -2 s or less is `<invalid>`.
fn human(milliseconds: i64) -> String {
    let two = |whole: i64, unit: char, rest: i64, small: char| match rest {
        0 => format!("{whole}{unit}"),
        rest => format!("{whole}{unit}{rest}{small}"),
    };
    let seconds = milliseconds / 1000;
    let minutes = seconds / 60;
    let hours = minutes / 60;
    let days = hours / 24;
    match seconds {
        ..-1 => "<invalid>".into(),
        -1 => "0s".into(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => two(days, 'd', hours % 24, 'h'),
        _ if days < 730 => format!("{days}d"),
        _ if days < 2920 => two(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows after upstream's tests of `HumanDuration`, in seconds.
    #[test]
    fn ages_are_printed_like_human_durations_of_go() {
        let (minute, hour, day) = (60, 3600, 86_400);
        for (seconds, want) in [
            (1, "1s"),
            (70, "70s"),
            (190, "3m10s"),
            (70 * minute, "70m"),
            (47 * hour, "47h"),
            (49 * hour, "2d1h"),
            (8 * day + 2 * hour, "8d"),
            (367 * day, "367d"),
            (365 * 2 * day + 25 * day, "2y25d"),
            (365 * 8 * day + 2 * day, "8y"),
            (-1, "0s"),
            (-2, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (599, "9m59s"),
            (600, "10m"),
            (179 * minute + 59, "179m"),
            (180 * minute, "3h"),
            (8 * hour - 1, "7h59m"),
            (8 * hour, "8h"),
            (48 * hour, "2d"),
            (192 * hour - 1, "7d23h"),
            (192 * hour, "8d"),
            (365 * 2 * day, "2y"),
        ] {
            assert_eq!(human(seconds * 1000), want, "{seconds} s");
        }
    }
}
