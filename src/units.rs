//! Sizes and durations as people write them, in options and in the environment: `64K`, `1.5GiB`, `10s`,
//! `500ms`. One meaning everywhere: `K`, `KB` and `KiB` are 1024 bytes, in capital or small letters, and a
//! duration without a unit is in seconds.

use std::ops::RangeInclusive;
use std::time::Duration;

/// A size or duration that cannot be what was meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, got {}", if .got.is_empty() { "nothing" } else { .got })]
pub struct WrongQuantity {
    /// What would have been right.
    pub expected: String,
    /// What there was.
    pub got: String,
}

/// The longest duration: a job of a year has no limit.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// A size in bytes, above 0.
///
/// ```
/// use taffrail::units::parse_size;
/// assert_eq!(parse_size("64K"), Ok(65536));
/// assert_eq!(parse_size("64kb"), parse_size("64 KiB"));
/// assert_eq!(parse_size("1.5G"), Ok(3 << 29));
/// ```
///
/// # Errors
/// [`WrongQuantity`] when it is no size, 0, or more than 2^64 - 1 bytes.
pub fn parse_size(text: &str) -> Result<u64, WrongQuantity> {
    parse_size_in(text, 1..=u64::MAX)
}

/// A size in bytes within a range.
///
/// # Errors
/// [`WrongQuantity`] when it is no size, or not in the range.
pub fn parse_size_in(text: &str, range: RangeInclusive<u64>) -> Result<u64, WrongQuantity> {
    let parser = parse_size::Config::new().with_binary();
    // The crate ignores blanks and underscores within numbers, and rounds parts of a byte.
    let number = text.trim();
    let is_one =
        !number.trim_end_matches(char::is_alphabetic).trim_end().contains([' ', '_', 'e', 'E']);
    let is_whole = !number.contains('.') || number.ends_with(char::is_alphabetic);
    // Of more digits than a number has it may panic.
    let digits: String = number.chars().filter(char::is_ascii_digit).collect();
    let is_read = is_one && is_whole && digits.parse::<u64>().is_ok();
    let size = is_read.then(|| parser.parse_size(number).ok()).flatten();
    let size = size.filter(|size| range.contains(size));
    size.ok_or_else(|| {
        let bound = match (*range.start(), *range.end()) {
            (0, u64::MAX) => String::new(),
            (1, u64::MAX) => " above 0".into(),
            (0, most) => format!(" up to {}", format_size(most)),
            (least, most) => format!(" from {} to {}", format_size(least), format_size(most)),
        };
        WrongQuantity {
            expected: format!("a size{bound}, such as 4096, 64K, 1.5M or 2GiB (K is 1024 bytes)"),
            got: text.to_owned(),
        }
    })
}

/// A size as it can be read again, as short as it gets: `64K`.
pub fn format_size(size: u64) -> String {
    let units = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
    let unit = units.into_iter().find(|(bits, _)| size != 0 && size.trailing_zeros() >= *bits);
    unit.map_or_else(|| size.to_string(), |(bits, unit)| format!("{}{unit}", size >> bits))
}

/// A duration in words: `10 s`, `500 ms`.
pub fn format_duration(duration: Duration) -> String {
    match duration.subsec_nanos() {
        0 => format!("{} s", duration.as_secs()),
        _ => format!("{} ms", duration.as_millis()),
    }
}

/// A duration above 0, in seconds where no unit is given.
///
/// ```
/// use std::time::Duration;
/// use taffrail::units::parse_duration;
/// assert_eq!(parse_duration("90"), parse_duration("1m 30s"));
/// assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
/// assert_eq!(parse_duration("1.5h"), Ok(Duration::from_secs(5400)));
/// ```
///
/// # Errors
/// [`WrongQuantity`] when it is no duration, 0, or longer than a year.
pub fn parse_duration(text: &str) -> Result<Duration, WrongQuantity> {
    let number = text.trim();
    let in_seconds = number.ends_with(|last: char| last.is_ascii_digit());
    // The crate takes M for months, which nobody means.
    let parsed = match (in_seconds, number.contains('M')) {
        (true, false) => humantime::parse_duration(&format!("{number}s")).ok(),
        (false, false) => humantime::parse_duration(number).ok(),
        _ => None,
    };
    parsed.filter(|duration| !duration.is_zero() && *duration <= LONGEST).ok_or_else(|| {
        WrongQuantity {
            expected: "a duration above 0, such as 10 (seconds), 500ms, 1.5s, 2m or 1h".into(),
            got: text.to_owned(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read_in_every_way_people_write_them() {
        let (k, m, g) = (1 << 10, 1 << 20, 1 << 30);
        for (text, size) in [
            ("1", 1),
            ("4096", 4096),
            ("64K", 64 * k),
            ("64k", 64 * k),
            ("64KB", 64 * k),
            ("64kb", 64 * k),
            ("64KiB", 64 * k),
            ("64kib", 64 * k),
            ("1m", m),
            ("1MB", m),
            ("1MiB", m),
            ("2G", 2 * g),
            ("1T", 1 << 40),
            ("1.5G", 3 << 29),
            ("0.5K", 512),
            (" 8 M ", 8 * m),
            ("100b", 100),
            ("100B", 100),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_size(text), Ok(size), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            " ",
            "0",
            "0K",
            "-1",
            "-1K",
            "K",
            "many",
            "64Q",
            "64 K K",
            "1 000",
            "1_000",
            "1.5",
            "1,5K",
            "1e3",
            "1e3K",
            "0x10",
            "20E",
            "99999999999G",
            "18446744073709551616",
            "1844674407370955161595",
            "0.1844674407370955161595K",
            "NaN",
            "inf",
            "1.2.3K",
            "6\u{fffd}",
            "٣",
            "+5 -",
            "K64",
        ] {
            let error = parse_size(text).expect_err(text);
            assert_eq!(error.got, text);
            assert!(
                error.to_string().starts_with("expected a size above 0, such as 4096"),
                "{error}"
            );
        }
        assert!(parse_size("").unwrap_err().to_string().ends_with(", got nothing"));
        assert_eq!(parse_size_in("0", 0..=5), Ok(0));
        let error = parse_size_in("2G", 256..=1 << 20).unwrap_err().to_string();
        assert!(
            error.starts_with("expected a size from 256 to 1M,") && error.ends_with("got 2G"),
            "{error}"
        );
    }

    #[test]
    fn durations_are_seconds_or_have_a_unit() {
        for (text, milliseconds) in [
            ("10", 10_000),
            ("10s", 10_000),
            (" 10 s ", 10_000),
            ("10sec", 10_000),
            ("500ms", 500),
            ("0.5", 500),
            ("1.5s", 1500),
            ("2m", 120_000),
            ("2min", 120_000),
            ("1h", 3_600_000),
            ("1h30m", 5_400_000),
            ("1m 30", 90_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in [
            "",
            "0",
            "0s",
            "-1",
            "-1s",
            "s",
            "soon",
            "2M",
            "10x",
            "1e3",
            "99999999999999999999",
            "100y",
            "nan",
        ] {
            let error = parse_duration(text).expect_err(text);
            assert!(
                error.to_string().starts_with("expected a duration above 0, such as 10 (s"),
                "{error}"
            );
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "\\PC{0,12}") {
            let _ = (parse_size(&text), parse_duration(&text));
        }

        #[test]
        fn what_is_formatted_is_read_again(size in 1u64.., bits in 0u32..40) {
            let size = (size >> bits << bits).max(1);
            prop_assert_eq!(parse_size(&format_size(size)), Ok(size));
        }
    }
}
