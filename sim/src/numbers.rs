//! Numbers of steps, as a command line names them.

use std::fmt;
use std::str::FromStr;

/// Numbers in ascending order, written as ranges: `0-17,20`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers(pub Vec<usize>);

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|one, next| one + 1 == *next);
        for (nth, run) in runs.enumerate() {
            let comma = if nth == 0 { "" } else { "," };
            match run {
                [one] => write!(f, "{comma}{one}")?,
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

impl FromStr for Numbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |part: &str| format!("expected numbers like 0-17,20, got {part}");
        let mut numbers = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            match (first.parse::<usize>(), last.parse::<usize>()) {
                (Ok(first), Ok(last)) if last - first.min(last) < 1 << 20 => {
                    numbers.extend(first..=last);
                }
                _ => return Err(wrong(part)),
            }
        }
        match numbers.is_sorted_by(|one, next| one < next) {
            true => Ok(Numbers(numbers)),
            false => Err(wrong(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for text in ["0", "0-17,20", "3,5-6,8-100"] {
            assert_eq!(text.parse::<Numbers>().unwrap().to_string(), text);
        }
        assert_eq!("0-2,3".parse::<Numbers>().unwrap().0, [0, 1, 2, 3]);
        for text in ["", "x", "3-", "5,4", "1,1", "0-99999999"] {
            assert!(text.parse::<Numbers>().is_err(), "{text}");
        }
    }
}
