//! Files of results: checked before anything is measured, written whole, and nothing lost silently.

use crate::{Error, say};
use std::fs::{File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What becomes of a file that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Nothing: it is an error.
    Refuse,
    /// It is replaced.
    Replace,
    /// It is kept under a name with the first number that is free: `np.out.1`.
    Keep,
}

/// A file that is to be written.
#[derive(Clone, Copy, Debug)]
pub struct OutFile<'p> {
    /// Where.
    pub path: &'p Path,
    /// What becomes of one that is there.
    pub existing: Existing,
}

impl OutFile<'_> {
    /// Whether it is standard output: `-`, or the name that the system has for it.
    pub fn is_stdout(&self) -> bool {
        ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].map(Path::new).contains(&self.path)
    }

    /// Whether it was opened before this command began, as by a shell: whether a former file is replaced was
    /// decided then, and what is written goes behind what is there.
    fn is_open(&self) -> bool {
        let folders = ["/dev/fd", "/proc/self/fd"];
        self.is_stdout()
            || self.path == Path::new("/dev/stderr")
            || self.path.parent().is_some_and(|folder| folders.map(Path::new).contains(&folder))
    }

    /// Whether it is a file, or will be one: what is written goes nowhere else.
    fn is_one(&self) -> bool {
        let is_file = |there: std::fs::Metadata| there.is_file();
        !self.is_open() && (self.path.metadata().is_ok_and(is_file) || !self.path.exists())
    }

    /// Whether the contents of both would become one.
    pub fn is_same(&self, other: &OutFile<'_>) -> bool {
        let both_stdout = self.is_stdout() && other.is_stdout();
        both_stdout || (self.path == other.path && self.is_one())
    }

    /// Whether it can be written, as far as can be known before.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot; [`Error::Exists`] when it is there and is to stay.
    pub fn check(&self) -> Result<(), Error> {
        let path = self.path;
        if self.is_stdout() {
            return Ok(());
        }
        match path.metadata() {
            Ok(_) if self.is_open() => return Ok(()),
            Ok(there) if there.is_dir() => {
                return Err(Error::file(path)(ErrorKind::IsADirectory.into()));
            }
            Ok(there) if !there.is_file() => {
                let writable = rustix::fs::access(path, rustix::fs::Access::WRITE_OK);
                return writable.map_err(|e| Error::file(path)(e.into()));
            }
            Ok(_) if self.existing == Existing::Refuse => {
                return Err(Error::Exists { path: path.to_owned() });
            }
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(Error::file(path)(e)),
            Err(_) if path.file_name().is_none() => {
                return Err(Error::file(path)(rustix::io::Errno::NOENT.into()));
            }
            _ => {}
        }
        beside(&resolved(path)).map(drop).map_err(Error::file(path))
    }

    /// Writes it: its readers see the former contents or all of these. What is no file, a terminal for
    /// instance, is written to as it is.
    ///
    /// # Errors
    /// [`Error::File`]: also when there is no room; [`Error::Output`] of standard output.
    pub fn write(&self, contents: &[u8]) -> Result<(), Error> {
        if self.is_stdout() {
            return say::contents(contents);
        }
        self.put(contents).map_err(Error::file(self.path))
    }

    fn put(&self, contents: &[u8]) -> io::Result<()> {
        if self.is_open() {
            return File::options().append(true).open(self.path)?.write_all(contents);
        }
        if self.path.metadata().is_ok_and(|there| !there.is_file()) {
            return File::options().write(true).open(self.path)?.write_all(contents);
        }
        let path = resolved(self.path);
        let mut new = beside(&path)?;
        new.write_all(contents)?;
        // A full disk may be noticed only now.
        new.as_file().sync_all()?;
        // One that came meanwhile is not lost, either.
        if self.existing != Existing::Replace
            && let Some(kept) = keep(&path)?
        {
            let (path, kept) = (self.path.display(), kept.display());
            say::note(format_args!("{path} was there already: it is kept as {kept}"));
        }
        new.persist(path)?;
        Ok(())
    }
}

