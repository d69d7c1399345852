//! `tidegate script` prints the Lua script of an algorithm, and a shell line that runs it by hand, for operators who
//! look into a store.

use std::fmt::Write;
use std::ops::Range;
use std::process::ExitCode;
use std::time::Duration;

use tidegate::script::{Call, ScriptLimiter, ScriptStep};
use tidegate::{AlgorithmKind, Rule, Spec, config};

use crate::failure::Failure;
use crate::stdout;

/// Print the script of an algorithm in a store, and how to run it
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:  tidegate script sliding_log --rate 100/60s --cost 3 --key tg:api:ada",
    after_long_help = "The store gets this text for a limiter that is asked alone. The comments before
it hold the shell line and the meaning of its argument. That line asks a Redis
at 127.0.0.1:6379; name another by REDIS, such as REDIS='redis-cli -p 6380'.

Examples:
  tidegate script token_bucket
  tidegate script sliding_log --rate 100/60s --cost 3 --key tg:api:ada"
)]
pub(crate) struct ScriptArgs {
    /// The algorithm, such as token_bucket
    #[arg(value_parser = algorithm)]
    name: AlgorithmKind,
    /// The limit and the window of the argument, such as 200/60s
    #[arg(long, value_parser = config::parse_rate, default_value = "5/60s")]
    rate: (u64, Duration),
    /// The units that are asked for
    #[arg(long, default_value_t = 1)]
    cost: u64,
    /// The key of the limiter
    #[arg(long, default_value = "tidegate:by-hand")]
    key: String,
}

fn algorithm(name: &str) -> Result<AlgorithmKind, String> {
    AlgorithmKind::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = AlgorithmKind::ALL.iter().map(|one| one.name()).collect();
        format!("expected one of {}", names.join(", "))
    })
}

/// Prints the script.
pub(crate) fn run(args: &ScriptArgs) -> Result<ExitCode, Failure> {
    let (limit, window) = args.rate;
    let rule =
        Rule::new(Spec::new(args.name, limit, window)).map_err(|errors| Failure::new(&errors))?;
    let limiter = ScriptLimiter::new(args.key.as_bytes(), &rule, args.cost)
        .ok_or_else(|| Failure::new("a rule without a limit asks no store"))?;
    let call = Call::new(&[limiter], ScriptStep::Ask, None);
    let argument = call.args.first().map_or(&[][..], Vec::as_slice);
    let line = format!(
        "${{REDIS:-redis-cli}} --no-raw --quoted-input EVALSHA \"$(tidegate script {} | ${{REDIS:-redis-cli}} -x SCRIPT LOAD)\" \
         1 '\"{}\"' '\"{}\"'",
        args.name,
        quoted(args.key.as_bytes()),
        quoted(argument),
    );
    stdout::print(&format!(
        "-- {} in a store: {limit} units in {} us. This shell line asks for {} and prints the decision:\n--\n\
         --   {line}\n--\n{}{}",
        args.name,
        window.as_micros(),
        args.cost,
        meaning(argument, &call.script.text),
        call.script.text,
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Bytes for `redis-cli --quoted-input`.
fn quoted(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // No quote and no backslash: the text stands within quotes of the shell and of `redis-cli`.
        let plain = byte.is_ascii_alphanumeric() || b":_-./{}@".contains(byte);
        let _ = if plain {
            write!(text, "{}", char::from(*byte))
        } else {
            write!(text, "\\x{byte:02x}")
        };
        text
    })
}

/// Comments that name the parts of an argument, and explain the replies. The numbers after the head of a state have the
/// names that the script gives them.
fn meaning(argument: &[u8], script: &str) -> String {
    // 33 bytes come before the doubles, as `prelude.lua` documents.
    let (head, numbers) = argument.split_at(argument.len().min(33));
    let names = script.split_once("  local cost, ").and_then(|(_, rest)| rest.split_once('='));
    let names = names.map_or("", |(names, _)| names).split(',').map(str::trim);
    let numbers: Vec<String> = ["cost"]
        .into_iter()
        .chain(names)
        .zip(numbers.as_chunks::<8>().0)
        .map(|(name, bytes)| format!("{name} {}", f64::from_le_bytes(*bytes)))
        .collect();
    format!(
        "-- The first word in quotes is the key, and the second the argument. Its bytes are, low byte first:\n\
         --   1      version {}\n--   2      algorithm {}\n--   3-6    limit {}\n--   7-12   window {} us\n\
         --   13-18  {}, and\n--   19-22  {}: of the algorithm\n\
         --   23-33  revision {} of the values, loaded at {} us\n\
         --   34-    doubles: {}\n\
         -- A third word, '\"peek\"', only looks. To read the reply: one text in quotes means that the units were\n\
         -- taken, and is the new state; a list begins with the verdict (0 admits, 1 denies, 2 never admits), and goes on\n\
         -- with the time, the time that counts, and the state. Two texts: the key was written under another rule.\n\n",
        number(head, 0..1),
        number(head, 1..2),
        number(head, 2..6),
        number(head, 6..12),
        number(head, 12..18),
        number(head, 18..22),
        number(head, 22..26),
        number(head, 26..33),
        numbers.join(", "),
    )
}

/// A number that is written low byte first.
fn number(of: &[u8], place: Range<usize>) -> u64 {
    let bytes = of.get(place).unwrap_or_default();
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
