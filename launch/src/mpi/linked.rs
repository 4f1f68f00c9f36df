//! What a program is linked with.

use super::Error;
use super::needs::Needs;
use crate::search_path::find;
use goblin::elf::Elf;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How programs and libraries begin.
const ELF: &[u8; 4] = b"\x7fELF";

/// Binary interfaces of MPI libraries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Abi {
    /// `libmpi.so.12`, of MPICH and its relatives.
    Mpich,
    /// `libmpi.so.40` and others.
    OpenMpi,
    /// `libmpi_abi.so`, of the MPI 5 standard.
    Standard,
}

impl Abi {
    pub fn name(self) -> &'static str {
        match self {
            Abi::Mpich => "MPICH or one of its relatives",
            Abi::OpenMpi => "Open MPI",
            Abi::Standard => "the standard's ABI",
        }
    }

    /// Of a library with this name, if it is one of MPI.
    fn of(soname: &str) -> Option<Abi> {
        let (name, version) = soname.split_once(".so")?;
        match name {
            "libmpich" => Some(Abi::Mpich),
            "libmpi_abi" => Some(Abi::Standard),
            "libmpi" if version == ".12" => Some(Abi::Mpich),
            "libmpi" => Some(Abi::OpenMpi),
            _ => None,
        }
    }
}

/// A program, and its MPI.
pub struct Program {
    pub path: PathBuf,
    /// Nothing, if it is a script, or loads its MPI later.
    pub abi: Option<Abi>,
    /// The MPI library that the loader finds for it.
    pub library: Option<PathBuf>,
    /// What it needs of its MPI.
    pub needs: Needs,
}

/// Looks at what a command line starts: its first word, or, where that has no MPI, the first program with one
/// among the words behind it, as in `valgrind ./program`. Not behind a launcher, which starts its program itself.
///
/// # Errors
/// When there is no first word, or it cannot be read.
pub fn look_at_command<'a>(words: impl Iterator<Item = &'a OsStr>) -> Result<Program, Error> {
    let mut words = words.peekable();
    let first = look(words.peek().copied().unwrap_or_default())?;
    if first.abi.is_some() {
        return Ok(first);
    }
    let behind = words.take_while(|word| !is_launcher(word)).skip(1).filter(|word| is_elf(word));
    let mut programs = behind.filter_map(|word| look(word).ok());
    Ok(programs.find(|program| program.abi.is_some()).unwrap_or(first))
}

/// Whether a word names a launcher of this or another MPI.
fn is_launcher(word: &OsStr) -> bool {
    let name = Path::new(word).file_name().unwrap_or_default();
    let begins = |with: &&str| name.as_bytes().starts_with(with.as_bytes());
    ["mpirun", "mpiexec", "orterun", "prterun", "prun", "srun", "taffrail"].iter().any(begins)
}

/// Whether a word names a program that is no script. Other files may be long.
fn is_elf(word: &OsStr) -> bool {
    let mut magic = [0; ELF.len()];
    let file = find(word).and_then(|path| std::fs::File::open(path).ok());
    file.is_some_and(|mut file| file.read_exact(&mut magic).is_ok() && magic == *ELF)
}

