//! Programs that we run: shown while they run, and their output kept.

use crate::place::Place;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

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
