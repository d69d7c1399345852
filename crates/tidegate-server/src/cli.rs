//! The command line: its subcommands, and their exit codes. `main` calls [`run`].
//!
//! A subcommand is one file with its arguments and `run`, and one line in [`CliCommand`] and in [`run`].

mod address;
mod bounds;
mod check;
mod compare;
mod completions;
mod decider;
mod diff;
mod environment;
mod guard;
mod init;
mod lab;
mod listeners;
mod man;
mod operator;
mod passed;
mod percentage;
mod replay;
mod schema;
mod script;
mod serve;
mod sources;
mod trace_flags;

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Error, FromArgMatches, Parser, Subcommand};

use crate::failure::Failure;
use operator::{peek, reservations, reset, rules, stats, tail, top};

const EXAMPLES: &str = "\
Examples:
  tidegate serve                          rules built in, to try things out
  tidegate init                           writes rules.toml, to start from
  tidegate check rules.toml               is the configuration sound?
  tidegate diff rules.toml new.toml       what would change, and for whom?
  tidegate serve -c rules.toml            your own rules
  tidegate replay -c rules.toml --trace access.log.gz
                                          whom would these rules have refused?
  tidegate compare --rate 200/60s         every algorithm with one limit, side by side
  tidegate script token_bucket            the Lua by which it decides in Redis
  tidegate rules                          what a running server has in force
  tidegate peek user=ada                  what it would answer
  tidegate top                            who is refused most
  tidegate tail --outcome refused         who is refused now

Exit codes: 0 done, 1 it could not be done, 2 wrong usage or a mistake in the configuration;
of `diff` 0 the same, 1 different, 2 neither could be said.";

/// A rate limiter whose every algorithm has a bound that is proven and kept.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, after_long_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    Serve(Box<serve::ServeArgs>),
    Init(init::InitArgs),
    Check(check::CheckArgs),
    Diff(diff::DiffArgs),
    Replay(replay::ReplayArgs),
    Compare(compare::CompareArgs),
    Schema(schema::SchemaArgs),
    Script(script::ScriptArgs),
    Rules(rules::RulesArgs),
    Peek(peek::PeekArgs),
    Reset(reset::ResetArgs),
    Reservations(reservations::ReservationsArgs),
    Top(top::TopArgs),
    Stats(stats::StatsArgs),
    Tail(tail::TailArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

/// Runs the command line. Wrong usage is exit code 2.
pub(crate) fn run() -> ExitCode {
    let given: Vec<_> = env::args_os().collect();
    let of_command = given.get(1..).unwrap_or_default();
    let command = match parse(&given) {
        Ok(command) => command,
        // clap names the flag of a wrong value, also if a variable gave it.
        Err(error) => match of_variable(of_command, &error) {
            Some(failure) => return failure.report(),
            None => return shown(&with_tip(sources::without_secrets(error))),
        },
    };
    let done = match &command {
        CliCommand::Serve(args) => {
            let surroundings = environment::Surroundings::of(&Cli::command(), of_command);
            serve::run(args, of_command, &surroundings)
        }
        CliCommand::Init(args) => init::run(args),
        CliCommand::Check(args) => check::run(args),
        CliCommand::Diff(args) => diff::run(args),
        CliCommand::Replay(args) => replay::run(args),
        CliCommand::Compare(args) => compare::run(args),
        CliCommand::Schema(args) => schema::run(args),
        CliCommand::Script(args) => script::run(args),
        CliCommand::Rules(args) => rules::run(args),
        CliCommand::Peek(args) => peek::run(args),
        CliCommand::Reset(args) => reset::run(args),
        CliCommand::Reservations(args) => reservations::run(args),
        CliCommand::Top(args) => top::run(args),
        CliCommand::Stats(args) => stats::run(args),
        CliCommand::Tail(args) => tail::run(args),
        CliCommand::Completions(args) => completions::run(args, Cli::command()),
        CliCommand::Man(args) => man::run(args, Cli::command()),
    };
    done.unwrap_or_else(|failure| failure.report())
}

/// Prints wrong usage, or the help or version that was asked for, which a person may want to keep.
fn shown(error: &Error) -> ExitCode {
    let code = ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
    let printed = error.print().and_then(|()| io::stdout().flush());
    if error.use_stderr() {
        return code;
    }
    crate::stdout::had_reader(printed).map_or_else(|failure| failure.report(), |_| code)
}

/// Adds a tip to words that are meant in another form.
fn with_tip(mut error: Error) -> Error {
    // clap suggests flags with similar names, and these words are meant in another form.
    let meant = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(word))) => match word.as_str() {
            "--verbose" => Some("expected `--log-level debug`, of `tidegate serve`".to_owned()),
            file if file.ends_with(".toml") => Some(format!("expected `--config {file}`")),
            _ => None,
        },
        (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(words)))
            if words.iter().any(|word| word == "<FILE>") =>
        {
            Some("`--config FILE` or TIDEGATE_CONFIG names it as well".to_owned())
        }
        _ => None,
    };
    if let Some(meant) = meant {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![meant.into()]));
    }
    error
}

