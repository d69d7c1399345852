//! The rule of lengths: a file is read in one sitting.

use super::{Findings, House};
use crate::tree::SourceFile;

/// A longer file is reported: it probably has two purposes.
const LONG: usize = 250;

/// A longer file breaks the rule.
const TOO_LONG: usize = 400;

/// Counts the lines of every Rust file, tests and comments included.
pub(super) fn check(house: &House<'_>) -> Findings {
    judge(house.files.iter().filter(|file| file.is("rs")))
}

fn judge<'a>(files: impl Iterator<Item = &'a SourceFile>) -> Findings {
    let mut findings = Findings::default();
    for file in files {
        let path = file.path.display();
        let lines = file.text.lines().count();
        if lines > TOO_LONG {
            findings.complaints.push(format!(
                "{path}: {lines} lines, {TOO_LONG} at most; split it by what its parts are for"
            ));
        } else if lines > LONG {
            findings.notes.push(format!("{path}: {lines} lines"));
        }
    }
    if !findings.notes.is_empty() {
        findings.remark = format!("files over {LONG} lines: {}", findings.notes.len());
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::file;

    #[test]
    fn long_files_are_remarked_upon_and_too_long_ones_refused() {
        let of = |lines: usize| file(&format!("{lines}.rs"), &"x\n".repeat(lines));
        let findings = judge([of(250), of(251), of(400), of(401)].iter());
        assert_eq!(findings.notes, ["251.rs: 251 lines", "400.rs: 400 lines"]);
        assert_eq!(findings.remark, "files over 250 lines: 2");
        assert_eq!(findings.complaints.len(), 1);
        assert!(findings.complaints[0].starts_with("401.rs: 401 lines"));
    }
}
