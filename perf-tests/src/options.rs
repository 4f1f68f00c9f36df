//! Sizes and durations in options: written as everywhere ([`taffrail::units`]).

use std::ops::RangeInclusive;
use taffrail::units::{WrongQuantity, parse_duration, parse_size_in};

/// Reads a size within a range.
pub fn size_in<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, WrongQuantity> + Clone + Send + Sync {
    move |text| {
        let size = parse_size_in(text, range.clone())?;
        T::try_from(size).map_err(|_| WrongQuantity {
            expected: "a size that can be had in memory".into(),
            got: text.to_owned(),
        })
    }
}

/// Reads a size above 0.
///
/// # Errors
/// [`WrongQuantity`] when it is none.
pub fn size<T: TryFrom<u64>>(text: &str) -> Result<T, WrongQuantity> {
    size_in(1..=u64::MAX)(text)
}

/// Reads a duration, as seconds.
///
/// # Errors
/// [`WrongQuantity`] when it is none.
pub fn seconds(text: &str) -> Result<f64, WrongQuantity> {
    parse_duration(text).map(|duration| duration.as_secs_f64())
}

/// Reads a duration within a range of seconds, as whole ones.
pub fn seconds_in(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, WrongQuantity> + Clone + Send + Sync {
    move |text| {
        let seconds = parse_duration(text)?.as_secs();
        match range.contains(&seconds) {
            true => Ok(seconds),
            false => Err(WrongQuantity {
                expected: format!("a duration from {} s to {} s", range.start(), range.end()),
                got: text.to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_in_its_range_and_of_its_type() {
        assert_eq!(size::<usize>("64K"), Ok(65536));
        assert_eq!(size_in::<u64>(0..=8)("0"), Ok(0));
        assert!(size::<u8>("1K").unwrap_err().to_string().ends_with("got 1K"));
        assert!(size_in::<u64>(1..=8)("1K").unwrap_err().to_string().contains("from 1 to 8"));
        assert_eq!((seconds("500ms"), seconds("2")), (Ok(0.5), Ok(2.0)));
        assert!(["-1", "nan", "0", "inf"].iter().all(|text| seconds(text).is_err()));
        assert_eq!(seconds_in(1..=600)("2m"), Ok(120));
        let error = seconds_in(1..=600)("1h").unwrap_err().to_string();
        assert_eq!(error, "expected a duration from 1 s to 600 s, got 1h");
    }
}
