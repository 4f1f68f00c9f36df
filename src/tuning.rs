//! What was measured of a host, and the file it is kept in.

use crate::engine::EAGER_LIMIT;
use crate::words::counted;
use crate::{Error, environment};
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use taffrail_fabric::Cost;
use taffrail_shm::Costs;

/// The file's version. Version 1, which is read too, does not say when it was measured; files of others
/// are refused.
const VERSION: u32 = 2;
/// Programs may count on it that messages of up to this many bytes leave without a receive, so no
/// file takes that away.
const EAGER_LEAST: usize = 64 * 1024;
const PIECES: std::ops::RangeInclusive<usize> = 4096..=64 * 1024;

/// What `taffrail-perf tune` has measured of a host. It changes how fast messages are, and nothing
/// else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuning {
    version: u32,
    /// When it was measured, as a date of RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<String>,
    /// Who used the machine meanwhile, if it was written all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<String>,
    /// Messages of up to this many bytes are sent without asking the receiver.
    pub eager_max: usize,
    /// Bytes of a piece of a long message.
    pub piece: usize,
    /// What announced messages cost.
    pub announced: Announced,
    /// Where it was read from.
    #[serde(skip)]
    pub file: PathBuf,
}

/// What announced messages cost, size by size, by the way they are moved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Announced {
    /// Sizes, ascending; up to 8.
    pub bytes: Vec<usize>,
    /// Nanoseconds of each size in pieces.
    pub pieces: Vec<f64>,
    /// In pieces that are copied past the caches.
    pub streaming: Vec<f64>,
    /// Read by the kernel out of the sender's memory; `None` where the kernel does not allow it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<Vec<f64>>,
    /// Copied out of memory that sender and receiver share.
    pub mapped: Vec<f64>,
}

