//! Single figures of Taffrail, each from a process of its own, like those of other transports.

use crate::{launching, netpipe, rate};
use serde::de::DeserializeOwned;

/// NetPIPE's figure of one size, in microseconds: the best mean of three runs. `more` are arguments
/// of `netpipe`.
pub fn time_us(size: usize, more: &[&str]) -> Result<f64, String> {
    let size = size.to_string();
    let rows: Vec<netpipe::Row> = measure(&["netpipe", "-p", "0", "-l", &size, "-u", &size], more)?;
    rows.first().map(|row| row.time_us).ok_or_else(|| "`netpipe` measured nothing".into())
}

/// Messages of one size a second, of the best of as many runs as NetPIPE has trials. `more` are
/// arguments of `rate`.
pub fn messages_a_second(size: usize, more: &[&str]) -> Result<f64, String> {
    best_rate(|| {
        let size = size.to_string();
        let rows: Vec<rate::Row> = measure(&["rate", "--size", &size, "--seconds", "0.2"], more)?;
        let row = rows.first().ok_or("`rate` measured nothing")?;
        Ok(row.mean_million_a_second * 1e6)
    })
}

/// The best of as many runs as NetPIPE has trials.
pub fn best_rate(rate: impl Fn() -> Result<f64, String>) -> Result<f64, String> {
    (0..netpipe::TRIALS).try_fold(0.0_f64, |best, _| Ok(best.max(rate()?)))
}

/// As [`launching::measure`], with the reason in words.
pub fn measure<R: DeserializeOwned>(arguments: &[&str], more: &[&str]) -> Result<Vec<R>, String> {
    let arguments: Vec<String> = arguments.iter().chain(more).map(|a| (*a).to_owned()).collect();
    launching::measure(&arguments).map_err(|e| e.to_string())
}
