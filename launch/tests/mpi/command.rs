//! `taffrail mpi` with launchers that only say whose they are and what they are told.

use super::*;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A folder with launchers, and a provider.
struct Installed {
    folder: tempfile::TempDir,
}

const OPEN_MPI: &str = "mpiexec (OpenRTE) 4.1.4";
const MPICH: &str = "HYDRA build details:\n    Version:   5.0.2\n    Configure options:   --with-device=ch4:ucx,ofi";
const OLD_MPICH: &str =
    "HYDRA build details:\n    Version:   4.0.2\n    Configure options:   '--with-device=ch4:ucx'";
const INTEL: &str = "Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 1 (id: 1)";

impl Installed {
    fn new(launchers: &[(&str, &str)]) -> Installed {
        let folder = tempfile::tempdir().unwrap();
        let all = Installed { folder };
        std::fs::create_dir(all.path("bin")).unwrap();
        for (name, said) in launchers {
            let show = "echo path=$FI_PROVIDER_PATH; echo provider=$FI_PROVIDER \
                        $OMPI_MCA_mtl_ofi_provider_include; printf '<%s>' \"$@\"; exit 7";
            all.script(
                &format!("bin/{name}"),
                &format!("[ \"$1\" = --version ] && {{ echo \"{said}\"; exit 0; }}; {show}"),
            );
        }
        std::fs::copy("/bin/true", all.path("bin/program")).unwrap();
        std::fs::write(all.path("libtaffrail-fi.so"), "").unwrap();
        all
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn script(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::write(&path, format!("#!/bin/bash\n{text}\n")).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// `taffrail` where nothing else is installed.
    fn taffrail(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_taffrail"));
        command.args(args).env("PATH", self.path("bin")).stdin(Stdio::null());
        for name in CHOICES {
            command.env_remove(name);
        }
        command.env("FI_PROVIDER_PATH", self.folder.path());
        command
    }
}

const CHOICES: [&str; 4] =
    ["FI_PROVIDER", "FI_PROVIDER_PATH", "OMPI_MCA_mtl_ofi_provider_include", "MPIR_CVAR_NOLOCAL"];

#[test]
fn the_launcher_of_the_mpi_is_told_what_it_needs_and_its_status_is_ours() {
    let all = Installed::new(&[("mpiexec", MPICH)]);
    let job = ended(&mut all.taffrail(&["mpi", "-n", "3", "program", "a b", "--label"]));
    assert_eq!(job.status, Some(7), "{job:?}");
    let path = all.folder.path().display();
    let said = format!("path={path}\nprovider=taffrail\n<-n><3><program><a b><--label>");
    assert_eq!(job.out, said);
    assert!(
        job.err.contains("MPICH 5.0.2, started by") && job.err.contains("FI_PROVIDER=taffrail")
    );
}

#[test]
fn a_dry_run_prints_a_line_that_a_shell_can_run() {
    let all = Installed::new(&[("mpiexec", OPEN_MPI)]);
    let dry = ended(&mut all.taffrail(&["mpi", "-n", "2", "--dry-run", "program", "it's", "a b"]));
    assert_eq!((dry.status, &*dry.err), (Some(0), ""), "{dry:?}");
    assert!(dry.out.starts_with("env OMPI_MCA_mtl_ofi_provider_include=taffrail"), "{dry:?}");
    let mut shell = Command::new("/bin/bash");
    let typed = ended(shell.arg("-c").arg(&dry.out).env("FI_PROVIDER_PATH", all.folder.path()));
    let run = ended(&mut all.taffrail(&["mpi", "-n", "2", "program", "it's", "a b"]));
    assert_eq!((typed.status, typed.out), (run.status, run.out));
}

/// A program whose loader is to find a library of this name.
fn linked_with(library: &str, all: &Installed) -> PathBuf {
    let (source, library, program) = (all.path("a.c"), all.path(library), all.path("linked"));
    std::fs::write(&source, "int main(void) { return 0; }").unwrap();
    let name = format!("-Wl,-soname,{}", library.file_name().unwrap().display());
    let compile = |what: &[&std::ffi::OsStr]| {
        let status = Command::new("cc").args(what).arg(&source).status();
        assert!(status.expect("a C compiler is installed").success());
    };
    compile(&["-shared".as_ref(), name.as_ref(), "-o".as_ref(), library.as_ref()]);
    let linked = ["-Wl,--no-as-needed".as_ref(), library.as_ref()];
    compile(&[&["-o".as_ref(), program.as_ref()], &linked[..]].concat());
    program
}

#[test]
fn behind_another_program_the_first_that_has_an_mpi_decides() {
    let all = Installed::new(&[("mpiexec.openmpi", OPEN_MPI), ("mpiexec.mpich", MPICH)]);
    let program = linked_with("libmpi.so.12", &all);
    let program = program.to_str().unwrap();
    let dry = |words: &[&str]| {
        let start = ["mpi", "-n", "1", "--dry-run"];
        ended(&mut all.taffrail(&[&start, words].concat())).out
    };
    for words in [&["program", "-q", "--", program][..], &["program", "program", program]] {
        let out = dry(words);
        assert!(out.contains("FI_PROVIDER=taffrail") && out.contains("mpiexec.mpich"), "{out}");
    }
    // A launcher starts its program itself.
    for words in
        [&["program"][..], &["program", "mpiexec.mpich", program], &["program", "/no/such"]]
    {
        let out = dry(words);
        assert!(out.contains("mpiexec.openmpi"), "{out}");
    }
}

#[test]
fn what_the_user_has_set_stays() {
    let all = Installed::new(&[("mpiexec", MPICH)]);
    let mut command = all.taffrail(&["mpi", "-n", "1", "--dry-run", "program"]);
    let dry = ended(command.env("FI_PROVIDER", "tcp").env("MPIR_CVAR_NOLOCAL", "0"));
    assert!(dry.out.starts_with("env MPIR_CVAR_CH4_NETMOD=ofi "), "{dry:?}");
    let line = "taffrail: Taffrail is not used: FI_PROVIDER=tcp in the environment keeps MPICH from it; unset \
                it, or set FI_PROVIDER=taffrail\n";
    assert_eq!(dry.err, line);
}

#[test]
fn what_nothing_reads_is_said_by_the_launcher_and_not_by_ranks_again() {
    let all = Installed::new(&[("mpiexec", MPICH)]);
    let mut command = all.taffrail(&["mpi", "-np", "2", "program"]);
    let job = ended(command.env("FI_TAFFRAIL_EAGERMAX", "1M"));
    let line = "taffrail: the variable FI_TAFFRAIL_EAGERMAX is set, and nothing reads it; did you mean \
                FI_TAFFRAIL_EAGER_MAX?";
    assert_eq!(job.err.lines().filter(|said| *said == line).count(), 1, "{job:?}");
    assert_eq!(job.out.lines().last(), Some("<-n><2><program>"), "{job:?}");
    let quiet = ended(&mut all.taffrail(&["mpi", "-q", "-np", "2", "program"]));
    assert_eq!((quiet.status, &*quiet.err), (Some(7), ""), "{quiet:?}");
}

#[test]
fn the_mpi_is_chosen_among_those_installed() {
    let all = Installed::new(&[
        ("mpiexec.openmpi", OPEN_MPI),
        ("mpiexec.mpich", MPICH),
        ("mpiexec.hydra", INTEL),
    ]);
    for (mpi, launcher) in [
        ("auto", "mpiexec.openmpi"),
        ("openmpi", "mpiexec.openmpi"),
        ("mpich", "mpiexec.mpich"),
        ("intel", "mpiexec.hydra"),
    ] {
        let args = ["mpi", "-n", "1", "--mpi", mpi, "--dry-run", "program"];
        let dry = ended(&mut all.taffrail(&args));
        assert!(dry.out.contains(&format!("/bin/{launcher} -n 1 program")), "{mpi}: {dry:?}");
    }
    let dry = ended(&mut all.taffrail(&["mpi", "-n", "1", "--mpi=intel", "--dry-run", "program"]));
    let lib = all.path("lib");
    assert!(dry.out.contains(&format!("LD_LIBRARY_PATH={}", lib.display())), "{dry:?}");
}

#[test]
fn with_options_of_taffrail_run_that_is_what_starts_it() {
    let all = Installed::new(&[("mpiexec", MPICH)]);
    let line = ["mpi", "-n", "2", "--dry-run", "--mpi", "mpich", "--logging", "pessimistic"];
    let dry = ended(&mut all.taffrail(&[&line[..], &["program", "x"]].concat()));
    let run =
        format!("{} run -n 2 --logging pessimistic program x", env!("CARGO_BIN_EXE_taffrail"));
    assert!(dry.out.ends_with(&format!(" {run}\n")), "{dry:?}");
    let open_mpi = Installed::new(&[("mpiexec", OPEN_MPI)]);
    let dry = ended(&mut open_mpi.taffrail(&["mpi", "-n", "2", "--dry-run", "--label", "program"]));
    assert!(dry.out.contains(" run --pmix -n 2 --label program\n"), "{dry:?}");
    let mut command =
        all.taffrail(&["mpi", "-n", "2", "--label", "bash", "-c", "echo $FI_PROVIDER"]);
    let path = std::env::join_paths([all.path("bin").as_path(), Path::new("/bin")]).unwrap();
    let job = ended(command.env("PATH", path));
    assert_eq!(
        (job.status, job.lines()),
        (Some(0), vec!["[0] taffrail", "[1] taffrail"]),
        "{job:?}"
    );
}

#[test]
fn what_cannot_be_is_said_in_one_line() {
    let none = Installed::new(&[]);
    let ompi = Installed::new(&[("mpiexec", OPEN_MPI)]);
    let old = Installed::new(&[("mpiexec", OLD_MPICH)]);
    let refused = |all: &Installed, args: &[&str], why: &str| {
        let line = [&["mpi", "-n", "2"], args].concat();
        let job = ended(&mut all.taffrail(&line));
        assert!(job.err.contains(why) && job.err.lines().count() == 1, "{line:?}: {job:?}");
        assert!(job.out.is_empty() && job.status != Some(0), "{line:?}: {job:?}");
    };
    refused(&none, &["program"], "no launcher of any MPI was found");
    refused(&none, &["no-such-program"], "no program \"no-such-program\"");
    refused(&ompi, &["--mpi", "mpich", "program"], "no launcher of MPICH was found");
    refused(&old, &["program"], "MPICH 4.0.2");
    let mut command = ompi.taffrail(&["mpi", "-n", "2", "program"]);
    let job = ended(command.env_remove("FI_PROVIDER_PATH"));
    // Not where this program is.
    assert!(job.err.contains("lib/libtaffrail-fi.so; install it with"), "{job:?}");
}

/// The folders are the user's: the MPI is started, after a line, unless another provider is wanted of them.
#[test]
fn folders_of_the_user_without_the_provider_are_named() {
    let all = Installed::new(&[("mpiexec", MPICH)]);
    let said = |path: &str, provider: Option<&str>| {
        let mut command = all.taffrail(&["mpi", "-n", "2", "program"]);
        command.env("FI_PROVIDER_PATH", path);
        provider.map(|name| command.env("FI_PROVIDER", name));
        let job = ended(&mut command);
        assert_eq!(job.status, Some(7), "{job:?}");
        job.err.matches("there is no libtaffrail-fi.so").count()
    };
    let folder = all.folder.path().display();
    assert_eq!(said("/usr", None), 1);
    assert_eq!(said("/nonexistent:/usr", Some("taffrail")), 1);
    assert_eq!(said("/usr", Some("tcp")), 0);
    assert_eq!(said(&format!("/usr:{folder}"), None), 0);
    assert_eq!(said(&format!("@{folder}/libtaffrail-fi.so"), None), 0);
}

/// Without /proc the command does not know where it is, and so not where the provider is.
#[test]
fn a_provider_that_is_not_found_for_want_of_proc_is_not_called_missing() {
    let all = Installed::new(&[("mpiexec", MPICH)]);
    let mut command = Command::new("unshare");
    command.args([
        "-m",
        "bash",
        "-c",
        // In a container there may be several, one over the other.
        "while umount -l /proc 2>/dev/null; do :; done; [ -e /proc/self ] && exit 77; PATH=$ONLY exec \"$@\"",
        "bash",
    ]);
    command.args([env!("CARGO_BIN_EXE_taffrail"), "mpi", "-n", "2", "program"]);
    command.env("ONLY", all.path("bin"));
    for name in CHOICES {
        command.env_remove(name);
    }
    let job = ended(&mut command);
    if job.status == Some(77) || job.err.contains("unshare failed") {
        eprintln!("skipped: /proc cannot be taken away here");
        return;
    }
    assert_eq!((job.status, job.err.lines().count()), (Some(1), 1), "{job:?}");
    assert!(job.err.contains("cannot be found without /proc"), "{job:?}");
}

/// Several programs are handed on, and a command line is shown byte by byte.
#[test]
fn several_programs_are_one_command_line() {
    use std::os::unix::ffi::OsStrExt;
    let all = Installed::new(&[("mpiexec", MPICH)]);
    let program = all.path("bin/program");
    let program = program.to_str().unwrap();
    let mut command = all.taffrail(&["mpi", "-n", "1", program, "-x", ":", "-n", "2", program]);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let expected = format!("<-n><1><{program}><-x><:><-n><2><{program}>");
    assert!(said.ends_with(&expected), "{said}");
    let mut command = all.taffrail(&["mpi", "--dry-run", "-n", "1", program]);
    let output = command.arg(std::ffi::OsStr::from_bytes(b"\xff ")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let end = [program.as_bytes(), b" '\xff '\n"].concat();
    assert!(output.stdout.ends_with(&end), "{output:?}");
    let output = all.taffrail(&["mpi", "-n", "1", program, ":"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
