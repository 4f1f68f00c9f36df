//! Settings of an endpoint.

use crate::engine::EAGER_LIMIT;
use crate::engine::rendezvous_path::RndvPath;
use crate::{Error, Tuning, environment, units};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// Settings of an endpoint. Each can be given in the environment, under the name said with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// `TAFFRAIL_EAGER_MAX`: messages of up to this many bytes are sent without asking the receiver.
    pub eager_max: usize,
    /// `TAFFRAIL_OUTBOX`: the memory that messages leave from grows up to this many bytes.
    pub outbox: usize,
    /// `TAFFRAIL_UNEXPECTED`: when more bytes of one sender wait for receives, it is asked to
    /// announce its messages instead of sending them.
    pub unexpected: usize,
    /// `TAFFRAIL_UNEXPECTED_MAX`: bytes of memory that messages may take here which nobody has received. Peers that
    /// send more wait until some are received. Unset: a quarter of the memory of the node, divided by its ranks.
    pub unexpected_max: Option<usize>,
    /// `TAFFRAIL_PIECE`: longer messages are sent in pieces of this many bytes. Unset: what is best
    /// for the transport.
    pub piece: Option<usize>,
    /// `TAFFRAIL_SPIN`: idle turns before a waiting rank gives its processor away. Unset: many, if
    /// the ranks have a processor each; else few.
    pub spin: Option<u32>,
    /// `TAFFRAIL_CONNECT_TIMEOUT`: how long to wait for the other ranks at the start; a number is in seconds.
    pub patience: Duration,
    /// `TAFFRAIL_TUNING`: the file with what `taffrail-perf tune` has measured of this host, or
    /// `off`. Unset: [`Tuning::default_file`], if it is there. [`from_env`](Self::from_env) takes
    /// `eager_max` from it too, unless that is given.
    pub tuning: Option<Arc<Tuning>>,
    /// `TAFFRAIL_WAY`: the only way that announced messages may come: `read` out of the sender's
    /// memory, in `pieces`, or in pieces `streaming` past the caches. For measurements.
    #[doc(hidden)]
    pub way: Option<RndvPath>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            eager_max: 64 * 1024,
            outbox: 16 << 20,
            unexpected: 64 << 20,
            unexpected_max: None,
            piece: None,
            spin: None,
            patience: Duration::from_secs(30),
            tuning: None,
            way: None,
        }
    }
}

impl Settings {
    /// The defaults, changed by what is in the environment. Sizes and durations are as in [`units`].
    ///
    /// # Errors
    /// [`Error::Setting`] when a value makes no sense, [`Error::Tuning`] when the file with what was
    /// measured makes none.
    pub fn from_env() -> Result<Settings, Error> {
        environment::warn_of_unknown();
        Settings::from_lookup(environment::value)
    }

    /// As [`from_env`](Self::from_env), from elsewhere.
    #[doc(hidden)]
    pub fn from_lookup(look: impl Fn(&str) -> Option<String>) -> Result<Settings, Error> {
        let mut settings = Settings::default();
        if let Some(tuning) = Tuning::look_up(&look)? {
            settings.eager_max = tuning.eager_max;
            settings.tuning = Some(Arc::new(tuning));
        }
        let size = |name, range: RangeInclusive<u64>| {
            look(name).map(|text| named(name, units::parse_size_in(&text, range))).transpose()
        };
        if let Some(n) = size("TAFFRAIL_EAGER_MAX", 0..=EAGER_LIMIT as u64)? {
            settings.eager_max = n as usize;
        }
        if let Some(n) = size("TAFFRAIL_OUTBOX", 0..=1 << 40)? {
            settings.outbox = n as usize;
        }
        if let Some(n) = size("TAFFRAIL_UNEXPECTED", 0..=1 << 50)? {
            settings.unexpected = n as usize;
        }
        let most = size("TAFFRAIL_UNEXPECTED_MAX", 0..=1 << 50)?;
        settings.unexpected_max = most.map(|n| n as usize);
        if let Some(n) = size("TAFFRAIL_PIECE", 0..=1 << 20)? {
            settings.piece = Some((n as usize).max(256));
        }
        if let Some(text) = look("TAFFRAIL_SPIN") {
            let polls = units::parse_size_in(&text, 0..=u64::from(u32::MAX / 2));
            let wrong = |_| Error::Setting {
                name: "TAFFRAIL_SPIN",
                expected: format!("a number of polls up to {}", u32::MAX / 2),
                got: text.clone(),
            };
            settings.spin = Some(polls.map_err(wrong)? as u32);
        }
        if let Some(text) = look("TAFFRAIL_CONNECT_TIMEOUT") {
            settings.patience = named("TAFFRAIL_CONNECT_TIMEOUT", units::parse_duration(&text))?;
        }
        settings.way = match look("TAFFRAIL_WAY").as_deref() {
            None => None,
            Some("read") => Some(RndvPath::Get),
            Some("pieces") => Some(RndvPath::Fragments),
            Some("streaming") => Some(RndvPath::FragmentsNonTemporal),
            Some(other) => {
                return Err(Error::Setting {
                    name: "TAFFRAIL_WAY",
                    expected: "read, pieces or streaming".into(),
                    got: other.into(),
                });
            }
        };
        Ok(settings)
    }
}

/// A value, or what is wrong with this variable.
fn named<T>(name: &'static str, value: Result<T, units::WrongQuantity>) -> Result<T, Error> {
    value.map_err(|units::WrongQuantity { expected, got }| Error::Setting { name, expected, got })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &'static str, value: &'static str) -> Result<Settings, Error> {
        Settings::from_lookup(|n| (n == name).then(|| value.into()))
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(with("TAFFRAIL_OUTBOX", "4m").unwrap().outbox, 4 << 20);
        assert_eq!(with("TAFFRAIL_EAGER_MAX", "8192").unwrap().eager_max, 8192);
        assert_eq!(with("TAFFRAIL_EAGER_MAX", "512KiB").unwrap().eager_max, 512 << 10);
        assert_eq!(with("TAFFRAIL_UNEXPECTED_MAX", "1g").unwrap().unexpected_max, Some(1 << 30));
        assert_eq!(with("TAFFRAIL_CONNECT_TIMEOUT", "7").unwrap().patience.as_secs(), 7);
        assert_eq!(with("TAFFRAIL_CONNECT_TIMEOUT", "2m").unwrap().patience.as_secs(), 120);
        assert_eq!(with("TAFFRAIL_SPIN", "0").unwrap().spin, Some(0));
        assert_eq!(
            with("TAFFRAIL_WAY", "streaming").unwrap().way,
            Some(RndvPath::FragmentsNonTemporal)
        );
        assert_eq!(with("NOTHING", "x").unwrap(), Settings::default());
    }

    #[test]
    fn nonsense_is_named() {
        for (name, value) in [
            ("TAFFRAIL_OUTBOX", "many"),
            ("TAFFRAIL_EAGER_MAX", "2G"),
            ("TAFFRAIL_SPIN", "-1"),
            ("TAFFRAIL_SPIN", "5G"),
            ("TAFFRAIL_CONNECT_TIMEOUT", "0"),
            ("TAFFRAIL_CONNECT_TIMEOUT", "soon"),
            ("TAFFRAIL_PIECE", "4\u{fffd}"),
            ("TAFFRAIL_WAY", "by mail"),
        ] {
            match with(name, value).unwrap_err() {
                Error::Setting { name: said, got, .. } => assert_eq!((said, &*got), (name, value)),
                other => panic!("{other}"),
            }
        }
    }
}