impl Tuning {
    /// Figures just measured.
    pub fn new(eager_max: usize, piece: usize, announced: Announced) -> Tuning {
        let (eager_max, piece) = (
            eager_max.clamp(EAGER_LEAST, EAGER_LIMIT),
            piece.clamp(*PIECES.start(), *PIECES.end()),
        );
        let (measured, busy, file) = (None, None, PathBuf::new());
        Tuning { version: VERSION, measured, busy, eager_max, piece, announced, file }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::Tuning`], naming the file and the key that is wrong.
    pub fn read(file: &Path) -> Result<Tuning, Error> {
        let text = std::fs::read_to_string(file)
            .map_err(|e| wrong(file, "the file", format!("could not be read: {e}")))?;
        Tuning::parse(file, &text)
    }

    /// The text of a file with this tuning; `comment` goes above it.
    #[expect(clippy::expect_used, reason = "numbers and lists of numbers are valid TOML")]
    pub fn to_text(&self, comment: &str) -> String {
        let mut text: String =
            comment.lines().map(|line| format!("# {line}").trim_end().to_owned() + "\n").collect();
        text += "\n";
        text += &toml::to_string(self).expect("numbers and lists of them are valid TOML");
        text
    }

    /// The file of this host: `taffrail/<host>.toml` in `$XDG_CONFIG_HOME`, by default `~/.config`.
    /// `None` if there is neither such a variable nor a home.
    pub fn default_file() -> Option<PathBuf> {
        default_file(environment::value)
    }

    /// What `TAFFRAIL_TUNING` and the default file say.
    pub(crate) fn look_up(look: impl Fn(&str) -> Option<String>) -> Result<Option<Tuning>, Error> {
        if let Some(file) = look("TAFFRAIL_TUNING") {
            return if file == "off" { Ok(None) } else { Tuning::read(Path::new(&file)).map(Some) };
        }
        let Some(file) = default_file(look) else { return Ok(None) };
        match std::fs::read_to_string(&file) {
            Ok(text) => Tuning::parse(&file, &text).map(Some),
            Err(e) => {
                if e.kind() != ErrorKind::NotFound {
                    tracing::warn!(file = %file.display(), error = %e, "no tuning: unreadable");
                }
                Ok(None)
            }
        }
    }

    pub(crate) fn parse(file: &Path, text: &str) -> Result<Tuning, Error> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let Versioned { version } = deserialize(file, text)?;
        if !(1..=VERSION).contains(&version) {
            return Err(wrong(file, "version", format!("expected 1 to {VERSION}, got {version}")));
        }
        let tuning: Tuning = deserialize(file, text)?;
        let within = |key: &str, value: usize, range: std::ops::RangeInclusive<usize>| {
            let why = || format!("expected {} to {}, got {value}", range.start(), range.end());
            if range.contains(&value) { Ok(()) } else { Err(wrong(file, key, why())) }
        };
        within("eager_max", tuning.eager_max, EAGER_LEAST..=EAGER_LIMIT)?;
        within("piece", tuning.piece, PIECES)?;
        tuning.announced.costs(tuning.piece).map_err(|(key, why)| {
            let key = format!("announced.{key}");
            wrong(file, &key, why)
        })?;
        Ok(Tuning { file: file.to_path_buf(), ..tuning })
    }

    /// The profile that programs of this environment start from, if there is one.
    ///
    /// # Errors
    /// [`Error::Tuning`], as programs get it.
    pub fn in_use() -> Result<Option<Tuning>, Error> {
        Tuning::look_up(environment::value)
    }

    /// Where it was read from, and when it was measured.
    pub fn provenance(&self) -> String {
        let file = self.file.display();
        let date = match &self.measured {
            Some(date) => format!("measured {date}"),
            None => "measured at an unknown time".into(),
        };
        match &self.busy {
            Some(busy) => format!("{file}, {date} on a busy machine ({busy})"),
            None => format!("{file}, {date}"),
        }
    }

    /// What the transport goes by.
    ///
    /// # Errors
    /// [`Error::Tuning`] when the figures, made by hand, make no sense.
    #[doc(hidden)]
    pub fn costs(&self) -> Result<Costs, Error> {
        self.announced.costs(self.piece).map_err(|(key, why)| wrong(&self.file, key, why))
    }
}

impl Announced {
    fn costs(&self, piece: usize) -> Result<Costs, (&'static str, String)> {
        let table = |key, ns: &[f64]| {
            if ns.len() != self.bytes.len() {
                return Err((
                    key,
                    format!(
                        "{} for {}",
                        counted(ns.len(), "time"),
                        counted(self.bytes.len(), "size")
                    ),
                ));
            }
            let points: Vec<_> = self.bytes.iter().copied().zip(ns.iter().copied()).collect();
            Cost::table(&points).map_err(|bad| (key, bad.to_string()))
        };
        let read = self.read.as_deref().map(|ns| table("read", ns)).transpose()?;
        Ok(Costs {
            outbox: table("pieces", &self.pieces)?,
            streaming: table("streaming", &self.streaming)?,
            kernel: read.unwrap_or(Costs::default().kernel),
            mapped: table("mapped", &self.mapped)?,
            piece,
        })
    }
}

fn default_file(look: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    // The convention says that a relative path is to be ignored.
    let configured = look("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = configured.or_else(|| Some(Path::new(&look("HOME")?).join(".config")))?;
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy();
    Some(folder.join("taffrail").join(format!("{}.toml", host.replace('/', "-"))))
}

fn deserialize<'t, T: Deserialize<'t>>(file: &Path, text: &'t str) -> Result<T, Error> {
    let broken = |e: &toml::de::Error| e.to_string().trim_end().to_owned();
    let parsed =
        toml::Deserializer::parse(text).map_err(|e| wrong(file, "the file", broken(&e)))?;
    serde_path_to_error::deserialize(parsed)
        .map_err(|e| wrong(file, &e.path().to_string(), e.inner().message().to_owned()))
}

fn wrong(file: &Path, key: &str, why: String) -> Error {
    Error::Tuning { file: file.to_path_buf(), key: key.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Tuning {
        let announced = Announced {
            bytes: vec![65536, 1 << 20],
            pieces: vec![4000.0, 64000.0],
            streaming: vec![5000.0, 70000.0],
            read: Some(vec![6000.0, 60000.0]),
            mapped: vec![3000.0, 50000.0],
        };
        Tuning::new(128 << 10, 8192, announced)
    }

    fn looked_up(folder: &Path, tuning: Option<&str>) -> Result<Option<Tuning>, Error> {
        Tuning::look_up(|name| match name {
            "TAFFRAIL_TUNING" => tuning.map(str::to_owned),
            "HOME" => Some(folder.display().to_string()),
            _ => None,
        })
    }

    #[test]
    fn what_is_written_is_read_from_the_default_place_and_from_a_named_one() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(looked_up(folder.path(), None).unwrap(), None, "none is fine");
        let home = Some(folder.path().display().to_string());
        let file = default_file(|name| if name == "HOME" { home.clone() } else { None }).unwrap();
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, measured().to_text("Measured\n\nby hand")).unwrap();
        let expected = Tuning { file: file.clone(), ..measured() };
        assert_eq!(looked_up(folder.path(), None).unwrap(), Some(expected.clone()));
        assert_eq!(looked_up(folder.path(), Some("off")).unwrap(), None);
        let nowhere = Path::new("/nonexistent");
        assert_eq!(looked_up(nowhere, file.to_str()).unwrap(), Some(expected));
        let error = looked_up(nowhere, Some("/nonexistent/a.toml")).unwrap_err().to_string();
        assert!(error.starts_with("/nonexistent/a.toml: the file: could not be read"), "{error}");
    }

    #[test]
    fn a_profile_says_when_it_was_measured_and_an_old_one_is_read() {
        let date = Some("2026-01-02T03:04:05Z".to_owned());
        let busy = Some("rustc (process 7) 98%".to_owned());
        let file = Path::new("host.toml");
        let read = |tuning: Tuning| Tuning::parse(file, &tuning.to_text("")).unwrap();
        let dated = Tuning { measured: date, ..measured() };
        assert_eq!(read(dated.clone()).provenance(), "host.toml, measured 2026-01-02T03:04:05Z");
        let disturbed = read(Tuning { busy, ..dated }).provenance();
        assert!(disturbed.ends_with("on a busy machine (rustc (process 7) 98%)"), "{disturbed}");
        let old = measured().to_text("").replace("version = 2", "version = 1");
        let old = Tuning::parse(file, &old).unwrap().provenance();
        assert_eq!(old, "host.toml, measured at an unknown time");
    }

    #[test]
    fn the_transport_goes_by_what_was_measured() {
        let costs = measured().costs().unwrap();
        assert_eq!((costs.piece, costs.kernel.of(65536)), (8192, 6000.0));
        assert_eq!((costs.outbox.of(65536), costs.streaming.of(65536)), (4000.0, 5000.0));
        assert_eq!(costs.mapped.of(1 << 20).round(), 50000.0);
    }

    #[test]
    fn what_is_broken_is_named() {
        let text = measured().to_text("");
        for (from, to, key, why) in [
            ("version = 2", "version = 3", "version", "expected 1 to 2, got 3"),
            ("version = 2", "", "", "missing field `version`"),
            ("piece = 8192", "piece = \"8K\"", "piece", "invalid type"),
            ("piece = 8192", "piece = 100", "piece", "expected 4096 to 65536, got 100"),
            ("piece = 8192", "peace = 8192", "peace", "unknown field"),
            ("eager_max = 131072", "eager_max = 1024", "eager_max", "expected 65536 to 1048576"),
            ("64000.0", "-1.0", "announced.pieces", "-1 ns for 1048576 bytes"),
            ("64000.0", "true", "announced.pieces[1]", "invalid type"),
            ("[3000.0, 50000.0]", "[3000.0]", "announced.mapped", "1 time for 2 sizes"),
            ("[65536, 1048576]", "[65536, 1]", "announced.read", "sizes must ascend"),
            ("[announced]", "[announced", "the file", "line"),
        ] {
            assert!(text.contains(from), "{text}");
            let file = Path::new("host.toml");
            let error = Tuning::parse(file, &text.replace(from, to)).unwrap_err();
            let Error::Tuning { key: named, .. } = &error else { panic!("{error}") };
            assert!(key.is_empty() || named == key, "{key}: {error}");
            let said = error.to_string();
            assert!(said.starts_with("host.toml: ") && said.contains(why), "{why}: {said}");
        }
    }
}
