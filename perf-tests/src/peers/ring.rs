//! The ring of the `overcommit` command, in MPI.

use super::mpi::{compile, open_mpi};
use super::running::{find, run};

const SOURCE: &str = include_str!("../../peers/ring.c");

/// Compiles the ring and runs it under Open MPI with more ranks than CPUs, where Open MPI yields
/// instead of spinning; each lap's time in microseconds.
pub fn open_mpi_ring(ranks: u32, seconds: f64) -> Result<Vec<f64>, String> {
    let mpicc = find(&["mpicc.openmpi", "mpicc"], "libopenmpi-dev")?;
    let mpirun = find(&["mpirun.openmpi", "mpirun"], "openmpi-bin")?;
    let folder = tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))?;
    let laps = folder.path().join("laps.json");
    let program = compile(&mpicc, "ring", SOURCE, folder.path())?;
    let mut ring = open_mpi(mpirun);
    ring.args(["-n", &ranks.to_string(), "--oversubscribe", "--bind-to", "none"]);
    run(ring.arg(&program).arg(seconds.to_string()).arg(&laps))?;
    let text = std::fs::read_to_string(&laps).map_err(|e| format!("the ring's laps: {e}"))?;
    serde_json::from_str(&text).map_err(|e| format!("the ring's laps: {e}"))
}