/// Looks at a program, in PATH if it is a mere name. Of a script, at its interpreter.
///
/// # Errors
/// When there is none, or it cannot be read.
pub fn look(program: &OsStr) -> Result<Program, Error> {
    let path = find(program).ok_or_else(|| Error::NoProgram(program.to_owned()))?;
    let bytes = read(&path)?;
    let Some(interpreter) = interpreter(&bytes) else { return linked(path, &bytes) };
    // Scripts without a MPI of their own: what there is beside the interpreter counts.
    match find(&interpreter) {
        Some(path) => read(&path).and_then(|bytes| linked(path, &bytes)),
        None => Err(Error::NoProgram(interpreter)),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let why = |e: std::io::Error| Error::Unreadable { path: path.into(), why: e.to_string() };
    std::fs::read(path).map_err(why)
}

/// The interpreter that the first line of a script names.
fn interpreter(bytes: &[u8]) -> Option<OsString> {
    let line = bytes.strip_prefix(b"#!")?.split(|&b| b == b'\n').next()?;
    let mut words = line.split(|b| b.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let first = words.next()?;
    let name = match first.ends_with(b"/env") {
        // Its own options come before the name.
        true => words.find(|word| !word.starts_with(b"-"))?,
        false => first,
    };
    Some(OsStr::from_bytes(name).to_owned())
}

fn linked(path: PathBuf, bytes: &[u8]) -> Result<Program, Error> {
    let none = |path, needs| Program { path, abi: None, library: None, needs };
    if !bytes.starts_with(ELF) {
        return Ok(none(path, Needs::default()));
    }
    let elf = Elf::parse(bytes)
        .map_err(|e| Error::Unreadable { path: path.clone(), why: e.to_string() })?;
    // Linked statically, it has an MPI that nobody can tell from outside.
    let Some(loader) = elf.interpreter else { return Ok(none(path, Needs::default())) };
    let imports = elf.dynsyms.iter().filter(|symbol| symbol.is_import());
    let needs = Needs::of(imports.filter_map(|symbol| elf.dynstrtab.get_at(symbol.st_name)));
    // The loader knows where the libraries of libraries are found; it starts nothing.
    let listed = Command::new(loader).arg("--list").arg(&path).output();
    let listed = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let loaded = mpi_of(&listed.unwrap_or_default());
    let named = || elf.libraries.iter().find_map(|name| Some((Abi::of(name)?, None)));
    Ok(match loaded.or_else(named) {
        Some((abi, library)) => Program { path, abi: Some(abi), library, needs },
        None => none(path, needs),
    })
}

/// The MPI library in a list such as `libmpi.so.12 => /lib/libmpi.so.12 (0x7f..)`, line for line.
fn mpi_of(list: &str) -> Option<(Abi, Option<PathBuf>)> {
    list.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let abi = Abi::of(words.next()?)?;
        // Behind the arrow; `not found`, where it is not.
        let at = words.nth(1).filter(|word| word.starts_with('/'));
        Some((abi, at.map(PathBuf::from)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_told_by_the_names_of_libraries() {
        for (name, abi) in [
            ("libmpi.so.12", Some(Abi::Mpich)),
            ("libmpich.so.12", Some(Abi::Mpich)),
            ("libmpi.so.40", Some(Abi::OpenMpi)),
            ("libmpi_abi.so.1", Some(Abi::Standard)),
            ("libmpifort.so.12", None),
            ("libmpi_mpifh.so.40", None),
            ("libc.so.6", None),
            ("linux-vdso", None),
        ] {
            assert_eq!(Abi::of(name), abi, "{name}");
        }
        let list = "\tlinux-vdso.so.1 (0x1)\n\tlibmpi.so.40 => /lib/libmpi.so.40 (0x2)\n";
        assert_eq!(mpi_of(list), Some((Abi::OpenMpi, Some("/lib/libmpi.so.40".into()))));
        assert_eq!(mpi_of("\tlibmpi.so.12 => not found\n"), Some((Abi::Mpich, None)));
        assert_eq!(mpi_of("\tstatically linked\n"), None);
    }

    #[test]
    fn launchers_are_told_by_their_names() {
        for (word, is) in [
            ("mpiexec.hydra", true),
            ("/opt/bin/mpirun", true),
            ("srun", true),
            ("taffrail", true),
            ("./run", false),
            ("valgrind", false),
            ("/opt/mpirun/a", false),
        ] {
            assert_eq!(is_launcher(OsStr::new(word)), is, "{word}");
        }
    }

    #[test]
    fn scripts_name_their_interpreter() {
        let named = |text: &[u8]| interpreter(text).map(|name| name.into_string().unwrap());
        assert_eq!(named(b"#!/bin/sh -e\necho"), Some("/bin/sh".into()));
        assert_eq!(named(b"#! /usr/bin/env -S python3 -u\n"), Some("python3".into()));
        assert_eq!(named(b"#!\n"), None);
        assert_eq!(named(b"\x7fELF"), None);
    }

    #[test]
    fn programs_are_looked_up_like_a_shell_does() {
        assert!(look(OsStr::new("sh")).unwrap().abi.is_none());
        let command = ["sh", "-c", "true", "x=/bin/sh", "/no/such", "/"].map(OsStr::new);
        let found = look_at_command(command.into_iter()).unwrap();
        assert!(
            found.abi.is_none() && found.path.ends_with("sh"),
            "the first, where none has an MPI"
        );
        assert!(matches!(look(OsStr::new("no-such-program")), Err(Error::NoProgram(_))));
        assert!(matches!(look(OsStr::new("./no/such/program")), Err(Error::NoProgram(_))));
    }
}
