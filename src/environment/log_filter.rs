//! The variables that say what is said on standard error.

use super::value;

/// A value of `TAFFRAIL_LOG` or `FI_TAFFRAIL_LOG` that is no filter.
#[derive(Debug, thiserror::Error)]
#[error(
    "{name}={got}: expected error, warn, info, debug, trace, off or a filter such as taffrail_launch=debug: {why}"
)]
pub struct LogFilterError {
    name: &'static str,
    got: String,
    why: String,
}

/// The filter of what is said on standard error that a variable gives, as `parse` reads it; `None` if the
/// variable is unset or empty. A word by itself has to be a level or a part of Taffrail: tracing-subscriber
/// takes any other for a part, and shows nothing.
///
/// # Errors
/// [`LogFilterError`] when the value is no filter.
pub fn log_filter<F, E: std::fmt::Display>(
    name: &'static str,
    parse: impl FnOnce(&str) -> Result<F, E>,
) -> Result<Option<F>, LogFilterError> {
    let Some(got) = value(name).filter(|text| !text.trim().is_empty()) else { return Ok(None) };
    let read = match got.split(',').map(str::trim).find(|word| is_neither_level_nor_part(word)) {
        Some(word) => Err(format!("{word} is neither a level nor a part of Taffrail")),
        None => parse(&got).map_err(|error| error.to_string()),
    };
    read.map(Some).map_err(|why| LogFilterError { name, got, why })
}

fn is_neither_level_nor_part(word: &str) -> bool {
    let is_level = word.parse::<tracing::level_filters::LevelFilter>().is_ok();
    let is_longer = word.contains(['=', '[', ']', '{', '}']);
    !(word.is_empty() || is_level || is_longer || word.starts_with("taffrail"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_levels_and_parts_of_taffrail() {
        for word in ["warn", "WARN", "off", "3", "taffrail_launch", "taffrail::engine", "a=debug"] {
            assert!(!is_neither_level_nor_part(word), "{word}");
        }
        for word in ["nonsense", "verbose", "launch", "7"] {
            assert!(is_neither_level_nor_part(word), "{word}");
        }
    }
}
