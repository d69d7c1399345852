//! Adds up the `test result:` lines of cargo test while its output goes past.

use std::fmt;

/// The results of the tests of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
    skipped: u64,
    /// The line that has not yet ended.
    line: Vec<u8>,
}

impl Tally {
    /// Takes the next piece of output; pieces can end anywhere, even within a line.
    pub(crate) fn feed(&mut self, output: &[u8]) {
        for &byte in output {
            if byte == b'\n' {
                self.end_line();
            } else {
                self.line.push(byte);
            }
        }
    }

    /// Notes that a test run failed.
    ///
    /// Code that does not compile, or a test program that aborts, fails without a result line. It
    /// counts as one failure, so that the total never hides it.
    pub(crate) fn run_failed(&mut self) {
        self.failed = self.failed.max(1);
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let Some(result) = line.strip_prefix("test result: ") else {
            return;
        };
        self.passed += value(result, "passed");
        self.failed += value(result, "failed");
        self.skipped += value(result, "ignored");
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

/// The number before a word: 5 for `passed` in `ok. 5 passed; 0 failed`.
fn value(result: &str, word: &str) -> u64 {
    let words: Vec<&str> = result.split([' ', ';']).collect();
    let pairs = words.windows(2).filter_map(|pair| match pair {
        [number, name] if *name == word => number.parse::<u64>().ok(),
        _ => None,
    });
    pairs.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
running 6 tests
test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.01s

test result: FAILED. 40 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s
a test that prints test result: ok. 9 passed; 9 failed; is not a result
";

    #[test]
    fn result_lines_are_added_up_wherever_pieces_end() {
        for length in [1, OUTPUT.len()] {
            let mut tally = Tally::default();
            OUTPUT.as_bytes().chunks(length).for_each(|piece| tally.feed(piece));
            assert_eq!(tally.to_string(), "45 passed, 2 failed, 1 skipped");
        }
    }

    #[test]
    fn a_run_that_fails_without_a_result_counts_as_one_failure() {
        let mut tally = Tally::default();
        tally.run_failed();
        assert_eq!(tally.to_string(), "0 passed, 1 failed");
        tally.feed(b"test result: FAILED. 1 passed; 2 failed; 0 ignored\n");
        tally.run_failed();
        assert_eq!(tally.to_string(), "1 passed, 3 failed");
    }
}
