//! MPI programs over the MPIs' own sockets.

use super::results::What;
use crate::launching;
use crate::mpi::{Installed, Places, Program, Transport};
use crate::stats::Spread;
use std::path::{Path, PathBuf};
use taffrail_launch::NodeOptions;
use taffrail_launch::mpi::Mpi;

/// The MPIs that are here, as far as one is of a kind.
pub struct Mpis(Result<Vec<Installed>, String>);

/// The program that each has compiled.
pub struct Programs<'a>(Vec<(What, Result<Program<'a>, String>)>);

/// The launcher, which has to be beside this program.
pub fn launcher() -> Result<PathBuf, String> {
    let own = launching::own_path().map_err(|e| e.to_string())?;
    let taffrail = own.with_file_name("taffrail");
    match taffrail.is_file() {
        true => Ok(taffrail),
        false => Err(format!(
            "there is no {}, which starts programs of MPI on these hosts; install Taffrail with `cargo xtask install`",
            taffrail.display()
        )),
    }
}

impl Mpis {
    /// Those in these folders, and in PATH.
    pub fn find(folders: &[PathBuf]) -> Mpis {
        let places = Places { mpi_dir: folders.to_vec(), prefix: None };
        Mpis(places.mpis().map(|found| found.all).map_err(|e| e.to_string()))
    }

    fn of(&self, kind: Mpi) -> Result<&Installed, String> {
        let all = self.0.as_ref().map_err(Clone::clone)?;
        let one = all.iter().find(|mpi| mpi.launcher.mpi == kind);
        one.ok_or_else(|| {
            format!(
                "no {} that can use libfabric is here; name its folder with --mpi-dir",
                kind.name()
            )
        })
    }

    /// Compiles the program with each.
    pub fn compile<'a>(
        &'a self,
        taffrail: &'a Result<PathBuf, String>,
        nodes: &'a NodeOptions,
        folder: &Path,
    ) -> Programs<'a> {
        let compile = |(what, kind): (What, Mpi)| {
            let folder = folder.join(kind.name().replace(' ', "-"));
            let program = || {
                let taffrail = taffrail.as_ref().map_err(Clone::clone)?;
                std::fs::create_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
                Program::new(self.of(kind)?, taffrail, nodes, &folder)
            };
            (what, program())
        };
        Programs([(What::OpenMpi, Mpi::Open), (What::Mpich, Mpi::Mpich)].map(compile).into())
    }

    /// Each with its version.
    pub fn versions(&self) -> Vec<String> {
        let kinds = [Mpi::Open, Mpi::Mpich].map(|kind| self.of(kind));
        kinds.into_iter().flatten().map(|mpi| mpi.launcher.version.clone()).collect()
    }
}

impl Programs<'_> {
    /// What they are.
    pub fn all(&self) -> Vec<What> {
        self.0.iter().map(|(what, _)| *what).collect()
    }

    /// Half of each round trip in microseconds.
    pub fn each_us(&self, what: What, cpus: (usize, usize), size: usize) -> Result<Spread, String> {
        let program = self.0.iter().find(|(of, _)| *of == what).map(|(_, program)| program);
        match program {
            Some(Ok(program)) => program.each_us(Transport::Own, cpus, size),
            Some(Err(why)) => Err(why.clone()),
            None => Err("it was not compiled".into()),
        }
    }
}
