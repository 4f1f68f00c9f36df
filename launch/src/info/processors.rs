//! CPUs allowed here, and the caches between them.

use super::{Finding, read};
use std::collections::BTreeMap;

const CPU: &str = "/sys/devices/system/cpu";

/// The CPUs this process may use.
pub fn cpus() -> Finding {
    match crate::run::allowed_cpus() {
        Ok(allowed) => {
            let online = read(format!("{CPU}/online")).unwrap_or_else(|| "unknown".to_owned());
            let count = allowed.len();
            Finding::there(
                "CPUs allowed",
                format!("{count}: {} (online: {online})", list(&allowed)),
            )
        }
        Err(e) => Finding::missing(
            "CPUs allowed",
            format!("sched_getaffinity failed: {e}"),
            "let the sandbox permit sched_getaffinity; until then use `--bind none`",
        ),
    }
}

/// Which of them are two threads of one core.
pub fn cores() -> Finding {
    match sharing(|cpu| read(format!("{CPU}/cpu{cpu}/topology/thread_siblings_list"))) {
        Some(cores) => Finding::there(
            "cores",
            format!("{} in use, CPUs by core: {}", cores.len(), groups(&cores)),
        ),
        None => unknown("cores"),
    }
}

/// The caches of a level: their size, and who shares each.
pub fn cache(level: u32) -> Finding {
    let what = if level == 2 { "L2 cache" } else { "L3 cache" };
    let size_and_users = |cpu: usize| {
        (0..8).map(|index| format!("{CPU}/cpu{cpu}/cache/index{index}")).find_map(|index| {
            let of = |file: &str| read(format!("{index}/{file}"));
            let here = of("level")? == level.to_string() && of("type")? != "Instruction";
            here.then(|| Some(format!("{} {}", of("size")?, of("shared_cpu_list")?)))?
        })
    };
    let Some(caches) = sharing(size_and_users) else { return unknown(what) };
    let mut sizes: Vec<_> = caches.keys().filter_map(|k| k.split(' ').next()).collect();
    sizes.dedup();
    Finding::there(what, format!("{} each, CPUs by cache: {}", sizes.join(" or "), groups(&caches)))
}

/// The allowed CPUs by what they share; `None` if that is not told for one of them.
fn sharing(shared: impl Fn(usize) -> Option<String>) -> Option<BTreeMap<String, Vec<usize>>> {
    let mut groups = BTreeMap::<_, Vec<_>>::new();
    for cpu in crate::run::allowed_cpus().ok()? {
        groups.entry(shared(cpu)?).or_default().push(cpu);
    }
    Some(groups)
}

fn groups(groups: &BTreeMap<String, Vec<usize>>) -> String {
    let mut groups: Vec<_> = groups.values().collect();
    groups.sort();
    groups.into_iter().map(|cpus| list(cpus)).collect::<Vec<_>>().join(" | ")
}

/// Ascending numbers, runs of them shortened: `0-3,8`.
fn list(cpus: &[usize]) -> String {
    let runs = cpus.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        run => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    runs.collect::<Vec<_>>().join(",")
}

fn unknown(what: &'static str) -> Finding {
    Finding::missing(
        what,
        "/sys does not tell it",
        "mount /sys in the container, or let the virtual machine pass the host's topology on",
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn runs_of_cpus_are_shortened() {
        assert_eq!(super::list(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(super::list(&[]), "");
    }
}
