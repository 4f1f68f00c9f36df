//! Every variable of the environment that anything of Taffrail reads, and the names that nothing reads.

mod log_filter;

pub use log_filter::{LogFilterError, log_filter};

use crate::Error;
use crate::host::heartbeat::{self, Heartbeat};
use std::ffi::{CStr, OsStr};
use std::sync::{Once, OnceLock};

/// What a variable is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// A setting of endpoints ([`Settings`](crate::Settings)). The libfabric provider reads it with `FI_` in
    /// front of its name, too, which goes before the other.
    Endpoint,
    /// Read by what `readers` says.
    Other {
        /// Who.
        readers: &'static str,
    },
    /// Given to ranks by `taffrail run`; not to be set by people.
    Job,
    /// Of the project's own tests.
    Tests,
}

/// A variable of the environment.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub of: Use,
    /// What its value does, in a sentence.
    pub meaning: &'static str,
}

const fn endpoint(name: &'static str, meaning: &'static str) -> Variable {
    Variable { name, of: Use::Endpoint, meaning }
}

const fn other(name: &'static str, readers: &'static str, meaning: &'static str) -> Variable {
    Variable { name, of: Use::Other { readers }, meaning }
}

const fn job(name: &'static str, meaning: &'static str) -> Variable {
    Variable { name, of: Use::Job, meaning }
}

const fn tests(name: &'static str, meaning: &'static str) -> Variable {
    Variable { name, of: Use::Tests, meaning }
}

