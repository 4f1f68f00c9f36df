//! The program that is measured, compiled by each MPI, and started over each transport.

use super::installed::Installed;
use super::results::What;
use crate::peers::{compile, open_mpi, run};
use crate::provenance::DIVISOR;
use crate::stats::{self, Spread};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use taffrail_launch::NodeOptions;
use taffrail_launch::mpi::Mpi;

const SOURCE: &str =
    concat!(include_str!("../../peers/stay.h"), include_str!("../../peers/pingpong.c"));

/// Batches of a run; their median is the figure of a round.
const BATCHES: &str = "7";
/// About how long one takes.
const SECONDS: &str = "0.02";

/// Bytes in each direction and round trips of one size at the most, where each is timed alone.
const BYTES: usize = (192 << 20) / DIVISOR;
const TRIPS: usize = if DIVISOR > 1 { 100 } else { 4000 };
const TRIPS_MIN: usize = 20;

/// What a user may have set that chooses a transport.
const CHOICES: [&str; 10] = [
    "FI_PROVIDER",
    "FI_PROVIDER_PATH",
    "MPIR_CVAR_CH4_NETMOD",
    "MPIR_CVAR_NOLOCAL",
    "OMPI_MCA_btl",
    "OMPI_MCA_mtl",
    "OMPI_MCA_mtl",
    "OMPI_MCA_mtl_ofi_provider_exclude",
    "OMPI_MCA_mtl_ofi_provider_include",
    "OMPI_MCA_pml",
];

/// Over sockets without Taffrail: what Open MPI has of its own.
const OPEN_MPI_TCP: [(&str, &str); 2] = [("OMPI_MCA_pml", "ob1"), ("OMPI_MCA_btl", "tcp,self")];
/// The same for MPICH: a provider of libfabric, also between ranks that seem to be neighbours.
const MPICH_TCP: [(&str, &str); 3] =
    [("FI_PROVIDER", "tcp"), ("MPIR_CVAR_CH4_NETMOD", "ofi"), ("MPIR_CVAR_NOLOCAL", "1")];

/// The program, compiled by an MPI.
pub struct Program<'a> {
    mpi: &'a Installed,
    /// Where its ranks run, if hosts are named.
    nodes: &'a NodeOptions,
    /// `taffrail`, which knows how to start MPI programs over Taffrail.
    taffrail: &'a Path,
    path: PathBuf,
}

/// A line that it prints, of one batch.
#[derive(Deserialize)]
struct Line {
    figure: f64,
}

impl<'a> Program<'a> {
    /// Compiles it into `folder`.
    ///
    /// # Errors
    /// What the compiler says.
    pub fn new(
        mpi: &'a Installed,
        taffrail: &'a Path,
        nodes: &'a NodeOptions,
        folder: &Path,
    ) -> Result<Self, String> {
        let path = compile(&mpi.mpicc, "pingpong", SOURCE, folder)?;
        Ok(Program { mpi, nodes, taffrail, path })
    }

    /// The median of [`each_us`](Self::each_us).
    ///
    /// # Errors
    /// As there.
    pub fn trip_us(&self, over: What, cpus: (usize, usize), size: usize) -> Result<f64, String> {
        self.each_us(over, cpus, size).map(|time| time.median)
    }

    /// Half of each round trip in microseconds, timed one by one.
    ///
    /// # Errors
    /// Why there is no figure.
    pub fn each_us(&self, over: What, cpus: (usize, usize), size: usize) -> Result<Spread, String> {
        let trips = (BYTES / size).clamp(TRIPS_MIN, TRIPS);
        let mut command = self.over(over, cpus, &trips.to_string());
        Ok(Spread::of(&figures(&run(command.args([&size.to_string(), "each"]))?)?))
    }

    /// Microseconds of half a round trip over a transport, a rank on each of these CPUs; `apart`, out
    /// of another buffer than is received into.
    ///
    /// # Errors
    /// Why there is no figure.
    pub fn time_us(
        &self,
        over: What,
        cpus: (usize, usize),
        size: usize,
        apart: bool,
    ) -> Result<f64, String> {
        let apart = apart.then_some("apart");
        figure(&run(self.over(over, cpus, BATCHES).arg(size.to_string()).args(apart))?)
    }

    /// Messages of [`SHORT`](super::results::SHORT) bytes a second over a transport.
    ///
    /// # Errors
    /// Why there is no figure.
    pub fn rate(&self, over: What, cpus: (usize, usize)) -> Result<f64, String> {
        figure(&run(&mut self.over(over, cpus, BATCHES))?)
    }

    /// The command line, up to the size.
    fn over(&self, over: What, cpus: (usize, usize), batches: &str) -> Command {
        let mut command = self.launcher(over);
        CHOICES.iter().for_each(|choice| _ = command.env_remove(choice));
        if over == What::Shm {
            command.env(self.mpi.launcher.mpi.provider_variable(), "shm");
        }
        if over == What::Own && self.nodes.is_over_nodes() {
            match self.mpi.launcher.mpi {
                Mpi::Open => command.envs(OPEN_MPI_TCP),
                Mpi::Mpich | Mpi::Intel => command.envs(MPICH_TCP),
            };
        }
        let [first, second] = [cpus.0, cpus.1].map(|cpu| cpu.to_string());
        command.arg(&self.path).args([&*first, &*second, batches, SECONDS]);
        command
    }

    /// The launcher with its options.
    fn launcher(&self, over: What) -> Command {
        let (program, options) = match over {
            // Its own launcher is for its own network; so that both have the same hosts, ours starts it.
            What::Own if self.nodes.is_over_nodes() => {
                (self.taffrail, &["run", "-q", "-n", "2"][..])
            }
            What::Own => (&*self.mpi.launcher.path, &["-n", "2"][..]),
            _ => (self.taffrail, &["mpi", "-n", "2"][..]),
        };
        let mut command = open_mpi(program.into());
        command.args(options);
        command.args(over.logging().unwrap_or_default());
        command.args(self.nodes.words());
        command
    }
}

/// The median of the batches.
fn figure(text: &str) -> Result<f64, String> {
    figures(text).map(|figures| stats::median(&figures))
}

/// That of each batch.
fn figures(text: &str) -> Result<Vec<f64>, String> {
    let lines: Result<Vec<Line>, csv::Error> =
        csv::Reader::from_reader(text.as_bytes()).deserialize().collect();
    let lines = lines.map_err(|e| format!("pingpong printed no figures: {e}: {text:?}"))?;
    let figures: Vec<f64> = lines.iter().map(|line| line.figure).collect();
    match figures.is_empty() {
        true => Err(format!("pingpong printed no figures: {text:?}")),
        false => Ok(figures),
    }
}

#[cfg(test)]
mod tests {
    use super::figure;

    #[test]
    fn a_figure_is_the_median_of_its_batches() {
        assert_eq!(figure("figure\n9.5\n0.5\n0.25\n"), Ok(0.5));
    }

    #[test]
    fn what_is_no_figure_is_told() {
        for text in ["", "figure\n", "figure\nfast\n", "a warning\n0.5\n", "figure\n1.0,2.0\n"] {
            let told = figure(text).unwrap_err();
            assert!(told.contains("no figures"), "{text:?}: {told}");
        }
    }
}
