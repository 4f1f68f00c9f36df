//! The machine that is measured, and whether others use it too.

use crate::limits::Handover;
use crate::{Error, say};
use serde::Serialize;
use std::fmt;
use taffrail::words::counted;

/// Below this many nanoseconds a cache line stays where it is: the two CPUs are one core's.
const ONE_CORE_NS: f64 = 22.0;
/// Above this many nanoseconds a cache line goes to a CPU that shares no cache.
const FAR_NS: f64 = 120.0;
/// No idle machine takes this many nanoseconds for a handover, not even once.
const DISTURBED_NS: f64 = 1000.0;

/// What the machine is.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its name.
    pub host: String,
    /// The CPU's model.
    pub cpu: String,
    /// How many CPUs it has.
    pub cpus: usize,
    /// The kernel's release.
    pub kernel: String,
}

impl Machine {
    /// This one.
    pub fn here() -> Machine {
        let uname = rustix::system::uname();
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let architecture = uname.machine().to_string_lossy();
        Machine {
            host: uname.nodename().to_string_lossy().into_owned(),
            cpu: cpu_model(&text).unwrap_or(&architecture).to_owned(),
            cpus: processors(&text),
            kernel: uname.release().to_string_lossy().into_owned(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { host, cpu, cpus, kernel } = self;
        write!(f, "{host}: {cpu}, {}, Linux {kernel}", counted(*cpus, "CPU"))
    }
}

/// How far two CPUs are from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Distance {
    /// Both are threads of one core.
    OneCore,
    /// They share a cache.
    Near,
    /// They share none.
    Far,
}

impl Distance {
    /// All of them, ascending.
    pub const ALL: [Distance; 3] = [Distance::OneCore, Distance::Near, Distance::Far];

    /// Where a CPU is to which a line goes in `ns` nanoseconds.
    pub fn of(ns: f64) -> Distance {
        match ns {
            ns if ns < ONE_CORE_NS => Distance::OneCore,
            ns if ns > FAR_NS => Distance::Far,
            _ => Distance::Near,
        }
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Distance::OneCore => "one core: all caches shared",
            Distance::Near => "near: a cache shared",
            Distance::Far => "far: no cache shared",
        })
    }
}

/// Why figures taken now are not to be trusted, if so.
pub fn busy(handover: Option<&Handover>) -> Option<String> {
    let cpus = Machine::here().cpus;
    let loads = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    if let Some(load) = overload(&loads, cpus) {
        return Some(format!("the load is {load} on {}", counted(cpus, "CPU")));
    }
    let p99 = handover?.ns.p99;
    (p99 > DISTURBED_NS).then(|| {
        format!("one handover in a hundred takes {:.1} us: CPUs are taken away", p99 / 1e3)
    })
}

/// Prints the handover, and a warning if the machine is busy.
///
/// # Errors
/// [`Error::Output`] when it cannot be printed.
pub fn announce(handover: Option<&Handover>) -> Result<(), Error> {
    if let Some(handover) = handover {
        say::line(format_args!("{handover}, {}", Distance::of(handover.ns.median)))?;
    }
    warn_if_busy(handover);
    Ok(())
}

/// Prints a warning if the machine is busy.
pub fn warn_if_busy(handover: Option<&Handover>) {
    if let Some(reason) = busy(handover) {
        say::warn(format_args!(
            "this machine is busy, figures will be worse than they are: {reason}"
        ));
    }
}

/// The load of the last minute, if it is more than the CPUs can do. A measurement of our own before
/// this one is part of it, and keeps two CPUs.
fn overload(loads: &str, cpus: usize) -> Option<f64> {
    let load: f64 = loads.split_whitespace().next()?.parse().ok()?;
    (load > cpus.max(2) as f64 + 0.5).then_some(load)
}

fn processors(cpuinfo: &str) -> usize {
    cpuinfo.lines().filter(|line| line.starts_with("processor")).count().max(1)
}

fn cpu_model(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Spread;

    #[test]
    fn a_cpu_has_its_model_s_name() {
        let text =
            "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\nflags\t: fpu\nmodel name\t: B\n";
        assert_eq!(cpu_model(text), Some("Some CPU @ 3 GHz"));
        assert_eq!((processors(text), processors("")), (1, 1));
        assert_eq!(cpu_model("processor: 0\n"), None);
        assert!(!Machine::here().cpu.is_empty() && Machine::here().cpus > 0);
    }

    #[test]
    fn more_load_than_cpus_is_too_much() {
        assert_eq!(overload("2.10 1.00 0.50 3/149 15407\n", 2), None);
        assert_eq!(overload("4.26 4.17 5.13 12/149 15407\n", 2), Some(4.26));
        assert_eq!(overload("4.26 4.17 5.13 12/149 15407\n", 16), None);
        assert_eq!(overload("2.10 1.00", 1), None, "our own two ranks");
        assert_eq!(overload("", 2), None);
    }

    #[test]
    fn a_handover_of_microseconds_is_a_disturbed_one() {
        let ns = Spread { median: 50.0, p1: 48.0, p99: 3200.0, samples: 200 };
        let reason = busy(Some(&Handover { ns })).unwrap();
        assert!(reason.contains("3.2 us") || reason.contains("load"), "{reason}");
    }
}
