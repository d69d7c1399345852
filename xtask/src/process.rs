//! Runs other programs: prints the command before, and passes their output on.

use std::env;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::context::Context;
use crate::step::Outcome;
use crate::tally::Tally;

/// The cargo that runs this program, at the root of the workspace, with these words.
pub(crate) fn cargo(context: &Context, words: &str) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(words.split_whitespace()).current_dir(context.root());
    command
}

/// Runs a command to its end; returns whether it succeeded.
///
/// # Errors
///
/// Returns an error if the program cannot be started.
pub(crate) fn succeeds(command: &mut Command) -> Result<bool> {
    Ok(!run_as_step(command)?.is_failure())
}

/// Runs a command that decides the success of the step.
///
/// # Errors
///
/// Returns an error if the program cannot be started.
pub(crate) fn run_as_step(command: &mut Command) -> Result<Outcome> {
    announce(command);
    let status = command.status().with_context(|| cannot_start(command))?;
    Ok(outcome(command, status))
}

/// Runs a command that runs tests, and counts the results in its standard output.
///
/// Every byte is passed on before it is read.
///
/// # Errors
///
/// Returns an error if the program cannot be started, or its output cannot be read or passed on.
pub(crate) fn run_tests(command: &mut Command, tally: &mut Tally) -> Result<Outcome> {
    announce(command);
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| cannot_start(command))?;
    if let Some(output) = child.stdout.take() {
        pass_on(output, &mut io::stdout().lock(), tally).context("passing test output on")?;
    }
    let status = child.wait()?;
    Ok(outcome(command, status))
}

/// Returns whether a command succeeds, without output, for example a request for its version.
pub(crate) fn answers(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Makes sure that something works, adding it if it does not.
///
/// # Errors
///
/// Returns an error if it does not work and cannot be added; `remedy` says what to do.
pub(crate) fn ensure(
    works: impl Fn() -> bool,
    add: impl FnOnce() -> bool,
    remedy: &str,
) -> Result<()> {
    if works() || (add() && works()) {
        return Ok(());
    }
    bail!("{remedy} and try again")
}

fn pass_on(mut from: impl Read, to: &mut impl Write, tally: &mut Tally) -> io::Result<()> {
    let mut buffer = [0; 8192];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => buffer.get(..read).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(read)?;
        to.flush()?;
        tally.feed(read);
    }
}

fn outcome(command: &Command, status: ExitStatus) -> Outcome {
    if status.success() {
        return Outcome::passed();
    }
    let first = command.get_args().next().unwrap_or_default().to_string_lossy();
    Outcome::Failed(format!("{} {first}: {status}", program(command)))
}

fn announce(command: &Command) {
    println!("$ {}", line(command));
}

fn cannot_start(command: &Command) -> String {
    format!("cannot start `{}`", line(command))
}

/// The command as a line of a shell, with its environment.
fn line(command: &Command) -> String {
    let set = command.get_envs().filter_map(|(name, value)| {
        Some(format!("{}={:?}", name.to_string_lossy(), value?.to_string_lossy()))
    });
    let arguments = command.get_args().map(|word| word.to_string_lossy().into_owned());
    set.chain([program(command)]).chain(arguments).collect::<Vec<_>>().join(" ")
}

fn program(command: &Command) -> String {
    let program = Path::new(command.get_program());
    program.file_name().unwrap_or(command.get_program()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn output_is_passed_on_byte_for_byte_and_counted() {
        let said = b"\xff odd bytes\r\ntest result: ok. 3 passed; 0 failed; 1 ignored; 0\n";
        let (mut passed_on, mut tally) = (Vec::new(), Tally::default());
        pass_on(&said[..], &mut passed_on, &mut tally).unwrap();
        assert_eq!(passed_on, said);
        assert_eq!(tally.to_string(), "3 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let mut command = Command::new("/some/where/cargo");
        command.args(["doc", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(line(&command), r#"RUSTDOCFLAGS="-D warnings" cargo doc --no-deps"#);
    }

    #[test]
    fn only_what_does_not_work_is_added_and_what_can_not_be_is_an_error_with_the_remedy() {
        let added = Cell::new(false);
        ensure(|| true, || added.replace(true), "install it").unwrap();
        assert!(!added.get());
        ensure(|| added.get(), || !added.replace(true), "install it").unwrap();
        for says in [true, false] {
            let error = ensure(|| false, || says, "install it").unwrap_err().to_string();
            assert_eq!(error, "install it and try again");
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = succeeds(&mut Command::new("no-such-program-here")).unwrap_err();
        assert!(error.to_string().contains("no-such-program-here"));
        assert!(!answers(&mut Command::new("no-such-program-here")));
    }
}
