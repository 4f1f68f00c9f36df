//! How many tests passed and failed, as test runners say it.

use std::ops::AddAssign;

/// Tests that passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Those that passed.
    pub passed: usize,
    /// Those that failed, in whatever way.
    pub failed: usize,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl Counts {
    /// One test.
    pub fn one(passed: bool) -> Self {
        Counts { passed: usize::from(passed), failed: usize::from(!passed) }
    }

    /// Sums up the closing lines of `cargo test` and `cargo nextest run` in `output`.
    pub fn read(output: &str) -> Self {
        let mut all = Counts::default();
        for line in output.lines() {
            // Nextest shows, indented, what a failed test wrote: its own such line among it.
            let libtest = line.starts_with("test result: ");
            let nextest = line.trim_start().starts_with("Summary [") && line.contains(" run: ");
            if libtest || nextest {
                let words: Vec<&str> = line.split([' ', ',', ';', '(']).collect();
                for pair in words.windows(2) {
                    let Ok(count) = pair[0].parse::<usize>() else { continue };
                    match pair[1] {
                        "passed" => all.passed += count,
                        // Of nextest; its own word for each way to fail.
                        "failed" | "timed" | "exec" => all.failed += count,
                        _ => {}
                    }
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_runners() {
        let output = "\
            running 3 tests\n\
            test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 7 filtered out\n\
            a test that prints: 5 passed, 5 failed\n\
            test result: ok. 10 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
            \x20   test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 7 filtered out\n\
            \x20    Summary [  27.383s] 43 tests run: 39 passed (2 slow), 3 failed, 1 timed out, 5 skipped\n\
            Summary [   0.012s] 1 test run: 1 passed, 0 skipped\n";
        assert_eq!(Counts::read(output), Counts { passed: 2 + 10 + 39 + 1, failed: 1 + 3 + 1 });
        assert_eq!(Counts::read("error: could not compile"), Counts::default());
    }
}
