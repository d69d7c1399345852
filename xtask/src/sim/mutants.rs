//! The mutants, as `mutants.txt` lists them.

use anyhow::{Result, bail};

/// A mistake, as replacements in one file.
pub(crate) struct Mutant {
    /// The test of the simulator that has to find it.
    pub(crate) test: &'static str,
    pub(crate) name: &'static str,
    /// From the root of the workspace.
    pub(crate) file: &'static str,
    replacements: Vec<Replacement>,
}

/// The lines that are there, once, and the mutant's lines in their place.
#[derive(Default)]
struct Replacement {
    from: Vec<&'static str>,
    to: Vec<&'static str>,
}

/// All mutants, in the order of the list.
pub(crate) fn all() -> Vec<Mutant> {
    let mut mutants: Vec<Mutant> = Vec::new();
    let mut test = "";
    for line in include_str!("mutants.txt").lines() {
        if let Some(name) = line.strip_prefix("test: ") {
            test = name;
        } else if let Some(name) = line.strip_prefix("mutant: ") {
            mutants.push(Mutant { test, name, file: "", replacements: Vec::new() });
        } else if let Some(mutant) = mutants.last_mut() {
            mutant.read(line);
        }
    }
    mutants
}

impl Mutant {
    /// Reads a line of its entry.
    fn read(&mut self, line: &'static str) {
        if let Some(file) = line.strip_prefix("file: ") {
            self.file = file;
        } else if let Some(there) = line.strip_prefix('-') {
            if self.replacements.last().is_none_or(|last| !last.to.is_empty()) {
                self.replacements.push(Replacement::default());
            }
            self.replacements.last_mut().into_iter().for_each(|last| last.from.push(there));
        } else if let Some(instead) = line.strip_prefix('+') {
            self.replacements.last_mut().into_iter().for_each(|last| last.to.push(instead));
        }
    }

    /// Returns the text with the mistake.
    ///
    /// # Errors
    ///
    /// Lines to replace are not there exactly once.
    pub(crate) fn of(&self, text: &str) -> Result<String> {
        let mut text = text.to_owned();
        for Replacement { from, to } in &self.replacements {
            let from = from.join("\n");
            let times = text.matches(&from).count();
            if times != 1 {
                let Self { name, file, .. } = self;
                bail!("the mutant \"{name}\": `{from}` is in {file} {times} times, not once");
            }
            text = text.replace(&from, &to.join("\n"));
        }
        Ok(text)
    }
}
