//! The environment in which an MPI sends its messages through the provider `taffrail`.
//!
//! What the user has set stays as it is.

use super::installed::Launcher;
use super::{Error, Mpi};
use crate::run;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Once;

/// As libfabric looks for it in the folders of FI_PROVIDER_PATH.
const LIBRARY: &str = "libtaffrail-fi.so";

/// Variables and their values.
type Variables = Vec<(&'static str, OsString)>;

/// What an MPI is to be given.
///
/// # Errors
/// [`Error::NoProvider`] or [`Error::NoProc`] when the library is not where it should be, and the user has chosen no
/// other.
pub fn environment(launcher: &Launcher) -> Result<Variables, Error> {
    let set = |name: &str| std::env::var_os(name).is_some();
    let mut all = Variables::new();
    let choice = launcher.mpi.provider_variable();
    let more = match launcher.mpi {
        Mpi::Mpich => MPICH,
        Mpi::Intel => INTEL,
        Mpi::Open => OPEN_MPI,
    };
    if !set("FI_PROVIDER_PATH") && !set(choice) {
        all.push(("FI_PROVIDER_PATH", folder()?));
    }
    all.push((choice, "taffrail".into()));
    all.extend(more.iter().map(|&(name, value)| (name, value.into())));
    if launcher.mpi == Mpi::Intel {
        all.extend(of_intel(&launcher.path));
    }
    all.retain(|(name, _)| *name == "LD_LIBRARY_PATH" || !set(name));
    say_of_users_folders(&all, &[choice]);
    Ok(all)
}

/// What ranks are given, whatever they are, for their MPI, if any, to use nothing but the provider.
/// An error, where there is none. `sets_apart`: some may be started again, and others not.
pub fn through_provider(sets_apart: bool) -> Result<Variables, Error> {
    let set = |name: &str| std::env::var_os(name).is_some();
    let mut all = Variables::new();
    match folder() {
        Ok(folder) => all.push(("FI_PROVIDER_PATH", folder)),
        Err(_) if set("FI_PROVIDER_PATH") => {}
        Err(why) => return Err(why),
    }
    let choices = [Mpi::Mpich, Mpi::Open].map(Mpi::provider_variable);
    all.extend(choices.map(|choice| (choice, "taffrail".into())));
    // Nothing of its own beside it, unless with another choice of the user's it may have nothing else.
    let windows = if sets_apart { NO_WINDOWS } else { OWN_WINDOWS };
    let alone = [("OMPI_MCA_btl", "self"), ("OMPI_MCA_osc", windows)];
    let alone = if set("OMPI_MCA_pml") { &[] } else { &alone[..] };
    let more = MPICH.iter().chain(INTEL).chain(OPEN_MPI).chain(alone);
    all.extend(more.map(|&(name, value)| (name, value.into())));
    all.retain(|(name, _)| !set(name));
    say_of_users_folders(&all, &choices);
    Ok(all)
}

/// Says once that the provider is in none of the folders that the user has set, if it is chosen by one of `choices`.
fn say_of_users_folders(variables: &[(&'static str, OsString)], choices: &[&'static str]) {
    static SAID: Once = Once::new();
    let Some(path) = std::env::var_os("FI_PROVIDER_PATH") else { return };
    let is_ours = |choice: &&'static str| {
        value(variables, choice).is_some_and(|value| value.to_string_lossy().contains("taffrail"))
    };
    if choices.iter().any(is_ours) && found(variables).is_none() {
        SAID.call_once(|| {
            run::say(&format!(
                "FI_PROVIDER_PATH={}: there is no {LIBRARY}, so MPIs find no provider taffrail; set it to the folder that has it, or do not set it",
                path.to_string_lossy()
            ));
        });
    }
}

/// What ranks find of a variable with these beside those of this process.
fn value(variables: &[(&'static str, OsString)], name: &str) -> Option<OsString> {
    let given = variables.iter().find(|(given, _)| *given == name);
    given.map(|(_, value)| value.clone()).or_else(|| std::env::var_os(name))
}

/// The library of the provider that ranks find with these variables beside those of this process, if they do.
pub fn found(variables: &[(&'static str, OsString)]) -> Option<PathBuf> {
    let path = value(variables, "FI_PROVIDER_PATH")?;
    // Newer versions of libfabric take an @ in front, and files in place of folders.
    let path = OsStr::from_bytes(path.as_bytes().strip_prefix(b"@").unwrap_or(path.as_bytes()));
    let paths: Vec<PathBuf> = std::env::split_paths(path).collect();
    let files = paths.iter().filter(|path| path.ends_with(LIBRARY)).cloned();
    let mut libraries = files.chain(paths.iter().map(|folder| folder.join(LIBRARY)));
    libraries.find(|library| library.is_file())
}

/// Its network module, for neighbours as well; else its own shared memory carries most messages.
const MPICH: &[(&str, &str)] = &[("MPIR_CVAR_CH4_NETMOD", "ofi"), ("MPIR_CVAR_NOLOCAL", "1")];

/// The same, and its collective operations go no other way.
const INTEL: &[(&str, &str)] = &[("I_MPI_FABRICS", "ofi"), ("I_MPI_COLL_INTRANODE", "pt2pt")];

const OPEN_MPI: &[(&str, &str)] = &[("OMPI_MCA_pml", "cm"), ("OMPI_MCA_mtl", "ofi")];

/// No windows of Open MPI's past the provider.
const OWN_WINDOWS: &str = "^rdma,ucx,portals4";

/// None at all: what they tell others is an address, and where Open MPI has its memory depends on how fast
/// its threads are. One that was started again would not know what it is told.
const NO_WINDOWS: &str = "^rdma,ucx,portals4,pt2pt";

/// Where Intel MPI is: its launcher is in bin/, its libraries, to be found before those of the MPI
/// that a program was linked with, in lib/.
fn of_intel(launcher: &Path) -> Variables {
    let Some(root) = launcher.ancestors().nth(2) else { return Variables::new() };
    let mut libraries = OsString::from(root.join("lib"));
    if let Some(more) = std::env::var_os("LD_LIBRARY_PATH").filter(|more| !more.is_empty()) {
        libraries.push(":");
        libraries.push(more);
    }
    vec![("I_MPI_ROOT", root.into()), ("LD_LIBRARY_PATH", libraries)]
}

/// The folder of the library: lib/ beside bin/, where this program is.
fn folder() -> Result<OsString, Error> {
    let program = std::env::current_exe().map_err(|why| Error::NoProc { library: LIBRARY, why })?;
    let prefix = program.ancestors().nth(2).unwrap_or(Path::new("/"));
    let folder = prefix.join("lib");
    let library = folder.join(LIBRARY);
    if library.is_file() { Ok(folder.into()) } else { Err(Error::NoProvider { library }) }
}