/// All of them. `docs/tuning.md` has those that are for users.
pub const VARIABLES: &[Variable] = &[
    endpoint(
        "TAFFRAIL_EAGER_MAX",
        "Messages of up to this many bytes are sent without asking the receiver (K is 1024 bytes). Unset: 64K, or \
         what taffrail-perf tune has found.",
    ),
    endpoint(
        "TAFFRAIL_PIECE",
        "Longer messages go in fragments of this many bytes. Unset: 16K to 64K.",
    ),
    endpoint(
        "TAFFRAIL_OUTBOX",
        "The memory that messages leave from grows up to this many bytes. Unset: 16M.",
    ),
    endpoint(
        "TAFFRAIL_UNEXPECTED",
        "When more bytes of one sender wait for receives, it asks before it sends. Unset: 64M.",
    ),
    endpoint(
        "TAFFRAIL_UNEXPECTED_MAX",
        "Memory that messages may take which wait for receives: senders wait before there are more. Unset: a quarter \
         of the memory, divided by the processes of the node.",
    ),
    endpoint(
        "TAFFRAIL_SPIN",
        "Idle polls before a wait gives the processor away. Unset: many if there is a processor for each \
         process, else few.",
    ),
    endpoint(
        "TAFFRAIL_CONNECT_TIMEOUT",
        "How long to wait for the other ranks at the start, and for the way to a rank of another node where \
         messages are not logged, in seconds or with a unit. Unset: 30s.",
    ),
    endpoint(
        "TAFFRAIL_TUNING",
        "The file with what taffrail-perf tune has measured, or off. Unset: the file of this host, if it is there.",
    ),
    endpoint(
        "TAFFRAIL_WAY",
        "For measurements: the only way that long messages come: read, pieces or streaming.",
    ),
    other(
        "TAFFRAIL_LOG",
        "taffrail, taffrail-perf, and the libfabric provider unless FI_TAFFRAIL_LOG is set",
        "What is said on standard error: error, warn, info, debug or trace, or a filter of tracing-subscriber.",
    ),
    other(
        "FI_TAFFRAIL_LOG",
        "the libfabric provider",
        "What the provider says on standard error: warn (refusals, with their reasons), info, debug. Unset: only \
         what the program should not do.",
    ),
    other(
        "TAFFRAIL_SPILL",
        "ranks whose messages are logged, and taffrail run",
        "The folder for logged messages that do not fit into memory. Unset: that for temporary files.",
    ),
    other(
        "TAFFRAIL_LOG_MEMORY",
        "taffrail run, which gives it to ranks; --log-memory goes before it",
        "Bytes of the log of sent messages that are kept in memory. Unset: 1G.",
    ),
    job("TAFFRAIL_JOB", "The name of the job."),
    job("TAFFRAIL_LOGGING", "How messages are logged."),
    job("TAFFRAIL_EVENTS", "Which events are logged."),
    job("TAFFRAIL_SETS", "The set of each rank."),
    job("TAFFRAIL_INCARNATION", "How often this rank was started before."),
    job(
        "TAFFRAIL_GENERATIONS",
        "Of each rank, how many restarts the job had seen when it was started.",
    ),
    job("TAFFRAIL_RINGS", "Descriptors of the event rings of this set."),
    job("TAFFRAIL_REPLAY", "The descriptor of the events of earlier incarnations."),
    job(
        "TAFFRAIL_HEARTBEAT",
        "The descriptor of the memory in which this rank shows that it makes progress.",
    ),
    job(
        "TAFFRAIL_OVER",
        "The descriptor of the connection on which this rank waits for the end of all.",
    ),
    job("TAFFRAIL_NEAR", "In a logged job over nodes: the ranks that share memory with this one."),
    job("TAFFRAIL_NODE", "In a job over nodes: its name and the number of this node."),
    job("TAFFRAIL_ROSTER", "In a job over nodes: the descriptor of the roster."),
    job("TAFFRAIL_SECRET", "In a job over nodes: the descriptor of the job's secret."),
    job(
        "TAFFRAIL_REFUSED",
        "In a job over nodes: the descriptor of the counters of refused connections.",
    ),
    job("TAFFRAIL_NETWORK", "In a job over nodes: the interfaces that ranks may use. Unset: any."),
    job("TAFFRAIL_VAULT", "The descriptor of the checkpoints of this rank."),
    job(
        "TAFFRAIL_HELD",
        "In causal logging over nodes: the descriptor of what this rank holds of others.",
    ),
    job("TAFFRAIL_LOG_FILES", "The descriptors of the log of this process."),
    job(
        "TAFFRAIL_FORMER_FILES",
        "The descriptors of the log of the process that took the last checkpoint.",
    ),
    job(CHECKED, "The launcher has said already which variables nothing reads."),
    tests("TAFFRAIL_SEED", "The seed of random tests."),
    tests("TAFFRAIL_SEEDS", "How many seeds a test runs."),
    tests("TAFFRAIL_KILLS", "How many processes a test kills."),
    tests("TAFFRAIL_CASE", "The case that a child process of a test runs."),
    tests(
        "TAFFRAIL_CONFORMANCE_PART",
        "The part that a child process of the conformance suite plays.",
    ),
    tests("TAFFRAIL_TEST_PART", "The part that a child process of a test plays."),
    tests("TAFFRAIL_TEST_ALONE", "Whether a test runs in a process of its own."),
    tests("TAFFRAIL_TEST_SEED", "The seed of random tests."),
    tests("TAFFRAIL_TEST_KILLS", "How many ranks a test kills."),
    tests("TAFFRAIL_TEST_LAUNCHER", "The launcher that tests start ranks with."),
    tests("TAFFRAIL_TEST_LIBRARY", "The libfabric provider, built together with the tests."),
    tests("TAFFRAIL_TEST_MPICH", "Where tests find MPICH."),
    tests("TAFFRAIL_TEST_OTHER_MPIS", "Where tests find other MPIs."),
    tests("TAFFRAIL_TEST_PREFIX", "Where tests find what is installed."),
    tests("TAFFRAIL_TEST_PROVIDER", "Where tests find the libfabric provider."),
];

/// Set for the processes of a launcher that has looked for unknown variables itself.
pub const CHECKED: &str = "TAFFRAIL_CHECKED";