fn parse(given: &[OsString]) -> Result<CliCommand, Error> {
    let is_brief = given.iter().any(|word| word == "-h");
    let command = if is_brief { brief(Cli::command()) } else { Cli::command() };
    Ok(Cli::from_arg_matches(&command.try_get_matches_from(given)?)?.command)
}

/// The commands with a help of one screen each: `--help` names variables and possible values.
fn brief(command: clap::Command) -> clap::Command {
    // With them the list of commands is longer than a screen.
    let command = command.mut_subcommand("man", |man| man.hide(true));
    let command = command.mut_subcommand("completions", |completions| completions.hide(true));
    let command = command.mut_subcommand("schema", |schema| schema.hide(true));
    command.mut_subcommands(|command| {
        command.mut_args(|arg| {
            let is_flag = !arg.get_action().takes_values();
            if is_flag { arg } else { arg.hide_env(true).hide_possible_values(true) }
        })
    })
}

/// The failure, if the subcommand was refused because of a variable.
fn of_variable(given: &[OsString], error: &Error) -> Option<Failure> {
    let mut cli = Cli::command();
    // Only a built command has the flags of its subcommands in the form in which an error names them.
    cli.build();
    let name = given.first()?.to_str()?;
    sources::of_variable(cli.find_subcommand(name)?, given, error)
}

#[cfg(test)]
mod tests {
    pub(super) mod pages;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn each_flag_of_serve_is_a_variable_of_its_name_and_a_field_that_is_documented() {
        let page = include_str!("../../../docs/configuration.md");
        let page = page.split("\n## ").find(|section| section.starts_with("`[server]`")).unwrap();
        let cli = Cli::command();
        let serve = cli.find_subcommand("serve").unwrap();
        let flags = serve.get_arguments().map(|arg| (arg.get_long().unwrap(), arg.get_env()));
        let mut fields = 0;
        for (flag, variable) in flags {
            let field = flag.replace('-', "_");
            let expected = format!("TIDEGATE_{}", field.to_uppercase());
            assert_eq!(variable.unwrap().to_str(), Some(&*expected));
            if !["config", "store"].contains(&flag) {
                assert!(page.contains(&format!("\n| `{field}` |")), "{field}");
                fields += 1;
            }
        }
        assert_eq!(page.matches("\n| `").count(), fields, "each is a flag");
    }

    #[test]
    fn the_short_help_of_each_command_is_one_screen() {
        let mut cli = brief(Cli::command()).term_width(80);
        cli.build();
        let commands: Vec<_> = cli.get_subcommands().map(|one| one.get_name().to_owned()).collect();
        let mut helps = vec![cli.render_help().to_string()];
        for name in &commands {
            let command = cli.find_subcommand_mut(name).unwrap();
            helps.push(command.clone().term_width(80).render_help().to_string());
            // These lines are printed as they are; examples may be longer.
            let long = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
            let too_long = long.lines().find(|line| line.len() > 80 && !line.starts_with(' '));
            assert_eq!(too_long, None, "{name}");
        }
        for help in helps {
            assert!(help.lines().count() <= 24, "{help}");
            assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
        }
    }

    #[test]
    fn the_page_of_the_command_line_lists_every_command_and_flag() {
        let page = include_str!("../../../docs/cli.md");
        for command in Cli::command().get_subcommands() {
            let header = format!("`tidegate {}`", command.get_name());
            let section = page.split("\n## ").find(|section| section.starts_with(&header)).unwrap();
            let rows: Vec<_> = section.lines().filter(|line| line.starts_with("| `-")).collect();
            let flags: Vec<_> =
                command.get_arguments().filter_map(|arg| Some((arg.get_long()?, arg))).collect();
            assert_eq!(rows.len(), flags.len(), "{header}");
            for (flag, arg) in flags {
                let row = rows.iter().find(|row| row.starts_with(&format!("| `--{flag}`")));
                let row = row.unwrap_or_else(|| panic!("{header} --{flag}"));
                let short = arg.get_short().map_or(String::new(), |short| format!("`-{short}`"));
                let variable = arg.get_env().map_or("", |name| name.to_str().unwrap());
                assert!(row.contains(&short), "{row}");
                assert!(section.contains(variable) || variable == "TIDEGATE_CONFIG", "{variable}");
            }
        }
    }
}
