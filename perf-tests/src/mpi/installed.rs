//! The MPIs that are here and can use a provider.

use crate::{Error, launching};
use std::path::{Path, PathBuf};
use taffrail_launch::mpi::{Launcher, beside};

/// An MPI that programs can be compiled with.
pub struct Installed {
    /// Its launcher, which knows its version.
    pub launcher: Launcher,
    /// Its compiler.
    pub mpicc: PathBuf,
}

/// What is found, and what is not, in words.
#[derive(Default)]
pub struct Found {
    /// Each of them once.
    pub all: Vec<Installed>,
    /// Why others are left out.
    pub left_out: Vec<String>,
}

/// Where what is measured is installed.
#[derive(Clone, Debug, clap::Args)]
pub struct Places {
    /// Where an MPI is installed, such as a virtual environment; beside those in PATH
    #[arg(long, value_name = "DIR")]
    pub mpi_dir: Vec<PathBuf>,
    /// Where `cargo xtask install` has put Taffrail [default: where this program is installed]
    #[arg(long, value_name = "DIR")]
    pub prefix: Option<PathBuf>,
}

impl Places {
    /// Taffrail's launcher, beside which the provider is installed.
    ///
    /// # Errors
    /// [`Error::Usage`] when one of the two is not there.
    pub fn taffrail(&self) -> Result<PathBuf, Error> {
        let prefix = match &self.prefix {
            Some(prefix) => std::path::absolute(prefix).map_err(Error::file(prefix))?,
            None => {
                let own = launching::own_path()?;
                own.ancestors().nth(2).unwrap_or(Path::new("/")).into()
            }
        };
        let files = [prefix.join("bin/taffrail"), prefix.join("lib/libtaffrail-fi.so")];
        if let Some(file) = files.iter().find(|file| !file.is_file()) {
            return Err(Error::Usage(format!(
                "there is no {}; install Taffrail with `cargo xtask install --prefix \
             DIR` and run DIR/bin/taffrail-perf, or name DIR with --prefix",
                file.display()
            )));
        }
        let [taffrail, _] = files;
        Ok(taffrail)
    }

    /// The MPIs in the folders named, and then those in the search path.
    ///
    /// # Errors
    /// [`Error::Usage`] when one of the folders has none, or there is none at all.
    pub fn mpis(&self) -> Result<Found, Error> {
        let mut found = Found::default();
        let mut seen = Vec::new();
        for folder in &self.mpi_dir {
            let bin = std::path::absolute(folder.join("bin")).map_err(Error::file(folder))?;
            let before = found.all.len();
            look(&bin, &mut seen, &mut found);
            if found.all.len() == before {
                let why = found.left_out.pop().unwrap_or_else(|| "there is no launcher".into());
                return Err(Error::Usage(format!(
                    "--mpi-dir {}: expected an MPI with a launcher and mpicc in bin/, which can use \
                 libfabric, but {why}",
                    folder.display()
                )));
            }
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).for_each(|bin| look(&bin, &mut seen, &mut found));
        if found.all.is_empty() {
            let why: String = found.left_out.iter().map(|why| format!("; {why}")).collect();
            return Err(Error::Usage(format!(
                "no MPI that can use libfabric is here; install one (Debian packages openmpi-bin and \
             libopenmpi-dev; or `pip install mpich` in a virtual environment, named with \
             --mpi-dir){why}"
            )));
        }
        Ok(found)
    }
}

/// Adds the MPIs of a folder; one that is there under several names, or in several folders, once.
fn look(bin: &Path, seen: &mut Vec<PathBuf>, found: &mut Found) {
    for launcher in beside(bin) {
        let mpicc = compiler(&launcher.path);
        // Of a launcher there may be copies, of which each has the same compiler.
        let files = [Some(&launcher.path), mpicc.as_ref()].into_iter().flatten();
        let files: Vec<PathBuf> =
            files.map(|file| file.canonicalize().unwrap_or_else(|_| file.clone())).collect();
        let known = files.iter().any(|file| seen.contains(file));
        seen.extend(files);
        if known {
            continue;
        }
        match (launcher.can_use_providers(), mpicc) {
            (Err(why), _) => found.left_out.push(why.to_string()),
            (Ok(()), None) => found.left_out.push(format!(
                "{} ({}) has no mpicc beside its launcher; install its compiler wrappers (Open \
                 MPI's are in the Debian package libopenmpi-dev)",
                launcher.version,
                launcher.path.display()
            )),
            (Ok(()), Some(mpicc)) => found.all.push(Installed { launcher, mpicc }),
        }
    }
}

/// `mpicc.openmpi` beside `mpiexec.openmpi`, or else `mpicc`.
fn compiler(launcher: &Path) -> Option<PathBuf> {
    let named = launcher.extension().map(|of| launcher.with_file_name("mpicc").with_extension(of));
    let plain = launcher.with_file_name("mpicc");
    named.into_iter().chain([plain]).find(|mpicc| mpicc.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// Something executable that prints a line.
    fn program(bin: &Path, name: &str, says: &str) {
        let path = bin.join(name);
        std::fs::write(&path, format!("#!/bin/sh\necho '{says}'\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    #[test]
    fn an_mpi_is_found_once_with_its_own_compiler() {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path();
        program(bin, "mpiexec.openmpi", "mpiexec.openmpi (OpenRTE) 4.1.4");
        symlink("mpiexec.openmpi", bin.join("mpiexec")).unwrap();
        let (mut seen, mut found) = (Vec::new(), Found::default());
        look(bin, &mut seen, &mut found);
        assert!(
            found.all.is_empty() && found.left_out[0].contains("mpicc"),
            "{:?}",
            found.left_out
        );

        program(bin, "mpicc.openmpi", "");
        symlink("mpicc.openmpi", bin.join("mpicc")).unwrap();
        program(bin, "mpiexec.hydra", "mpiexec.openmpi (OpenRTE) 4.1.4");
        let (mut seen, mut found) = (Vec::new(), Found::default());
        look(bin, &mut seen, &mut found);
        look(bin, &mut seen, &mut found);
        let all: Vec<_> =
            found.all.iter().map(|mpi| (&*mpi.launcher.version, &mpi.mpicc)).collect();
        assert_eq!(all, [("Open MPI 4.1.4", &bin.join("mpicc.openmpi"))]);
        assert!(found.left_out.is_empty(), "{:?}", found.left_out);
    }

    #[test]
    fn a_folder_without_an_mpi_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places { mpi_dir: vec![folder.path().into()], prefix: None };
        let refused = places.mpis().err().unwrap().to_string();
        assert!(refused.contains("there is no launcher"), "{refused}");

        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        let hydra =
            "HYDRA build details:\nVersion: 4.0.2\nConfigure options: --with-device=ch4:ucx";
        program(&bin, "mpiexec", hydra);
        program(&bin, "mpicc", "");
        let refused = places.mpis().err().unwrap().to_string();
        assert!(refused.contains("without libfabric"), "{refused}");
    }
}
