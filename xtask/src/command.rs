//! Programs that we run: shown while they run, and their output kept.

use crate::place::Place;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How a program ended.
pub struct Ended {
    /// Whether its status was 0.
    pub ok: bool,
    /// All it wrote, standard output first.
    pub output: String,
}

/// A cargo command at the root of the workspace. `line` is split at spaces.
pub fn cargo(place: &Place, line: &str) -> Command {
    let mut command = Command::new("cargo");
    command.args(line.split_whitespace()).current_dir(&place.root);
    // What was measured of this machine must not decide what a test sees.
    command.env("TAFFRAIL_TUNING", "off");
    command
}

/// Runs a program, passing its output on as it comes.
pub fn run(command: &mut Command) -> Ended {
    println!("$ {}", shown(command));
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            let output = format!("{} does not start: {error}", shown(command));
            println!("{output}");
            return Ended { ok: false, output };
        }
    };
    let stderr = child
        .stderr
        .take()
        .map(|from| std::thread::spawn(move || pass_on(from, &mut std::io::stderr())));
    let mut output =
        child.stdout.take().map_or_else(String::new, |from| pass_on(from, &mut std::io::stdout()));
    if let Some(stderr) = stderr {
        output += &stderr.join().expect("passing on does not panic");
    }
    let ok = child.wait().is_ok_and(|status| status.success());
    Ended { ok, output }
}

/// Runs a program beside others: its output is shown when it has ended, in one piece.
pub fn run_beside(command: &mut Command) -> Ended {
    let (ok, output) = match command.stdin(Stdio::null()).output() {
        Ok(ended) => {
            let text = [ended.stdout, ended.stderr].concat();
            (ended.status.success(), String::from_utf8_lossy(&text).into_owned())
        }
        Err(error) => (false, format!("{} does not start: {error}\n", shown(command))),
    };
    print!("$ {}\n{output}", shown(command));
    Ended { ok, output }
}

/// What `each` gives for all of these, in their order. It does two at a time, for what keeps one processor busy.
pub fn by_twos<T: Sync, R: Send>(all: &[T], each: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = all.get(at) else { return done };
            done.push((at, each(one)));
        }
    };
    let mut done = std::thread::scope(|scope| {
        let beside = scope.spawn(work);
        let mut done = work();
        done.extend(beside.join().expect("what it does does not panic"));
        done
    });
    done.sort_by_key(|&(at, _)| at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Whether a program runs and succeeds, without showing it.
pub fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// The standard output of a program that succeeds.
pub fn answer(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn pass_on(mut from: impl Read, to: &mut impl Write) -> String {
    let mut kept = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(len @ 1..) = from.read(&mut chunk) {
        kept.extend_from_slice(&chunk[..len]);
        // Nobody may be listening; the result counts all the same.
        let _ = to.write_all(&chunk[..len]).and_then(|()| to.flush());
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// The command as one would type it, with the environment it sets.
fn shown(command: &Command) -> String {
    let set = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}='{}'", name.display(), value?.display())));
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    set.chain(words.map(|word| word.display().to_string())).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_are_done_at_a_time_and_results_keep_their_order() {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let results = by_twos(&[5, 4, 3, 2, 1], |&n: &u64| {
            most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            std::thread::sleep(std::time::Duration::from_millis(20 * n));
            now.fetch_sub(1, Ordering::Relaxed);
            n * 10
        });
        assert_eq!(results, [50, 40, 30, 20, 10]);
        assert_eq!(most.into_inner(), 2);
    }

    #[test]
    fn what_runs_beside_others_has_both_its_outputs_and_its_status() {
        let shell = |line: &str| run_beside(Command::new("sh").args(["-c", line]));
        let ended = shell("echo out; echo err >&2; exit 3");
        assert!(!ended.ok && ended.output == "out\nerr\n", "{}", ended.output);
        assert!(shell(":").ok);
        assert!(!run_beside(&mut Command::new("/there/is/no/such/program")).ok);
    }
}
