//! Real MPIs and libfabric's own programs over what `cargo xtask install` installs.

use crate::command::{Ended, answer, run};
use crate::counts::Counts;
use crate::install;
use crate::place::Place;
use crate::report::Outcome;
use crate::steps::tests;
use crate::tools;
use crate::wheels::{self, MPICH};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long any of these programs may take, in seconds, on a machine that does other things as well.
const LIMIT: &str = "400";

/// How often ranks of each of our test programs are killed.
const KILLS: &str = "10";

/// A small run of all seven parts of HPC Challenge, for two ranks.
const HPCC: &str = include_str!("mpi/hpccinf.txt");

pub fn step(place: &Place) -> Outcome {
    let prefix = place.build("mpi").join("prefix");
    // As step `nextest` has built it already.
    if let Err(e) = install::install(place, &prefix, install::How::WithTests) {
        return Outcome::Failed(Counts::default(), format!("it cannot be installed: {e}"));
    }
    let all = Installed { place, prefix };
    let runs = [programs(&all), pmix(&all)];
    let read = runs.each_ref().map(|run| Counts::read(&run.output));
    if read.iter().any(|counts| counts.passed == 0) {
        let why = "the test programs did not run".into();
        return Outcome::Failed(read[0], why).with(&runs);
    }
    let mut counts = read[0];
    counts += read[1];
    if !all.provider().join("libtaffrail-fi.so").is_file() {
        println!(
            "There is no provider: all above ran over libfabric's tcp, and the rest is left out."
        );
        return Outcome::of_tests(&runs);
    }
    type Part = (&'static str, fn(&Installed<'_>) -> Option<bool>);
    let parts: [Part; 6] = [
        ("fi_info", fi_info),
        ("fi_pingpong", fi_pingpong),
        ("NetPIPE over Open MPI", netpipe),
        ("HPC Challenge over Open MPI", hpcc),
        ("mpi4py's suite over MPICH 5", |all| suite(all, "mpich")),
        ("mpi4py's suite over Open MPI", |all| suite(all, "openmpi")),
    ];
    let mut wrong = Vec::new();
    for (name, part) in parts {
        match part(&all) {
            None => println!("{name}: left out, since it is not installed"),
            Some(passed) => {
                println!("{name}: {}", if passed { "passed" } else { "FAILED" });
                counts += Counts::one(passed);
                wrong.extend((!passed).then_some(name));
            }
        }
    }
    if read[0].failed + read[1].failed > 0 {
        wrong.push("test programs");
    }
    Outcome::of_parts(counts, wrong.join(", ")).with(&runs)
}

/// What was installed for these tests.
struct Installed<'a> {
    place: &'a Place,
    prefix: PathBuf,
}

impl Installed<'_> {
    fn provider(&self) -> PathBuf {
        self.prefix.join("lib")
    }

    /// A program that finds the provider, and is ended after a while.
    fn limited(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=10", LIMIT]).arg(program.as_ref());
        command.env("FI_PROVIDER_PATH", self.provider());
        // Open MPI starts nothing as root, and a container has no other user.
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command
    }

    /// `taffrail mpi` with two ranks.
    fn mpi(&self, which: &str) -> Command {
        let mut command = self.limited(self.prefix.join("bin/taffrail"));
        command.args(["mpi", "-n", "2", "--mpi", which]);
        command
    }
}

/// Our own test programs, two at a time: many wait for most of their time. What they print.
fn programs(all: &Installed<'_>) -> Ended {
    let mut command = tests::selected(all.place, "--workspace", tests::MPI.0, tests::MPI.1);
    command.env("NEXTEST_TEST_THREADS", "2").env("RUST_TEST_THREADS", "1");
    if MPICH.installed(all.place) {
        command.env("TAFFRAIL_TEST_MPICH", MPICH.folder(all.place));
    }
    command.env("TAFFRAIL_TEST_OTHER_MPIS", wheels::others(all.place));
    command.env("TAFFRAIL_TEST_PREFIX", &all.prefix);
    if all.provider().join("libtaffrail-fi.so").is_file() {
        command.env("TAFFRAIL_TEST_PROVIDER", all.provider()).env("TAFFRAIL_TEST_KILLS", KILLS);
    }
    run(&mut command)
}

