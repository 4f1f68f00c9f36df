//! Where figures come from: written beside every figure that leaves the terminal.

use crate::machine::Machine;
use crate::say;
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, SystemTime};
use taffrail::Tuning;
use taffrail::words::counted;

/// How this program was built.
pub const BUILD: &str = if cfg!(debug_assertions) { "debug" } else { "release" };

/// What a measurement moves in a release build is divided by this: figures of a build for debugging say nothing, and whoever
/// runs it, tests above all, wants to see only that it measures.
pub const DIVISOR: usize = if cfg!(debug_assertions) { 20 } else { 1 };

/// Says that figures of this build are no figures of Taffrail, if it is one for debugging.
pub fn warn_of_debug_build() {
    if BUILD == "debug" {
        say::warn(
            "this is a debug build, several times slower than a release build: its figures say \
             nothing of Taffrail; measure with `cargo run --release --bin taffrail-perf`, or \
             install with `cargo xtask install`",
        );
    }
}

/// Says which tuning profile programs start from.
pub fn say_tuning() {
    match Tuning::in_use() {
        Ok(Some(tuning)) => say::note(format_args!("tuning profile: {}", tuning.provenance())),
        Ok(None) => say::note("tuning profile: none; long messages begin with the usual costs"),
        // Whoever reads it next says so and ends.
        Err(_) => {}
    }
}

/// The command, the build, the machine and the moment of a measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Provenance {
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Version of `taffrail-perf`.
    pub version: &'static str,
    /// `release`, or `debug`: figures of a build without optimisation.
    pub build: &'static str,
    /// The machine's name.
    pub host: String,
    /// Its CPU's model.
    pub cpu: String,
    /// How many CPUs it has.
    pub cpus: usize,
    /// Its kernel.
    pub kernel: String,
    /// Seconds since 1970.
    pub time: u64,
    /// The same as a date.
    pub date: String,
    /// Why the figures are not to be trusted, if so: the machine was busy.
    pub busy: Option<String>,
}

impl Provenance {
    /// This command, on this machine, now.
    pub fn here() -> Provenance {
        let Machine { host, cpu, cpus, kernel } = Machine::here();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let seconds = SystemTime::UNIX_EPOCH + Duration::from_secs(now.as_secs());
        Provenance {
            command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
            version: env!("CARGO_PKG_VERSION"),
            build: BUILD,
            host,
            cpu,
            cpus,
            kernel,
            time: now.as_secs(),
            date: humantime::format_rfc3339_seconds(seconds).to_string(),
            busy: None,
        }
    }

    /// Two lines for people: the machine, the version and the date; and the command.
    pub fn lines(&self) -> [String; 2] {
        let Provenance { version, build, host, cpu, cpus, kernel, date, busy, .. } = self;
        let busy = if busy.is_some() { "; the machine was busy" } else { "" };
        let cpus = counted(*cpus, "CPU");
        let build = if *build == "debug" { ", debug build" } else { "" };
        [
            format!(
                "{host}: {cpu}, {cpus}, Linux {kernel}; Taffrail {version}{build}; {date}{busy}"
            ),
            format!("$ {}", self.command_line()),
        ]
    }

    /// The command as it is typed, without the folder that the program lies in.
    fn command_line(&self) -> String {
        let [program, arguments @ ..] = &self.command[..] else { return String::new() };
        let program = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
        let words = std::iter::once(program.into_owned()).chain(arguments.iter().cloned());
        words.map(quoted).collect::<Vec<_>>().join(" ")
    }
}

/// A word as a shell takes it.
fn quoted(word: String) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./,:=@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_learns_where_figures_come_from() {
        let here = Provenance {
            command: ["/opt/bin/taffrail-perf", "netpipe", "-o", "it's here"]
                .map(String::from)
                .into(),
            ..Provenance::here()
        };
        let [machine, command] = here.lines();
        assert_eq!(command, r"$ taffrail-perf netpipe -o 'it'\''s here'");
        for part in [&*here.host, &here.cpu, &here.kernel, here.version, &here.date] {
            assert!(!part.is_empty() && machine.contains(part), "{part}: {machine}");
        }
        assert_eq!(machine.contains("debug build"), cfg!(debug_assertions));
        let busy = Provenance { busy: Some("the load is 9".into()), ..here.clone() };
        assert_eq!(busy.lines()[0], machine + "; the machine was busy");
        assert!(here.date.starts_with("20") && here.date.ends_with('Z'), "{}", here.date);
    }
}
