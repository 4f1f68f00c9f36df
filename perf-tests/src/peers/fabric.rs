//! libfabric's own ping-pong over its shared-memory provider.

use super::running::{find, run_server_and_client};
use std::process::Command;

/// As NetPIPE does, the best mean of so many runs counts.
const RUNS: usize = 3;

/// Half a round trip of tagged messages, in microseconds.
pub fn time_us(size: usize) -> Result<f64, String> {
    (0..RUNS).try_fold(f64::INFINITY, |least, _| Ok(least.min(one_run(size)?)))
}

fn one_run(size: usize) -> Result<f64, String> {
    let program = find(&["fi_pingpong"], "libfabric-bin")?;
    let messages = (100_000_000 / (size + 500)).clamp(100, 50_000);
    let (size, messages) = (size.to_string(), messages.to_string());
    let command = || {
        let mut command = Command::new(&program);
        let options = ["-p", "shm", "-e", "rdm", "-m", "tagged", "-I", &messages, "-S", &size];
        command.args(options);
        command
    };
    let text = run_server_and_client(
        |port| {
            let mut server = command();
            server.args(["-B", &port.to_string()]);
            server
        },
        |port| {
            let mut client = command();
            client.args(["-P", &port.to_string(), "127.0.0.1"]);
            client
        },
    )?;
    microseconds(&text).ok_or_else(|| format!("fi_pingpong printed no time: {text:?}"))
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
