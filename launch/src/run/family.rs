//! The processes below a rank, wherever they have put themselves, and how the launcher waits for the ends of its
//! children: never without a limit.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use std::io::{Error, ErrorKind, Result};
use std::process::Child;
use std::time::{Duration, Instant};

/// How long a process that was killed may take to end: one with much memory, or one that waits in the kernel for a
/// disk.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Between two looks at a process that is about to end.
const LOOK: Duration = Duration::from_millis(1);

/// Waits until something that was killed has ended: until `ended` says so, which does not wait.
///
/// # Errors
/// That of `ended`, and [`ErrorKind::TimedOut`] when it has not ended for so long.
pub fn wait_for<T>(limit: Duration, mut ended: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let started = Instant::now();
    loop {
        match ended() {
            Ok(Some(how)) => return Ok(how),
            Ok(None) if started.elapsed() < limit => std::thread::sleep(LOOK),
            Ok(None) => {
                let why = format!("it was killed, and has not ended for {} s", limit.as_secs());
                return Err(Error::new(ErrorKind::TimedOut, why));
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// Waits for the end of a child that is about to end by itself, and kills it after this time: it may be stopped.
pub fn end(process: &mut Child, grace: Duration) {
    end_within(process, grace, PATIENCE);
}

/// The same, and waits for this time until one that was killed has ended.
pub fn end_within(process: &mut Child, grace: Duration, limit: Duration) {
    if wait_for(grace, || process.try_wait()).is_err() {
        let _ = process.kill();
        let _ = wait_for(limit, || process.try_wait());
    }
}

/// Whether a child has ended, and has not been reaped.
///
/// # Errors
/// When the system does not tell.
pub fn has_ended(child: Pid) -> rustix::io::Result<bool> {
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(child), ended).map(|status| status.is_some())
}

/// Sends a signal to the group that a rank leads, and to all that it has started and that is in other groups.
/// A process is signalled before its children are looked up, so that one that stops starts none meanwhile.
pub fn signal_all(leader: Pid, signal: Signal) {
    let _ = rustix::process::kill_process_group(leader, signal);
    let mut unseen = children(leader);
    while let Some(pid) = unseen.pop() {
        if group(pid) != Some(leader.as_raw_pid()) {
            let _ = rustix::process::kill_process(pid, signal);
        }
        unseen.extend(children(pid));
    }
}

/// The children of all threads of a process, as far as the system tells.
pub fn children(pid: Pid) -> Vec<Pid> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let pids = |list: String| -> Vec<Pid> {
        list.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
    };
    lists.flat_map(pids).collect()
}

/// What the system calls the program of a process: up to 15 characters.
pub fn name(pid: i32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim().to_owned()
}

/// Whether a process is stopped; `None` where the system does not tell.
pub fn is_stopped(pid: i32) -> Option<bool> {
    Some(stat(pid, 0)? == "T")
}

/// Whether a process is about to end, and has perhaps closed its connections already, or has ended and was not
/// reaped; `None` if there is no such process, or the system does not tell.
pub fn is_exiting(pid: i32) -> Option<bool> {
    const EXITING: u64 = 4;
    Some(stat(pid, 6)?.parse::<u64>().ok()? & EXITING != 0)
}

/// The process group of a process: 0 where its leader is outside of the pid namespace that this process is in, as in
/// a container. `None` if there is no such process, or the system does not tell.
pub fn group(pid: Pid) -> Option<i32> {
    stat(pid.as_raw_pid(), 2)?.parse().ok()
}

/// The session of a process, as its [`group`].
pub fn session(pid: Pid) -> Option<i32> {
    stat(pid.as_raw_pid(), 3)?.parse().ok()
}

/// The time for which all threads of a process have used processors, in ticks of the kernel; `None` if there is no such
/// process, or the system does not tell.
pub fn processor_time(pid: Pid) -> Option<u64> {
    let ticks = |field| stat(pid.as_raw_pid(), field)?.parse::<u64>().ok();
    Some(ticks(11)? + ticks(12)?)
}

/// A field of what the system says of a process, counted from the one behind the name, which may have anything
/// in it.
fn stat(pid: i32, field: usize) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let rest = stat.rsplit(") ").next()?;
    rest.split(' ').nth(field).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_state_of_a_process_is_known_until_it_is_reaped() {
        let mut process = Command::new("sleep").arg("100").spawn().unwrap();
        let (child, pid) = (Pid::from_child(&process), process.id() as i32);
        assert_eq!((is_exiting(pid), is_stopped(pid)), (Some(false), Some(false)));
        process.kill().unwrap();
        wait_for(PATIENCE, || Ok(has_ended(child)?.then_some(()))).unwrap();
        assert_eq!(is_exiting(pid), Some(true));
        process.wait().unwrap();
        assert_eq!((is_exiting(pid), is_stopped(pid)), (None, None));
    }

    #[test]
    fn a_wait_has_an_end() {
        let soon = Duration::from_millis(5);
        let mut looks = 0;
        let third = || {
            looks += 1;
            if looks == 2 {
                return Err(ErrorKind::Interrupted.into());
            }
            Ok((looks == 3).then_some(looks))
        };
        assert_eq!(wait_for(PATIENCE, third).unwrap(), 3);
        let never = wait_for(soon, || Ok(None::<()>)).unwrap_err();
        assert_eq!(never.kind(), ErrorKind::TimedOut);
        let refused = wait_for(PATIENCE, || Err::<Option<()>, _>(Error::from_raw_os_error(1)));
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(1));
    }

    #[test]
    fn a_child_that_is_stopped_is_ended() {
        let mut process = Command::new("sleep").arg("100").spawn().unwrap();
        let pid = Pid::from_child(&process);
        rustix::process::kill_process(pid, Signal::STOP).unwrap();
        assert_eq!(has_ended(pid), Ok(false));
        end(&mut process, Duration::from_millis(20));
        assert!(process.try_wait().unwrap().is_some());
        assert!(has_ended(pid).is_err(), "it is reaped");
    }
}
