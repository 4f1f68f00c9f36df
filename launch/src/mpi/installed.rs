//! Which MPI is installed, and where its launcher is.

use super::{Error, Mpi, Program, Which};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Names of launchers: those that say whose they are come first.
const NAMES: [&str; 4] = ["mpiexec.openmpi", "mpiexec.mpich", "mpiexec.hydra", "mpiexec"];

/// The launcher of an installed MPI.
pub struct Launcher {
    /// Whose it is.
    pub mpi: Mpi,
    /// The program.
    pub path: PathBuf,
    /// `MPICH 5.0.2`.
    pub version: String,
    /// How it was configured, if it says so.
    options: String,
}

/// Finds the MPI of a program: beside its library, beside the program, in PATH.
///
/// # Errors
/// When none is found, or not the one that is wanted.
pub fn find(program: &Program, which: Which) -> Result<Launcher, Error> {
    let wanted = match which {
        Which::Auto => program.abi.map_or("any MPI", |abi| abi.name()),
        Which::Mpich => Mpi::Mpich.name(),
        Which::Openmpi => Mpi::Open.name(),
        Which::Intel => Mpi::Intel.name(),
    };
    if let Some(abi) = program.abi
        && ![Mpi::Mpich, Mpi::Open, Mpi::Intel].iter().any(|&m| which.is(m) && m.runs(abi))
    {
        let program = program.path.clone();
        return Err(Error::OtherMpi { program, linked: abi.name(), wanted });
    }
    let fits = |launcher: &Launcher| {
        which.is(launcher.mpi) && program.abi.is_none_or(|abi| launcher.mpi.runs(abi))
    };
    let mut launchers = folders(program).into_iter().flat_map(|folder| beside(&folder));
    launchers.find(fits).ok_or(Error::NoMpi { wanted })
}

/// The launchers in a folder; one of several names is there several times.
pub fn beside(folder: &Path) -> impl Iterator<Item = Launcher> + use<> {
    let files = NAMES.map(|name| folder.join(name)).into_iter();
    files.filter(|path| path.is_file()).filter_map(|path| ask(&path))
}

/// Where launchers may be, the likeliest place first.
fn folders(program: &Program) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    // lib/libmpi.so.12 or, on some systems, lib/x86_64-linux-gnu/libmpi.so.12: bin/ is near. Where
    // /lib is /usr/lib, Open MPI wants to be called by its true name.
    let libraries = program.library.iter().filter_map(|file| file.parent()?.canonicalize().ok());
    for library in libraries {
        folders.extend(library.ancestors().skip(1).take(2).map(|folder| folder.join("bin")));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    // Such as that of a virtual environment, whose Python it is; where PATH has it, its order counts.
    folders.extend(
        program.path.parent().filter(|of| !path.contains(&of.to_path_buf())).map(Path::to_owned),
    );
    folders.extend(path);
    folders
}

/// Asks a launcher whose it is.
fn ask(path: &Path) -> Option<Launcher> {
    let output = Command::new(path).arg("--version").stdin(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let (mpi, version, options) = whose(&said)?;
    Some(Launcher { mpi, path: path.into(), version: format!("{} {version}", mpi.name()), options })
}

/// Whose launcher it is that says this of itself, its version, and how it was configured.
fn whose(said: &str) -> Option<(Mpi, String, String)> {
    let after = |what: &str| {
        let rest = said.lines().find_map(|line| line.split_once(what).map(|(_, rest)| rest));
        rest.map(|rest| rest.trim().to_owned())
    };
    let first = said.lines().next()?;
    if first.contains("Intel(R) MPI") {
        let version = after("Version ").unwrap_or_default();
        return Some((Mpi::Intel, version.split(' ').next()?.to_owned(), String::new()));
    }
    if first.contains("HYDRA") {
        return Some((Mpi::Mpich, after("Version:")?, after("Configure options:")?));
    }
    // `mpiexec (OpenRTE) 4.1.4`, `mpirun (Open MPI) 5.0.3`.
    let ours = first.contains("OpenRTE") || first.contains("Open MPI");
    ours.then(|| (Mpi::Open, after(") ").unwrap_or_default(), String::new()))
}

impl Launcher {
    /// Whether its MPI has libfabric in it.
    ///
    /// # Errors
    /// [`Error::NoLibfabric`] when it says that it has not.
    pub fn can_use_providers(&self) -> Result<(), Error> {
        // Where no device is named it is ch4:ofi.
        let device = self.options.split("--with-device=").nth(1);
        let device = device.and_then(|rest| rest.split([' ', '\'']).next());
        match device {
            Some(device) if !device.contains("ofi") => {
                let (version, launcher) = (self.version.clone(), self.path.clone());
                Err(Error::NoLibfabric { version, launcher })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_say_whose_they_are() {
        let hydra = "HYDRA build details:\n    Version:       5.0.2\n    Configure options:    \
                     '--prefix=/usr' '--with-device=ch4:ucx' 'CC=gcc'\n";
        let (mpi, version, options) = whose(hydra).unwrap();
        assert_eq!((mpi, &*version), (Mpi::Mpich, "5.0.2"));
        let launcher = |options: &str| {
            let options = options.to_owned();
            Launcher { mpi, path: "mpiexec".into(), version: version.clone(), options }
        };
        assert!(matches!(launcher(&options).can_use_providers(), Err(Error::NoLibfabric { .. })));
        assert!(launcher("--with-device=ch4:ucx,ofi --x").can_use_providers().is_ok());
        assert!(launcher("'--prefix=/usr'").can_use_providers().is_ok());

        let ompi = whose("mpiexec.openmpi (OpenRTE) 4.1.4\n\nReport bugs to x\n").unwrap();
        assert_eq!((ompi.0, &*ompi.1), (Mpi::Open, "4.1.4"));
        let intel =
            "Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 20260626 (id: x)\n";
        let intel = whose(intel).unwrap();
        assert_eq!((intel.0, &*intel.1), (Mpi::Intel, "2021.18.1"));
        assert!(whose("GNU bash, version 5\n").is_none());
        assert!(whose("").is_none());
    }
}
