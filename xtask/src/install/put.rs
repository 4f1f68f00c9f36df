//! Putting files where they belong: whole, under their name at once, so that a program that runs keeps the
//! file it was started from.

use std::io::{Error, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A prefix, and the folder that stands for the root of the file system while a package is made.
pub struct Tree {
    /// The prefix that programs will see.
    pub prefix: PathBuf,
    /// `$DESTDIR`; without it, files go to the prefix itself.
    staged: Option<PathBuf>,
    /// Takes from programs and libraries what only a debugger reads.
    strip: bool,
    /// Bytes of the files put so far.
    bytes: u64,
}

impl Tree {
    /// Files go below `prefix`, or below it in `$DESTDIR`.
    pub fn new(prefix: &Path, destdir: Option<PathBuf>, strip: bool) -> Result<Tree, Error> {
        let prefix = std::path::absolute(prefix)?;
        let staged = destdir.filter(|folder| !folder.as_os_str().is_empty());
        let staged = staged.map(std::path::absolute).transpose()?;
        Ok(Tree { prefix, staged, strip, bytes: 0 })
    }

    /// Where a file of the prefix is written.
    pub fn path(&self, file: &str) -> PathBuf {
        let path = self.prefix.join(file);
        match &self.staged {
            Some(root) => root.join(path.strip_prefix("/").unwrap_or(&path)),
            None => path,
        }
    }

    /// Bytes put so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether files go where they are to stay.
    pub fn is_final(&self) -> bool {
        self.staged.is_none()
    }

    /// A program.
    pub fn program(&mut self, from: &Path, file: &str) -> Result<(), Error> {
        self.binary(file, |new| copied(from, new))
    }

    /// A program or a library, made by `make`.
    pub fn binary(
        &mut self,
        file: &str,
        make: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let strip = self.strip;
        self.put(file, 0o755, |new| {
            make(new)?;
            if strip { stripped(new) } else { Ok(()) }
        })
    }

    /// A file for readers.
    pub fn text(&mut self, text: &str, file: &str) -> Result<(), Error> {
        self.put(file, 0o644, |new| std::fs::write(new, text))
    }

    /// One that is copied.
    pub fn copy(&mut self, from: &Path, file: &str) -> Result<(), Error> {
        self.put(file, 0o644, |new| copied(from, new))
    }

    /// A link to a file beside it.
    pub fn link(&mut self, to: &str, file: &str) -> Result<(), Error> {
        let path = self.path(file);
        named(&path, |new| std::os::unix::fs::symlink(to, new))
    }

    fn put(
        &mut self,
        file: &str,
        mode: u32,
        make: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let path = self.path(file);
        named(&path, |new| {
            make(new)?;
            std::fs::set_permissions(new, std::fs::Permissions::from_mode(mode))
        })?;
        self.bytes += path.metadata()?.len();
        Ok(())
    }
}

/// Makes a file beside `path`, and gives it that name when it is complete.
fn named(path: &Path, make: impl FnOnce(&Path) -> Result<(), Error>) -> Result<(), Error> {
    println!("{}", path.display());
    let said = |e: Error| Error::new(e.kind(), format!("{}: {e}", path.display()));
    let folder = path.parent().ok_or_else(|| said(ErrorKind::InvalidInput.into()))?;
    std::fs::create_dir_all(folder).map_err(said)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = folder.join(format!(".{name}.{}", std::process::id()));
    let made = make(&new).and_then(|()| std::fs::rename(&new, path));
    made.map_err(|e| {
        let _ = std::fs::remove_file(&new);
        said(e)
    })
}

fn copied(from: &Path, to: &Path) -> Result<(), Error> {
    let said = |e: Error| Error::new(e.kind(), format!("{}: {e}", from.display()));
    std::fs::copy(from, to).map(drop).map_err(said)
}

/// Without strip(1), which comes with the linker, a file stays as large as it is.
fn stripped(file: &Path) -> Result<(), Error> {
    match Command::new("strip").arg("--strip-unneeded").arg(file).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Error::other(format!("strip ended with {status}"))),
        Err(e) if e.kind() == ErrorKind::NotFound => {
            println!("not stripped: there is no strip (Debian package binutils)");
            Ok(())
        }
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    /// A folder of this test's own.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_program_that_runs_is_replaced_and_goes_on() {
        let folder = folder("running");
        let mut tree = Tree::new(&folder, None, false).unwrap();
        tree.program(Path::new("/bin/cat"), "bin/program").unwrap();
        let mut running = Command::new(tree.path("bin/program"));
        let mut running = running.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        tree.program(Path::new("/bin/true"), "bin/program").unwrap();
        assert!(Command::new(tree.path("bin/program")).status().unwrap().success());
        assert!(running.try_wait().unwrap().is_none(), "it still runs");
        drop(running.stdin.take());
        assert!(running.wait().unwrap().success());
        let files = std::fs::read_dir(folder.join("bin")).unwrap().count();
        assert_eq!(files, 1, "nothing else is left");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_staged_tree_lies_below_its_root_and_a_stripped_program_runs() {
        let root = folder("staged");
        let mut tree = Tree::new(Path::new("/opt/x"), Some(root.clone()), true).unwrap();
        assert_eq!(tree.path("bin/program"), root.join("opt/x/bin/program"));
        let own = std::env::current_exe().unwrap();
        tree.program(&own, "bin/program").unwrap();
        assert!(tree.bytes() > 0 && tree.bytes() < own.metadata().unwrap().len() / 2);
        let mut list = Command::new(tree.path("bin/program"));
        assert!(list.arg("--list").stdout(Stdio::null()).status().unwrap().success());
        for _ in 0..2 {
            tree.link("program", "bin/short").unwrap();
        }
        assert!(!tree.is_final());
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn what_cannot_be_put_is_named_and_leaves_nothing() {
        let folder = folder("nowhere");
        let mut tree = Tree::new(&folder, None, false).unwrap();
        let error = tree.copy(Path::new("/nonexistent/file"), "share/file").unwrap_err();
        assert!(error.to_string().contains("/nonexistent/file: "), "{error}");
        tree.text("a file", "share/file").unwrap();
        let error = tree.text("below a file", "share/file/below").unwrap_err().to_string();
        assert!(error.contains("share/file/below: "), "{error}");
        assert_eq!(std::fs::read_dir(folder.join("share")).unwrap().count(), 1);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