/// A new file in the folder of `path`, with the permissions that a file gets there.
fn beside(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // What is wrong with the folder is said as such, and not of a new file with a name of its own.
    if !folder.metadata()?.is_dir() {
        return Err(ErrorKind::NotADirectory.into());
    }
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK)?;
    let ordinary = Permissions::from_mode(0o666);
    tempfile::Builder::new().prefix(".taffrail-perf-").permissions(ordinary).tempfile_in(folder)
}

/// The file itself, where the path is of a link to it.
fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Gives a file that is there one more name, and returns it.
fn keep(path: &Path) -> io::Result<Option<PathBuf>> {
    if !path.exists() {
        return Ok(None);
    }
    for number in 1_u32.. {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        match std::fs::hard_link(path, &name) {
            Ok(()) => return Ok(Some(name.into())),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            // Not every file system has files with two names.
            Err(_) => return std::fs::copy(path, &name).map(|_| Some(name.into())),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_that_is_there_is_refused_replaced_or_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = &folder.path().join("np.out");
        let file = |existing| OutFile { path, existing };
        for existing in [Existing::Refuse, Existing::Keep] {
            file(existing).check().unwrap();
        }
        assert!(names(folder.path()).is_empty(), "checks leave nothing");
        file(Existing::Refuse).write(b"first").unwrap();
        let refused = file(Existing::Refuse).check().unwrap_err().to_string();
        assert!(refused.contains("np.out") && refused.contains("--force"), "{refused}");
        file(Existing::Keep).check().unwrap();
        file(Existing::Keep).write(b"second").unwrap();
        file(Existing::Keep).write(b"third").unwrap();
        // It came after the check.
        file(Existing::Refuse).write(b"fourth").unwrap();
        assert_eq!(names(folder.path()), ["np.out", "np.out.1", "np.out.2", "np.out.3"]);
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(["np.out.1", "np.out.2", "np.out"].map(read), ["first", "second", "fourth"]);
        file(Existing::Replace).check().unwrap();
        file(Existing::Replace).write(b"fifth").unwrap();
        assert_eq!((read("np.out"), names(folder.path()).len()), ("fifth".into(), 4));
        let mode = path.metadata().unwrap().permissions().mode();
        assert_ne!(mode & 0o044, 0, "{mode:o}: others may read it as they may any file");
    }

    #[test]
    fn a_link_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "before").unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        let out = OutFile { path: &link, existing: Existing::Replace };
        out.check().unwrap();
        out.write(b"after").unwrap();
        assert_eq!(std::fs::read_link(&link).unwrap(), Path::new("file"));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "after");
    }

    #[test]
    fn what_cannot_be_written_is_named_before() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let long = folder.path().join("n".repeat(300));
        for (path, reason) in [
            (folder.path(), "directory"),
            (Path::new("/nonexistent/rows.json"), "No such file"),
            (&file.join("below"), "Not a directory"),
            (&long, "too long"),
            (Path::new(""), "No such file"),
        ] {
            let out = OutFile { path, existing: Existing::Replace };
            let said = out.check().unwrap_err().to_string();
            assert!(said.starts_with(&format!("{}: ", path.display())), "{said}");
            assert!(said.contains(reason), "{reason}: {said}");
        }
    }

    #[test]
    fn a_full_disk_is_an_error_and_a_device_no_file() {
        let full = OutFile { path: Path::new("/dev/full"), existing: Existing::Refuse };
        full.check().unwrap();
        let said = full.write(b"rows").unwrap_err().to_string();
        assert!(said.starts_with("/dev/full: No space left"), "{said}");
        let nothing = OutFile { path: Path::new("/dev/null"), existing: Existing::Refuse };
        nothing.check().and_then(|()| nothing.write(b"rows")).unwrap();
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
    }
}
