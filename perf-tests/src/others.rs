//! Who else uses the processors that are measured: other processes, and the host of a virtual machine.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Others may use a processor that is measured for this share of the time: clocks are that coarse.
const SHARE: f64 = 0.1;
/// Others may use all processors of the machine for this share of the time: they share its memory.
const SHARE_OF_ALL: f64 = 0.25;
/// As many of the busiest processes are named.
const NAMED: usize = 3;
/// How long to look before anything is measured.
const LOOK: Duration = Duration::from_millis(500);

/// The processor time used until a moment, in seconds.
#[derive(Clone, Debug)]
pub struct Usage {
    at: Instant,
    cpus: BTreeMap<usize, CpuTime>,
    processes: BTreeMap<u32, Process>,
}

/// The time of one processor.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct CpuTime {
    /// Of processes and interrupts.
    busy: f64,
    /// When the host of this virtual machine ran something else.
    stolen: f64,
}

#[derive(Clone, Debug, PartialEq)]
struct Process {
    name: String,
    seconds: f64,
}

/// A process of the measurement itself.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// Its number.
    pub pid: u32,
    /// The processor it stays on.
    pub cpu: usize,
    /// The processor time it used meanwhile, in seconds.
    pub seconds: f64,
}

/// Why what is measured now between these processors would be worth nothing, if so.
pub fn busy_now(cpus: &[usize]) -> Option<String> {
    let before = Usage::now();
    std::thread::sleep(LOOK);
    let nothing = |&cpu: &usize| Own { pid: std::process::id(), cpu, seconds: 0.0 };
    Usage::now().busy_since(&before, &cpus.iter().map(nothing).collect::<Vec<_>>())
}

/// The processor time this process has used, in seconds.
pub fn own_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

impl Usage {
    /// Until now.
    pub fn now() -> Usage {
        let tick = 1.0 / rustix::param::clock_ticks_per_second() as f64;
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let folders = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let process = |folder: std::fs::DirEntry| {
            let pid = folder.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read(folder.path().join("stat")).ok()?;
            Some((pid, Process::read(&String::from_utf8_lossy(&stat), tick)?))
        };
        Usage {
            at: Instant::now(),
            cpus: stat.lines().filter_map(|line| CpuTime::read(line, tick)).collect(),
            processes: folders.filter_map(process).collect(),
        }
    }

    /// What others did on the processors of a measurement since `before`, if it was too much; `own` are
    /// all processes of the measurement.
    pub fn busy_since(&self, before: &Usage, own: &[Own]) -> Option<String> {
        let elapsed = (self.at - before.at).as_secs_f64();
        if elapsed <= 0.0 {
            return None;
        }
        let used = |cpu: &usize| {
            let (now, then) = (self.cpus.get(cpu)?, before.cpus.get(cpu)?);
            let ours: f64 = own.iter().filter(|own| own.cpu == *cpu).map(|own| own.seconds).sum();
            let others = ((now.busy - then.busy - ours) / elapsed).clamp(0.0, 1.0);
            Some((others, (now.stolen - then.stolen) / elapsed))
        };
        let mut reasons = Vec::new();
        for cpu in own.iter().map(|own| own.cpu) {
            let Some((others, stolen)) = used(&cpu) else { continue };
            if others > SHARE {
                reasons.push(format!("others used CPU {cpu} {:.0}% of the time", others * 100.0));
            }
            if stolen > SHARE {
                let percent = stolen * 100.0;
                reasons.push(format!("the host took CPU {cpu} away {percent:.0}% of the time"));
            }
        }
        let all: f64 = self.cpus.keys().filter_map(used).map(|(others, _)| others).sum();
        let share = all / self.cpus.len().max(1) as f64;
        if reasons.is_empty() && share > SHARE_OF_ALL {
            reasons.push(format!("others used {:.0}% of all CPUs", share * 100.0));
        }
        if reasons.is_empty() {
            return None;
        }
        Some(reasons.join("; ") + &self.busiest_since(before, own, elapsed))
    }

    /// The processes that used most, those of the measurement apart.
    fn busiest_since(&self, before: &Usage, own: &[Own], elapsed: f64) -> String {
        let others =
            self.processes.iter().filter(|(pid, _)| own.iter().all(|own| own.pid != **pid));
        let mut used: Vec<(f64, u32, &str)> = others
            .map(|(pid, process)| {
                let former = before.processes.get(pid).map_or(0.0, |process| process.seconds);
                ((process.seconds - former) / elapsed, *pid, process.name.as_str())
            })
            .filter(|(share, ..)| *share > SHARE)
            .collect();
        used.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut text = String::new();
        for (place, (share, pid, name)) in used.iter().take(NAMED).enumerate() {
            let between = if place == 0 { ": " } else { ", " };
            let _ = write!(text, "{between}{name} (process {pid}) {:.0}%", share * 100.0);
        }
        text
    }
}

