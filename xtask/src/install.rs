//! `cargo xtask install`: programs, libraries and headers under a prefix.

use crate::command::{answer, cargo, run};
use crate::place::Place;
use crate::report::Outcome;
use serde::Deserialize;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packages of programs.
const PROGRAMS: [&str; 2] = ["taffrail-launch", "taffrail-perf"];

/// The package of the libfabric provider, and the name under which libfabric looks for it.
const PROVIDER: (&str, &str) = ("taffrail-ofi", "libtaffrail-fi.so");

/// The package of the C library, and the name under which linkers look for it.
const C_LIBRARY: (&str, &str) = ("taffrail-c", "libtaffrail.so");

/// What `cargo metadata` tells of the workspace.
#[derive(Deserialize)]
struct Workspace {
    packages: Vec<Package>,
    target_directory: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// How it is built.
#[derive(Clone, Copy, Default)]
pub struct How {
    /// Optimised.
    pub release: bool,
    /// With PMIx, where that is a feature.
    pub pmix: bool,
}

/// Builds what there is, and installs it under `prefix`.
pub fn chore(place: &Place, prefix: &Path, how: How) -> Outcome {
    match install(place, prefix, how) {
        Ok(()) => Outcome::of_check(true, ""),
        Err(e) => {
            println!("{e}");
            Outcome::of_check(false, "nothing, or not all, was installed: see the error above")
        }
    }
}

/// The same, for other chores.
///
/// # Errors
/// What could not be built, read or written.
pub fn install(place: &Place, prefix: &Path, how: How) -> Result<(), Error> {
    let How { release, pmix } = how;
    let prefix = std::path::absolute(prefix)?;
    let workspace = Workspace::read(place)?;
    let wanted = [PROGRAMS[0], PROGRAMS[1], PROVIDER.0];
    let there: Vec<&Package> = wanted.iter().filter_map(|name| workspace.package(name)).collect();

    let mut build = cargo(place, "build --locked");
    build.args(release.then_some("--release"));
    build.args(pmix.then_some("--features=taffrail-perf/pmix"));
    build.args(there.iter().flat_map(|package| ["-p", &package.name]));
    must(&mut build)?;
    let c_package = workspace.package(C_LIBRARY.0);
    if c_package.is_some() {
        // With all its crate types it would be left without the optimisation at link time.
        let mut build = cargo(place, "rustc --locked --lib --crate-type staticlib");
        build.args(release.then_some("--release")).args(pmix.then_some("--features=pmix"));
        must(build.args(["-p", C_LIBRARY.0]))?;
    }

    let built = workspace.target_directory.join(if release { "release" } else { "debug" });
    for name in PROGRAMS {
        for program in workspace.package(name).into_iter().flat_map(|p| p.targets_of("bin")) {
            copy(&built.join(program), &prefix.join("bin").join(program))?;
        }
    }
    match workspace.package(PROVIDER.0) {
        Some(package) => {
            copy(&built.join(package.library()?), &prefix.join("lib").join(PROVIDER.1))?
        }
        None => println!("no {}: there is no package {}", PROVIDER.1, PROVIDER.0),
    }
    match c_package {
        Some(package) => c_library(package, &built, &prefix)?,
        None => println!("no {}: there is no package {}", C_LIBRARY.1, C_LIBRARY.0),
    }
    Ok(())
}

impl Workspace {
    fn read(place: &Place) -> Result<Workspace, Error> {
        let told = answer(&mut cargo(place, "metadata --no-deps --format-version 1 --locked"));
        let told =
            told.ok_or_else(|| Error::other("`cargo metadata` fails: type it to see why"))?;
        Ok(serde_json::from_str(&told)?)
    }

    fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }
}

impl Package {
    fn targets_of(&self, kind: &'static str) -> impl Iterator<Item = &str> {
        let of_kind = move |target: &&Target| target.kind.iter().any(|k| k == kind);
        self.targets.iter().filter(of_kind).map(|target| target.name.as_str())
    }

    /// The file name of its shared library.
    fn library(&self) -> Result<String, Error> {
        let name = self.targets_of("cdylib").next();
        let name = name.ok_or_else(|| Error::other(format!("{} has no cdylib", self.name)))?;
        Ok(format!("lib{}.so", name.replace('-', "_")))
    }

    fn folder(&self) -> &Path {
        self.manifest_path.parent().expect("a file lies in a folder")
    }
}

/// Runs a build.
fn must(build: &mut Command) -> Result<(), Error> {
    if run(build).ok { Ok(()) } else { Err(Error::other("it does not build")) }
}

/// The library with the names by which it is found, its header, and what pkg-config reads.
fn c_library(package: &Package, built: &Path, prefix: &Path) -> Result<(), Error> {
    let lib = prefix.join("lib");
    let versioned = format!("{}.{}", C_LIBRARY.1, package.version);
    let library = lib.join(&versioned);
    make_room(&library)?;
    link_c_library(package.folder(), built, &library)?;
    link(&versioned, &lib.join(C_LIBRARY.1))?;
    if let Some(name) = soname(&library)?.filter(|name| *name != C_LIBRARY.1 && *name != versioned)
    {
        link(&versioned, &lib.join(name))?;
    }
    copy(&package.folder().join("include/taffrail.h"), &prefix.join("include/taffrail.h"))?;
    let template = read(&package.folder().join("taffrail.pc.in"))?;
    let text = template
        .replace("@prefix@", &prefix.to_string_lossy())
        .replace("@version@", &package.version);
    let to = lib.join("pkgconfig/taffrail.pc");
    make_room(&to)?;
    std::fs::write(&to, text)
}

/// Links the shared C library out of the static one in the folder `built`.
///
/// # Errors
/// When that fails.
pub fn link_c_library(package: &Path, built: &Path, library: &Path) -> Result<(), Error> {
    // Why not by cargo: docs/c-api.md, "How the library is linked".
    let mut linker = Command::new("cc");
    linker.arg("-L").arg(built).arg("@link.args").arg("-o").arg(library);
    if run(linker.current_dir(package)).ok {
        return Ok(());
    }
    let name = library.display();
    Err(Error::other(format!("{name} cannot be linked; is a C compiler here?")))
}

/// The name that programs linked with a library look it up by.
fn soname(library: &Path) -> Result<Option<String>, Error> {
    let bytes = std::fs::read(library)?;
    let elf = goblin::elf::Elf::parse(&bytes).map_err(Error::other)?;
    Ok(elf.soname.map(str::to_owned))
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|e| said(path, e))
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    make_room(to)?;
    std::fs::copy(from, to).map_err(|e| said(from, e))?;
    Ok(())
}

fn link(to: &str, at: &Path) -> Result<(), Error> {
    make_room(at)?;
    std::os::unix::fs::symlink(to, at)
}

/// Makes the folder and takes away what is there: a program that runs cannot be written to.
fn make_room(path: &Path) -> Result<(), Error> {
    println!("{}", path.display());
    std::fs::create_dir_all(path.parent().expect("a file lies in a folder"))?;
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(said(path, e)),
        _ => Ok(()),
    }
}

fn said(path: &Path, e: Error) -> Error {
    Error::new(e.kind(), format!("{}: {e}", path.display()))
}
