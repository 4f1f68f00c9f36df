//! UCX's own benchmark.

use super::running::{find, run_server_and_client};
use std::process::Command;

/// As NetPIPE does, the best mean of so many runs counts.
const RUNS: usize = 3;

/// Half a round trip with tag matching, in microseconds.
pub fn time_us(size: usize) -> Result<f64, String> {
    (0..RUNS).try_fold(f64::INFINITY, |least, _| Ok(least.min(one_run_us(size)?)))
}

fn one_run_us(size: usize) -> Result<f64, String> {
    let messages = (100_000_000 / (size + 500)).clamp(100, 100_000);
    let text = perftest("tag_lat", size, messages)?;
    column(&text, "avg_lat").ok_or_else(|| format!("ucx_perftest printed no latency: {text:?}"))
}

/// Messages a second with tag matching.
pub fn rate(size: usize) -> Result<f64, String> {
    let messages = (2_000_000_000 / (size + 500)).clamp(100, 4_000_000);
    let text = perftest("tag_bw", size, messages)?;
    column(&text, "overall_mr").ok_or_else(|| format!("ucx_perftest printed no rate: {text:?}"))
}

fn perftest(test: &str, size: usize, messages: usize) -> Result<String, String> {
    let program = find(&["ucx_perftest"], "ucx-utils")?;
    let command = |port: u16| {
        let mut command = Command::new(&program);
        command.args(["-p", &port.to_string()]);
        command
    };
    run_server_and_client(command, |port| {
        let mut client = command(port);
        let (size, messages) = (size.to_string(), messages.to_string());
        client.args(["127.0.0.1", "-t", test, "-s", &size, "-n", &messages, "-f", "-v"]);
        client
    })
}

/// The last value in the column `name` of the comma-separated table that `-v` prints.
fn column(text: &str, name: &str) -> Option<f64> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("iterations,"));
    let place = lines.next()?.split(',').position(|title| title.trim() == name)?;
    lines.filter_map(|line| line.split(',').nth(place)?.trim().parse().ok()).last()
}

#[cfg(test)]
mod tests {
    use super::column;

    #[test]
    fn recorded_tables_are_read() {
        let latency = include_str!("../../tests/fixtures/ucx_perftest.tag_lat.csv");
        assert_eq!(column(latency, "avg_lat"), Some(3.906));
        let rate = include_str!("../../tests/fixtures/ucx_perftest.tag_bw.csv");
        assert_eq!(column(rate, "overall_mr"), Some(5_651_028.0));
    }

    #[test]
    fn missing_lines_and_columns_are_noticed() {
        assert_eq!(column("", "avg_lat"), None);
        assert_eq!(column("iterations,avg_lat\n", "avg_lat"), None);
        assert_eq!(column("iterations,avg_lat\n100,0.5\n", "overall_mr"), None);
        assert_eq!(column("iterations,avg_lat\n100\n", "avg_lat"), None);
        assert_eq!(column("a warning\niterations,avg_lat\n1,0.7\n2,0.5\n", "avg_lat"), Some(0.5));
    }
}
