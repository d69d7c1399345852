//! `tidegate init`: writes a commented configuration to start from.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::failure::Failure;
use crate::stdout;

const TEXT: &str = include_str!("../init.toml");

/// Write a commented configuration to start from
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  tidegate init && tidegate check rules.toml && tidegate serve -c rules.toml")]
pub(crate) struct InitArgs {
    /// The file to write, which must not exist; - prints the text
    #[arg(default_value = "rules.toml")]
    file: PathBuf,
}

/// Writes the file, unless it exists.
pub(crate) fn run(args: &InitArgs) -> Result<ExitCode, Failure> {
    if args.file == Path::new("-") {
        stdout::print(TEXT)?;
        return Ok(ExitCode::SUCCESS);
    }
    let file = args.file.display();
    // `create_new`, so that no file is overwritten, even if it appears in this moment.
    let written = File::create_new(&args.file).and_then(|mut file| file.write_all(TEXT.as_bytes()));
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Failure::new(format!("{file} exists and is left as it is: expected another name"))
        }
        _ => Failure::new(format!("cannot write {file}: {error}")),
    })?;
    stdout::print(&format!("{file} is written; next: tidegate serve --config {file}\n"))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every field that the reference lists, in the section where it is listed.
    #[test]
    fn every_field_of_the_reference_is_mentioned_in_its_section() {
        let page = include_str!("../../../../docs/configuration.md");
        let text = TEXT.replace("# [", "[");
        let mut fields = 0;
        for section in page.split("\n## `[").skip(1) {
            let (name, rest) = section.split_once('`').unwrap();
            let header = format!("\n[{name}\n");
            let tables: Vec<_> = text.split(&header).skip(1).collect();
            let written = |field: &str| {
                let mut lines = tables
                    .iter()
                    .flat_map(|table| table.lines().take_while(|line| !line.starts_with('[')));
                lines.any(|line| {
                    let line = line.trim_start_matches("# ");
                    line.starts_with(&format!("{field} = "))
                }) || tables.iter().any(|table| table.contains(&format!("or {field} = ")))
            };
            let rows = rest.lines().filter(|line| line.starts_with("| `"));
            let names =
                rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2));
            for field in names.filter(|field| *field != "override") {
                let also = field == "limit" || field == "window";
                assert!(
                    written(field) || also && TEXT.contains(&format!("{field} = ")),
                    "[{name} {field}"
                );
                fields += 1;
            }
        }
        assert!(fields > 50, "{fields} fields were found");
    }
}