impl CpuTime {
    /// Of a line of /proc/stat, and which processor's.
    fn read(line: &str, tick: f64) -> Option<(usize, CpuTime)> {
        let mut words = line.split_whitespace();
        let cpu = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        let ticks: Vec<f64> = words.map_while(|word| word.parse().ok()).collect();
        let [user, nice, system, _idle, _waiting, interrupts, soft, stolen, ..] = ticks[..] else {
            return None;
        };
        let busy = (user + nice + system + interrupts + soft) * tick;
        Some((cpu, CpuTime { busy, stolen: stolen * tick }))
    }
}

impl Process {
    /// Of /proc/PID/stat. The name, in parentheses, may be anything.
    fn read(stat: &str, tick: f64) -> Option<Process> {
        let (name, rest) = (stat.split_once('(')?.1).rsplit_once(')')?;
        let mut ticks = rest.split_whitespace().skip(11).map_while(|word| word.parse::<f64>().ok());
        let seconds = (ticks.next()? + ticks.next()?) * tick;
        Some(Process { name: name.to_owned(), seconds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(at: Instant, cpus: &[(f64, f64)], processes: &[(u32, &str, f64)]) -> Usage {
        let cpus = cpus.iter().map(|&(busy, stolen)| CpuTime { busy, stolen }).enumerate();
        let process = |&(pid, name, seconds): &(u32, &str, f64)| {
            (pid, Process { name: name.into(), seconds })
        };
        let processes = processes.iter().map(process).collect();
        Usage { at, cpus: cpus.collect(), processes }
    }

    #[test]
    fn who_is_busy_is_named_and_the_measurement_itself_is_not() {
        let (begin, end) = (Instant::now(), Instant::now() + Duration::from_secs(10));
        let before = usage(begin, &[(5.0, 1.0), (5.0, 1.0)], &[(7, "rustc", 1.0), (8, "sh", 0.0)]);
        let own = [Own { pid: 1, cpu: 0, seconds: 9.9 }, Own { pid: 2, cpu: 1, seconds: 6.0 }];
        let alone = usage(end, &[(15.0, 1.0), (11.2, 1.1)], &[(1, "perf", 9.9)]);
        assert_eq!(alone.busy_since(&before, &own), None);
        let processes = [(1, "perf", 9.9), (7, "rustc", 4.0), (8, "sh", 0.1), (9, "cc1", 2.0)];
        let disturbed = usage(end, &[(15.0, 1.0), (15.0, 3.0)], &processes);
        let reason = "others used CPU 1 40% of the time; the host took CPU 1 away 20% of the time: \
                      rustc (process 7) 30%, cc1 (process 9) 20%";
        assert_eq!(disturbed.busy_since(&before, &own).as_deref(), Some(reason));
    }

    #[test]
    fn others_elsewhere_count_when_they_are_many() {
        let (begin, end) = (Instant::now(), Instant::now() + Duration::from_secs(10));
        let own = [Own { pid: 1, cpu: 0, seconds: 10.0 }];
        let before = usage(begin, &[(0.0, 0.0); 8], &[]);
        let with = |busy| {
            let mut cpus = [(10.0, 0.0); 8];
            cpus[1..].fill((busy, 0.0));
            usage(end, &cpus, &[]).busy_since(&before, &own)
        };
        assert_eq!(with(1.0), None);
        assert_eq!(with(8.0).as_deref(), Some("others used 70% of all CPUs"));
    }

    #[test]
    fn the_kernel_s_lines_are_read() {
        let read = |line| CpuTime::read(line, 0.01);
        let time = CpuTime { busy: 1.5, stolen: 0.5 };
        assert_eq!(read("cpu1 100 10 20 999 9 15 5 50 0 0"), Some((1, time)));
        assert_eq!(read("cpu  100 10 20 999 9 15 5 50 0 0"), None, "all of them");
        assert_eq!(read("cpu1 100 10"), None);
        assert_eq!(read("intr 1 2 3"), None);
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 1 0 5";
        let process = Process { name: "a (b) c".into(), seconds: 2.0 };
        assert_eq!(Process::read(stat, 0.01), Some(process));
        assert_eq!(Process::read("42 (sh", 0.01), None);
        let (begin, usage) = (own_seconds(), Usage::now());
        assert!(!usage.cpus.is_empty() && usage.processes.contains_key(&std::process::id()));
        assert!(own_seconds() >= begin);
    }
}
