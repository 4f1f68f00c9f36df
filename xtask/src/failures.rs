//! What failed tests said, out of all that a step wrote: it is shown again at the end, where it is found.

/// Lines behind one that says why.
const BEHIND: usize = 6;

/// Lines of one step.
const MOST: usize = 60;

/// The names of failed tests in what `cargo test`, `cargo nextest run` or the simulator wrote, and what they failed with. A line
/// is there once.
pub fn failures(output: &str) -> Vec<&str> {
    let (mut lines, mut more) = (Vec::new(), 0);
    for line in output.lines().map(str::trim_end) {
        let (is_name, is_reason) = (is_name(line.trim_start()), is_reason(line));
        if is_reason {
            more = BEHIND;
        }
        if (is_name || is_reason || more > 0) && !line.is_empty() && !lines.contains(&line) {
            lines.push(line);
        }
        more = more.saturating_sub(usize::from(!is_reason));
    }
    lines.truncate(MOST);
    lines
}

fn is_name(line: &str) -> bool {
    let nextest = ["FAIL [", "TIMEOUT [", "SIGABRT [", "SIGSEGV [", "SIGKILL [", "SIGBUS ["];
    nextest.iter().any(|word| line.starts_with(word))
        || line.starts_with("test ") && line.ends_with(" ... FAILED")
}

fn is_reason(line: &str) -> bool {
    ["panicked at", "error: ", "error[", "violated: ", "AddressSanitizer: "]
        .iter()
        .any(|words| line.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_reasons_are_found_once_and_in_order() {
        let output = "\
            PASS [   0.1s] (1/3) taffrail one\n\
            \x20       FAIL [   1.0s] (2/3) taffrail two\n\
            test two ... FAILED\n\
            thread 'two' panicked at src/two.rs:2:2:\n\
            left: 1\n\n\
            1\n2\n3\n4\n5\n\
            test result: FAILED. 0 passed; 1 failed\n\
            \x20       FAIL [   1.0s] (2/3) taffrail two\n\
            violated: no panic\n\
            to run it again: cargo xtask sim --seed 7\n";
        let expected = "\
            \x20       FAIL [   1.0s] (2/3) taffrail two\n\
            test two ... FAILED\n\
            thread 'two' panicked at src/two.rs:2:2:\n\
            left: 1\n\
            1\n2\n3\n4\n\
            violated: no panic\n\
            to run it again: cargo xtask sim --seed 7";
        assert_eq!(failures(output).join("\n"), expected);
        assert!(failures("all is well\n").is_empty());
    }
}
