//! libfabric's own ping-pong, over its shared-memory provider or over sockets.

use super::running::{find, run_server_and_client};
use std::path::{Path, PathBuf};
use std::process::Command;

/// As NetPIPE does, the best mean of so many runs counts.
const RUNS: usize = 3;

/// Half a round trip of tagged messages, in microseconds.
pub fn time_us(size: usize) -> Result<f64, String> {
    (0..RUNS).try_fold(f64::INFINITY, |least, _| Ok(least.min(one_run(size)?)))
}

fn one_run(size: usize) -> Result<f64, String> {
    let messages = (100_000_000 / (size + 500)).clamp(100, 50_000);
    let program = installed()?;
    let text = run_server_and_client(
        |port| {
            let mut server = command(&program, "shm", size, messages);
            server.args(["-B", &port.to_string()]);
            server
        },
        |port| {
            let mut client = command(&program, "shm", size, messages);
            client.args(["-P", &port.to_string(), "127.0.0.1"]);
            client
        },
    )?;
    printed_us(&text)
}

/// Its program with tagged messages over sockets: a server, unless it is given an address.
pub fn over_sockets(size: usize, messages: usize) -> Result<Command, String> {
    Ok(command(&installed()?, "tcp", size, messages))
}

/// The time that it printed.
pub fn printed_us(text: &str) -> Result<f64, String> {
    microseconds(text).ok_or_else(|| format!("fi_pingpong printed no time: {text:?}"))
}

fn installed() -> Result<PathBuf, String> {
    find(&["fi_pingpong"], "libfabric-bin")
}

fn command(program: &Path, provider: &str, size: usize, messages: usize) -> Command {
    let mut command = Command::new(program);
    let (size, messages) = (size.to_string(), messages.to_string());
    command.args(["-p", provider, "-e", "rdm", "-m", "tagged", "-I", &messages, "-S", &size]);
    command
}

/// The last line's column `usec/xfer`.
fn microseconds(text: &str) -> Option<f64> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("bytes"));
    let place = lines.next()?.split_whitespace().position(|title| title == "usec/xfer")?;
    lines.filter_map(|line| line.split_whitespace().nth(place)?.parse().ok()).last()
}

#[cfg(test)]
mod tests {
    use super::microseconds;

    #[test]
    fn a_recorded_table_is_read() {
        let table = include_str!("../../tests/fixtures/fi_pingpong.txt");
        assert_eq!(microseconds(table), Some(10.83));
    }

    #[test]
    fn missing_lines_are_noticed() {
        assert_eq!(microseconds(""), None);
        assert_eq!(microseconds("bytes   #sent   usec/xfer\n"), None);
        assert_eq!(microseconds("bytes #sent usec/xfer\n8 1k\n"), None);
        assert_eq!(microseconds("a warning\nbytes #sent usec/xfer\n8 1k 0.76\n"), Some(0.76));
    }
}