/// Our own programs below launchers that speak PMIx. What they print.
fn pmix(all: &Installed<'_>) -> Ended {
    let arguments = "--workspace --features taffrail/pmix --test pmix";
    let mut command = tests::runner(all.place, arguments);
    command.env("NEXTEST_TEST_THREADS", "1").env("RUST_TEST_THREADS", "1");
    command.env("TAFFRAIL_TEST_LAUNCHER", all.prefix.join("bin/taffrail"));
    run(&mut command)
}

fn fi_info(all: &Installed<'_>) -> Option<bool> {
    let mut command = all.limited(tools::find("fi_info")?);
    let ended = run(command.args(["-p", "taffrail"]));
    let mut settings = all.limited(tools::find("fi_info")?);
    let settings = answer(settings.args(["-g", "FI_TAFFRAIL"])).unwrap_or_default();
    Some(
        ended.ok && ended.output.contains("provider: taffrail") && settings.contains("FI_TAFFRAIL"),
    )
}

fn fi_pingpong(all: &Installed<'_>) -> Option<bool> {
    let program = tools::find("fi_pingpong")?;
    let end = || {
        let mut command = all.limited(&program);
        command.args(["-p", "taffrail", "-e", "rdm", "-I", "100", "-c"]);
        command
    };
    let mut server = end().stdin(Stdio::null()).stdout(Stdio::null()).spawn().ok()?;
    // It listens some time after it was started, and does not say when.
    let good = (0..20).any(|_| {
        std::thread::sleep(Duration::from_millis(500));
        run(end().arg("127.0.0.1")).ok
    });
    if !good {
        // timeout(1) hands it on to the program.
        let _ = Command::new("kill").arg(server.id().to_string()).status();
    }
    Some(server.wait().is_ok_and(|status| status.success()) && good)
}

fn netpipe(all: &Installed<'_>) -> Option<bool> {
    let program = tools::find("NPopenmpi")?;
    let results = all.prefix.join("netpipe.out");
    let mut command = all.mpi("openmpi");
    command.arg(program).args(["-u", "1000000", "-n", "20", "-o"]).arg(&results);
    let good = run(&mut command).ok;
    let lines = std::fs::read_to_string(&results).map_or(0, |text| text.lines().count());
    Some(good && lines > 50)
}

fn hpcc(all: &Installed<'_>) -> Option<bool> {
    let program = tools::find("hpcc")?;
    let folder = all.place.build("mpi").join("hpcc");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).ok()?;
    std::fs::write(folder.join("hpccinf.txt"), HPCC).ok()?;
    let good = run(all.mpi("openmpi").arg(program).current_dir(&folder)).ok;
    let said = std::fs::read_to_string(folder.join("hpccoutf.txt")).unwrap_or_default();
    Some(good && said.lines().any(|line| line == "Success=1"))
}

/// The suite of mpi4py, but for what no provider can do: starting processes and connecting to others.
fn suite(all: &Installed<'_>, which: &str) -> Option<bool> {
    if !MPICH.installed(all.place) || which == "openmpi" && tools::find("mpiexec.openmpi").is_none()
    {
        return None;
    }
    let mut command = all.mpi(which);
    command.arg(MPICH.folder(all.place).join("bin/python")).args(["test/main.py", "-q"]);
    command.args(["-e", "spawn", "-e", "dynproc", "-e", "test_mpiabi"]);
    // MPICH's own: its answer depends on which of two messages is faster.
    let mut without = vec!["*.testDistgraphcomm"];
    if which == "openmpi" {
        command.env("MPI4PY_MPIABI", "openmpi").env("MPI4PY_LIBMPI", "libmpi.so.40");
        // What Open MPI 4.1 cannot do over any provider: docs/libfabric.md.
        without.extend(["Bottom", "testCancel", "SSend", "Probe", "SomeSend", "SomeRecv"]);
        command.args(["-e", "test_util_pkl5"]);
    } else {
        // Locks with a race: docs/mpi.md.
        without.extend(["*Mutex*World*", "*ConditionWorld*", "*SemaphoreWorld*"]);
    }
    command.args(without.iter().flat_map(|pattern| ["-x", pattern]));
    command.current_dir(MPICH.folder(all.place).join("mpi4py"));
    let ended = run(&mut command);
    // Of both ranks; their lines may be mixed, and "OK" and what follows in the line are two writes.
    let good = ended.output.matches("OK").count();
    Some(ended.ok && good == 2)
}