/// The value of a variable, if it is set. What is no UTF-8 has replacement characters, which no value may
/// have, so that it is refused and not taken for unset.
pub fn value(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// The word in which this process shows that it goes on, if its launcher has given it one; all its endpoints have
/// the same.
///
/// # Errors
/// [`Error::Setting`] when it is not what it should be.
pub(crate) fn heartbeat() -> Result<Heartbeat, Error> {
    static OF_THIS_PROCESS: OnceLock<Result<Heartbeat, String>> = OnceLock::new();
    let name = "TAFFRAIL_HEARTBEAT";
    let Some(got) = value(name) else { return Ok(Heartbeat::default()) };
    let found = OF_THIS_PROCESS.get_or_init(|| heartbeat::open(&got));
    found.clone().map_err(|expected| Error::Setting { name, expected, got })
}

/// Whether messages are logged by the launcher of this process.
pub(crate) fn is_logged() -> bool {
    let look = |name: &CStr| value(name.to_str().unwrap_or_default()).map(String::into_bytes);
    is_logged_by(look) && !is_of_other_job(look)
}

/// Whether the environment that is looked up has been given to a rank whose messages are logged.
pub fn is_logged_by<T: AsRef<[u8]>>(look: impl Fn(&CStr) -> Option<T>) -> bool {
    look(c"TAFFRAIL_LOGGING").is_some_and(|policy| policy.as_ref() != b"none")
}

/// Whether this process runs below a rank of `taffrail run` and is not of its job: what it finds of the rank in its
/// environment is not meant for it. Another launcher has started it (known are those of MPICH and Open MPI), or it
/// has no `PMI_RANK`, which every rank has: it is to run by itself.
pub fn is_of_other_job<T: AsRef<[u8]>>(look: impl Fn(&CStr) -> Option<T>) -> bool {
    let Some(job) = look(c"TAFFRAIL_JOB") else { return false };
    let other = look(c"PMIX_NAMESPACE").is_some_and(|name| name.as_ref() != job.as_ref());
    other || look(c"HYDI_CONTROL_FD").is_some() || look(c"PMI_RANK").is_none()
}

/// Of names of variables those that look like ours and that nothing reads, each with what is wrong, in a line.
pub fn unknown(names: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Vec<String> {
    let names = names.into_iter();
    let mut lines: Vec<String> =
        names.filter_map(|name| complaint(&name.as_ref().to_string_lossy())).collect();
    lines.sort();
    lines
}

/// Says once in a process which variables of its environment nothing reads, unless its launcher has, or this is
/// a rank other than the first of a job.
pub fn warn_of_unknown() {
    static ONCE: Once = Once::new();
    let is_set = |name| std::env::var_os(name).is_some();
    let is_later_rank = ["PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"]
        .iter()
        .any(|name| value(name).is_some_and(|rank| rank != "0"));
    ONCE.call_once(|| {
        if !is_set("TAFFRAIL_JOB") && !is_set(CHECKED) && !is_later_rank {
            let names = std::env::vars_os().map(|(name, _)| name);
            unknown(names).iter().for_each(|line| crate::explain::warn(line));
        }
    });
}

/// All names that something reads, but for those of tests.
fn known() -> impl Iterator<Item = String> {
    VARIABLES.iter().filter(|variable| variable.of != Use::Tests).flat_map(|variable| {
        let with_fi = (variable.of == Use::Endpoint).then(|| format!("FI_{}", variable.name));
        std::iter::once(variable.name.to_owned()).chain(with_fi)
    })
}

/// The largest share of letters that differ in what may be a slip of the same name.
const ALIKE: f64 = 0.6;

fn complaint(name: &str) -> Option<String> {
    let is_ours = name.starts_with("TAFFRAIL_") || name.starts_with("FI_TAFFRAIL_");
    let of_tests = VARIABLES.iter().any(|variable| variable.name == name);
    if !is_ours || of_tests || known().any(|known| known == name) {
        return None;
    }
    // What begins the same is in every name.
    let rest =
        |name: &str| name.trim_start_matches("FI_").trim_start_matches("TAFFRAIL_").to_owned();
    let alike = |known: &String| strsim::normalized_damerau_levenshtein(&rest(known), &rest(name));
    let same_prefix = |known: &String| known.starts_with("FI_") == name.starts_with("FI_");
    let for_people = |known: &String| {
        !VARIABLES.iter().any(|variable| variable.name == known && variable.of == Use::Job)
    };
    let nearest = known()
        .filter(for_people)
        .max_by(|a, b| alike(a).total_cmp(&alike(b)).then(same_prefix(a).cmp(&same_prefix(b))))
        .filter(|known| alike(known) >= ALIKE);
    Some(match nearest {
        Some(known) => {
            format!("the variable {name} is set, and nothing reads it; did you mean {known}?")
        }
        None => format!(
            "the variable {name} is set, and nothing reads it; docs/tuning.md lists those that are read"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    #[test]
    fn a_slip_is_named_with_what_was_meant() {
        for (name, meant) in [
            ("TAFFRAIL_EAGERMAX", "did you mean TAFFRAIL_EAGER_MAX?"),
            ("TAFFRAIL_EGAER_MAX", "did you mean TAFFRAIL_EAGER_MAX?"),
            ("FI_TAFFRAIL_EAGER_SIZE", "did you mean FI_TAFFRAIL_EAGER_MAX?"),
            ("FI_TAFFRAIL_LOGS", "did you mean FI_TAFFRAIL_LOG?"),
            ("TAFFRAIL_LGO", "did you mean TAFFRAIL_LOG?"),
            ("FI_TAFFRAIL_LOG_MEMORY", "did you mean TAFFRAIL_LOG_MEMORY?"),
            ("TAFFRAIL_Spin", "nothing reads it"),
            ("TAFFRAIL_FRUIT", "docs/tuning.md"),
        ] {
            let said = unknown([name]);
            assert!(said.len() == 1 && said[0].contains(meant), "{name}: {said:?}");
        }
    }

    #[test]
    fn what_is_read_and_what_is_not_ours_is_not_named() {
        let all = VARIABLES.iter().map(|variable| variable.name);
        let others = ["FI_TAFFRAIL_TUNING", "PATH", "TAFFRAIL", "MY_TAFFRAIL_X", "FI_PROVIDER"];
        assert_eq!(unknown(all.chain(others)), [""; 0]);
    }

    /// Rust files of the workspace, without what is built.
    fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                sources(&path, into);
            } else if path.extension().is_some_and(|end| end == "rs") {
                into.push(path);
            }
        }
    }

    #[test]
    fn the_list_has_what_the_sources_read_and_nothing_else() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut files = Vec::new();
        sources(root, &mut files);
        // What this file says in its tests, and what others set to see it refused.
        let here = root.join("src/environment.rs");
        let mut read = BTreeSet::new();
        for file in files.iter().filter(|file| **file != here) {
            let text = std::fs::read_to_string(file).unwrap();
            let literals = text.split('"').filter(|literal| {
                let rest = literal.strip_prefix("FI_").unwrap_or(literal);
                rest.strip_prefix("TAFFRAIL_").is_some_and(|rest| {
                    !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
                })
            });
            read.extend(literals.map(str::to_owned));
        }
        // Slips that tests make on purpose.
        for slip in ["TAFFRAIL_EAGERMAX", "FI_TAFFRAIL_EAGERMAX"] {
            read.remove(slip);
        }
        let listed = |name: &str| {
            VARIABLES.iter().any(|variable| {
                let with_fi =
                    variable.of == Use::Endpoint && name.strip_prefix("FI_") == Some(variable.name);
                variable.name == name || with_fi
            })
        };
        let missing: Vec<_> = read.iter().filter(|name| !listed(name)).collect();
        assert!(missing.is_empty(), "not in VARIABLES: {missing:?}");
        let stale =
            VARIABLES.iter().map(|variable| variable.name).filter(|name| !read.contains(*name));
        let stale: Vec<_> = stale.filter(|name| *name != CHECKED).collect();
        assert!(stale.is_empty(), "in VARIABLES, and nothing reads them: {stale:?}");
    }

    #[test]
    fn those_for_users_are_documented() {
        let text =
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/tuning.md"))
                .unwrap();
        for variable in
            VARIABLES.iter().filter(|variable| !matches!(variable.of, Use::Job | Use::Tests))
        {
            let (name, rows) = (variable.name, text.lines().filter(|line| line.starts_with('|')));
            assert!(
                rows.clone().any(|row| row.contains(&format!("`{name}`"))),
                "docs/tuning.md has no {name}"
            );
        }
    }

    #[test]
    fn processes_below_a_rank_may_be_of_another_job() {
        let below = |set: &'static [(&'static str, &'static str)]| {
            is_of_other_job(|name| {
                let found = set.iter().find(|(key, _)| key.as_bytes() == name.to_bytes());
                found.map(|(_, value)| value.as_bytes())
            })
        };
        assert!(!below(&[("PMIX_NAMESPACE", "other"), ("HYDI_CONTROL_FD", "7")]), "no rank");
        const RANK: [(&str, &str); 2] = [("TAFFRAIL_JOB", "a"), ("PMI_RANK", "0")];
        const JOB: (&str, &str) = RANK[0];
        assert!(!below(&RANK) && !below(&[RANK[0], RANK[1], ("PMIX_NAMESPACE", "a")]));
        assert!(below(&[RANK[0], RANK[1], ("PMIX_NAMESPACE", "other")]));
        assert!(below(&[RANK[0], RANK[1], ("HYDI_CONTROL_FD", "7")]));
        assert!(below(&[JOB]), "it is to run by itself");
    }
}
