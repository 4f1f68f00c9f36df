//! `cargo xtask install`: programs, libraries and headers under a prefix.

mod next;
mod put;

use crate::command::{answer, cargo, run};
use crate::place::Place;
use put::Tree;
use serde::Deserialize;
use std::io::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Files at the root of the workspace that go with every copy.
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Packages of programs.
const PROGRAMS: [&str; 2] = ["taffrail-launch", "taffrail-perf"];

/// The package of the libfabric provider, and the name under which libfabric looks for it.
const PROVIDER: (&str, &str) = ("taffrail-ofi", "libtaffrail-fi.so");

/// The package of the static library that the C library is linked from, and the names of its file: as
/// cargo makes it, and as `link.args` has it.
pub const C_STATIC: (&str, &str, &str) =
    ("taffrail-c-static", "libtaffrail_c_static.a", "libtaffrail_c.a");

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
#[derive(Clone, Copy)]
pub enum How {
    /// By itself.
    Alone {
        /// Optimised, and without what only a debugger reads.
        release: bool,
        /// With PMIx, where that is a feature.
        pmix: bool,
    },
    /// Together with all tests, so that nothing is built for a second time.
    WithTests,
}

impl How {
    fn release(self) -> bool {
        matches!(self, How::Alone { release: true, .. })
    }
}

/// Builds what there is, installs it under `prefix`, and says what to type next.
pub fn chore(place: &Place, prefix: &Path, how: How) -> ExitCode {
    let destdir = std::env::var_os("DESTDIR").map(PathBuf::from);
    match Tree::new(prefix, destdir, how.release()).and_then(|tree| into(place, tree, how)) {
        Ok(tree) => {
            let (build, mib) =
                (if how.release() { "release" } else { "debug" }, tree.bytes() >> 20);
            let version = env!("CARGO_PKG_VERSION");
            let prefix = tree.prefix.display();
            println!("\nInstalled: Taffrail {version}, {build} build, {mib} MiB, in {prefix}");
            if tree.is_final() {
                print!("{}", next::lines(&tree, |name| std::env::var_os(name)));
            }
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("nothing, or not all, was installed: {e}");
            ExitCode::FAILURE
        }
    }
}

/// The same, for other chores.
///
/// # Errors
/// What could not be built, read or written.
pub fn install(place: &Place, prefix: &Path, how: How) -> Result<(), Error> {
    into(place, Tree::new(prefix, None, how.release())?, how).map(drop)
}

fn into(place: &Place, mut tree: Tree, how: How) -> Result<Tree, Error> {
    let workspace = Workspace::read(place)?;
    build(place, &workspace, how)?;
    let built = workspace.target_directory.join(if how.release() { "release" } else { "debug" });
    for name in PROGRAMS {
        for program in workspace.package(name).into_iter().flat_map(|p| p.targets_of("bin")) {
            tree.program(&built.join(program), &format!("bin/{program}"))?;
        }
    }
    match workspace.package(PROVIDER.0) {
        Some(package) => {
            tree.program(&built.join(package.library()?), &format!("lib/{}", PROVIDER.1))?;
        }
        None => println!("no {}: there is no package {}", PROVIDER.1, PROVIDER.0),
    }
    match workspace.package(C_LIBRARY.0) {
        Some(package) => c_library(package, &built, &mut tree)?,
        None => println!("no {}: there is no package {}", C_LIBRARY.1, C_LIBRARY.0),
    }
    for name in PROGRAMS {
        for program in workspace.package(name).into_iter().flat_map(|p| p.targets_of("bin")) {
            pages(&built.join(program), &built.join("pages"), &mut tree)?;
        }
    }
    for licence in LICENCES {
        tree.copy(&place.root.join(licence), &format!("share/doc/taffrail/{licence}"))?;
    }
    Ok(tree)
}

fn build(place: &Place, workspace: &Workspace, how: How) -> Result<(), Error> {
    let wanted = [PROGRAMS[0], PROGRAMS[1], PROVIDER.0, C_STATIC.0];
    let there = wanted.iter().filter_map(|name| workspace.package(name));
    let mut build = match how {
        How::WithTests => with_tests(place, "--lib --tests"),
        How::Alone { .. } => cargo(place, "build --locked"),
    };
    if let How::Alone { release, pmix } = how {
        build.args(release.then_some("--release"));
        build.args(pmix.then_some("--features=taffrail-perf/pmix,taffrail-c-static/pmix"));
        build.args(there.flat_map(|package| ["-p", &package.name]));
    }
    // All at once, so that what they share is built once.
    if run(&mut build).ok { Ok(()) } else { Err(Error::other("it does not build")) }
}

/// Builds targets as the tests use them, a test among them: of fewer packages, or without a test, cargo would build all
/// that they depend on once more, with other features.
pub fn with_tests(place: &Place, targets: &str) -> Command {
    cargo(place, &format!("build --locked --workspace {targets}"))
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

/// Manual pages and completions, which a program writes of itself.
fn pages(program: &Path, folder: &Path, tree: &mut Tree) -> Result<(), Error> {
    let _ = std::fs::remove_dir_all(folder);
    if !run(Command::new(program).arg("pages").arg(folder)).ok {
        return Err(Error::other(format!("{} writes no manual pages", program.display())));
    }
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next)? {
            let path = entry?.path();
            match path.strip_prefix(folder) {
                Ok(file) if path.is_file() => tree.copy(&path, &file.to_string_lossy())?,
                _ => folders.push(path),
            }
        }
    }
    Ok(())
}

/// The library with the names by which it is found, its header, and what pkg-config reads.
fn c_library(package: &Package, built: &Path, tree: &mut Tree) -> Result<(), Error> {
    let versioned = format!("{}.{}", C_LIBRARY.1, package.version);
    let library = format!("lib/{versioned}");
    tree.binary(&library, |new| link_c_library(package.folder(), built, new))?;
    tree.link(&versioned, &format!("lib/{}", C_LIBRARY.1))?;
    let name = soname(&tree.path(&library))?;
    if let Some(name) = name.filter(|name| *name != C_LIBRARY.1 && *name != versioned) {
        tree.link(&versioned, &format!("lib/{name}"))?;
    }
    tree.copy(&package.folder().join("include/taffrail.h"), "include/taffrail.h")?;
    let template = package.folder().join("taffrail.pc.in");
    let template = std::fs::read_to_string(&template)
        .map_err(|e| Error::new(e.kind(), format!("{}: {e}", template.display())))?;
    let text = template
        .replace("@prefix@", &tree.prefix.to_string_lossy())
        .replace("@version@", &package.version);
    tree.text(&text, "lib/pkgconfig/taffrail.pc")
}

/// Links the shared C library out of the static one in the folder `built`.
///
/// # Errors
/// When that fails.
pub fn link_c_library(package: &Path, built: &Path, library: &Path) -> Result<(), Error> {
    // Why not by cargo: docs/c-api.md, "How the library is linked".
    let folder = built.join("c-static");
    std::fs::create_dir_all(&folder)?;
    let (made, named) = (built.join(C_STATIC.1), folder.join(C_STATIC.2));
    let _ = std::fs::remove_file(&named);
    std::os::unix::fs::symlink(made, named)?;
    let mut linker = Command::new("cc");
    linker.arg("-L").arg(folder).arg("@link.args").arg("-o").arg(library);
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
