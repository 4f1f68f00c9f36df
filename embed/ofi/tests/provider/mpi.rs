//! Under MPI programs. `launch/tests/mpi` has more of them, which are killed.

use crate::program::{Folder, find, printed};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An MPI: its compiler, and a launcher for so many ranks over the provider.
trait Mpi {
    fn compiler(&self) -> PathBuf;
    fn launch(&self, folder: &Folder, ranks: &str) -> Command;
}

struct OpenMpi(PathBuf);

impl Mpi for OpenMpi {
    fn compiler(&self) -> PathBuf {
        self.0.with_file_name("mpicc.openmpi")
    }

    fn launch(&self, folder: &Folder, ranks: &str) -> Command {
        let mut command = folder.run(&self.0);
        command.args(["--oversubscribe", "--mca", "pml", "cm", "--mca", "mtl", "ofi"]);
        command.args(["--mca", "mtl_ofi_provider_include", "taffrail"]);
        command.args(["-x", "FI_PROVIDER_PATH", "-n", ranks]);
        // It starts nothing as root, and a container has no other user.
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command
    }
}

/// The folder where it is installed.
struct Mpich(PathBuf);

impl Mpi for Mpich {
    fn compiler(&self) -> PathBuf {
        self.0.join("bin/mpicc")
    }

    fn launch(&self, folder: &Folder, ranks: &str) -> Command {
        let mut command = folder.run(self.0.join("bin/mpiexec"));
        command.env("FI_PROVIDER", "taffrail").env("MPIR_CVAR_CH4_NETMOD", "ofi");
        command.env("MPIR_CVAR_NOLOCAL", "1").args(["-n", ranks]);
        command
    }
}

fn open_mpi() -> Option<OpenMpi> {
    find("mpicc.openmpi", "libopenmpi-dev")?;
    find("mpirun.openmpi", "openmpi-bin").map(OpenMpi)
}

fn mpich() -> Option<Mpich> {
    let folder = std::env::var_os("TAFFRAIL_TEST_MPICH");
    if folder.is_none() {
        eprintln!("left out: TAFFRAIL_TEST_MPICH does not say where MPICH 5 is installed");
    }
    folder.map(|folder| Mpich(std::path::absolute(Path::new(&folder)).unwrap()))
}

/// Messages from anybody, of three ranks: 2000 and some numbers.
fn any_source(mpi: &impl Mpi, arguments: &[&str]) {
    let folder = Folder::new();
    let program = folder.compile(&mpi.compiler(), "anysource", &[]);
    let said = printed(mpi.launch(&folder, "3").arg(program).args(arguments));
    let total: u64 = (1000..3000).sum();
    assert!(said.contains(&format!("total {total}")), "{said}");
}

fn window(mpi: &impl Mpi) {
    let folder = Folder::new();
    let program = folder.compile(&mpi.compiler(), "window", &[]);
    let said = printed(mpi.launch(&folder, "3").arg(program));
    assert!(said.contains("counted 6"), "{said}");
}

#[test]
fn open_mpi_receives_from_anybody() {
    let Some(mpi) = open_mpi() else { return };
    any_source(&mpi, &[]);
}

#[test]
fn open_mpi_reaches_memory_of_other_ranks() {
    let Some(mpi) = open_mpi() else { return };
    window(&mpi);
}

#[test]
fn mpich_receives_from_anybody() {
    let Some(mpi) = mpich() else { return };
    any_source(&mpi, &["synchronous"]);
}

#[test]
fn mpich_reaches_memory_of_other_ranks() {
    let Some(mpi) = mpich() else { return };
    window(&mpi);
}
