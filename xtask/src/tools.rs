//! Programs the tests need, installed when they are missing and we may.

use crate::command::{answer, by_twos, cargo, run, succeeds};
use crate::place::Place;
use crate::report::Outcome;
use crate::wheels::{self, Wheels};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program, or the path of a file, the Debian or Ubuntu package it comes in, and what is left out
/// without it.
const PACKAGES: &[(&str, &str, &str)] = &[
    ("cc", "gcc", "everything that links"),
    ("c++", "g++", "fuzz, and examples of the C library as C++"),
    ("valgrind", "valgrind", "instructions, and the memory of C programs"),
    // It brings the launcher, too.
    ("mpiexec.mpich", "libmpich-dev", "the start of MPI programs"),
    ("mpiexec.openmpi", "openmpi-bin", "Open MPI"),
    ("mpicc.openmpi", "libopenmpi-dev", "Open MPI"),
    ("fi_info", "libfabric-bin", "fi_info and fi_pingpong"),
    ("/usr/include/rdma/fabric.h", "libfabric-dev", "the layouts of the libfabric provider"),
    (PMIX, "libpmix-dev", "the layouts of PMIx"),
    ("/usr/sbin/slurmctld", "slurmctld", "Slurm"),
    ("/usr/sbin/slurmd", "slurmd", "Slurm"),
    ("srun", "slurm-client", "Slurm"),
    ("/usr/sbin/sshd", "openssh-server", "nodes that are reached through ssh"),
    ("ssh", "openssh-client", "nodes that are reached through ssh"),
    ("ip", "iproute2", "nodes with a network of their own"),
    ("/usr/sbin/iptables", "iptables", "ways between nodes that swallow long packets"),
    ("NPopenmpi", "netpipe-openmpi", "NetPIPE over MPI"),
    ("NPmpich2", "netpipe-mpich2", "NetPIPE over MPI"),
    ("hpcc", "hpcc", "HPC Challenge"),
    (VENV, "python3-venv", "MPICH, Open MPI 5 and Intel MPI"),
];

/// A header that Debian has in a folder of its own.
const PMIX: &str = "pmix_server.h";

/// What makes virtual environments, where Python is Debian's.
const VENV: &str = "python3 -m ensurepip";

/// Components of the Rust toolchain.
const COMPONENTS: &[(&str, &str)] = &[("fmt", "rustfmt"), ("clippy", "clippy")];

/// Whether this process may make network namespaces.
pub fn namespaces() -> Outcome {
    let name = format!("taffrail-xtask-{}", std::process::id());
    let ip = |does: &str| succeeds(Command::new("ip").args(["netns", does, &name]));
    if ip("add") && ip("del") {
        return Outcome::of_check(true, "");
    }
    let what = "tests of nodes in network namespaces, with their sshd and Slurm, do nothing here";
    Outcome::Skipped(format!("{what}: `ip netns add` has failed; run the tests as root"))
}

/// Installs what is missing. Where it may not, says what to type and what is left out.
pub fn step(place: &Place) -> Outcome {
    for (command, component) in COMPONENTS {
        if !succeeds(&mut cargo(place, &format!("{command} --version"))) {
            run(Command::new("rustup").args(["component", "add", component]));
        }
    }
    let missing = || PACKAGES.iter().filter(|(what, ..)| !is_there(what));
    let packages: Vec<&str> = missing().map(|&(_, package, _)| package).collect();
    if !packages.is_empty() {
        install(&packages);
    }
    let mut left: Vec<&str> = missing().map(|&(_, _, without)| without).collect();
    let mut how = match left.is_empty() {
        true => Vec::new(),
        false => vec![format!("sudo apt-get install {}", packages.join(" "))],
    };
    let wheels: Vec<&Wheels> = [&wheels::MPICH].into_iter().chain(&wheels::OTHERS).collect();
    for (wheels, prepared) in wheels.iter().zip(by_twos(&wheels, |wheels| wheels.prepare(place))) {
        if let Err(line) = prepared {
            left.push(wheels.what);
            how.push(line);
        }
    }
    if left.is_empty() {
        return Outcome::of_check(true, "");
    }
    left.dedup();
    let lines = how.join("\n    ");
    println!("Not everything could be installed. To have everything tested, type:\n    {lines}");
    Outcome::Skipped(format!("left out: {}; to have it, type: {}", left.join(", "), how.join("; ")))
}

fn is_there(what: &str) -> bool {
    match what {
        VENV => {
            let mut python = Command::new("python3");
            succeeds(python.args(["-c", "import ensurepip, venv"]))
        }
        PMIX => {
            let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
            let mut headers = folders.map(|folder| folder.path().join("pmix2/include").join(PMIX));
            headers.any(|header| header.is_file()) || Path::new("/usr/include").join(PMIX).is_file()
        }
        path if path.starts_with('/') => Path::new(path).is_file(),
        program => find(program).is_some(),
    }
}

fn install(packages: &[&str]) {
    let root = answer(Command::new("id").arg("-u")).is_some_and(|id| id == "0");
    let may_ask = std::io::stdin().is_terminal();
    let prefix: &[&str] = match root {
        true => &[],
        false if succeeds(Command::new("sudo").args(["-n", "true"])) => &["sudo", "-n"],
        // It asks for the password at the terminal.
        false if may_ask && find("sudo").is_some() => &["sudo"],
        false => return,
    };
    if find("apt-get").is_none() {
        return;
    }
    let apt = |words: &[&str]| {
        let environment = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"];
        let all = [prefix, &environment, words].concat();
        run(Command::new(all[0]).args(&all[1..])).ok
    };
    let words = [&["install", "-y", "--no-install-recommends"], packages].concat();
    // The list of packages may be missing or old.
    let _ = apt(&words) || (apt(&["update"]) && apt(&words));
}

/// The path of a program.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// The target triple of this machine.
pub fn host() -> String {
    let said = answer(Command::new("rustc").arg("-vV")).unwrap_or_default();
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.expect("rustc -vV says for which host it is").to_owned()
}

/// Whether this toolchain brings AddressSanitizer.
pub fn has_asan() -> bool {
    let libraries = answer(Command::new("rustc").args(["--print", "target-libdir"]));
    let files = libraries.and_then(|folder| std::fs::read_dir(folder).ok());
    files.is_some_and(|mut files| {
        files.any(|file| {
            file.is_ok_and(|file| file.file_name().to_string_lossy().ends_with("_rt.asan.a"))
        })
    })
}
