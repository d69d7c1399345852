//! Invariants of the parser of input, used by the fuzzer and, over its seeds, by the tests.

use tidegate::{KeyedLimiter, MAX_COST, MAX_REQUEST_ID_BYTES, Spec, Under};

use super::args::Args;
use super::bounds::{COMMAND_BYTES, WORD_BYTES, WORDS};
use super::parse::{ParseMistake, Parser};
use super::question::{self, RespQuestion};
use super::throttle_call::ThrottleCall;
use crate::admits::no_more_than_the_limit;

/// The words of the commands of an input, and the error that ended it.
type ParsedCommands = (Vec<Vec<Vec<u8>>>, Option<ParseMistake>);

/// Panics if an input is misread.
pub(crate) fn judge(sent: &[u8]) {
    let whole = read(sent, sent.len().max(1));
    for most in [1, 2, 7, 64] {
        assert_eq!(read(sent, most), whole, "cut after every {most} bytes");
    }
    let anew = written(&whole.0);
    assert_eq!(read(&anew, anew.len().max(1)), (whole.0, None), "written again");
    if let Some(mistake) = whole.1 {
        judge_message(&mistake.message());
    }
}

/// The commands in the form in which clients write them.
fn written(commands: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for words in commands {
        bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
    }
    bytes
}

/// The commands of an input in pieces of at most `most` bytes.
fn read(sent: &[u8], most: usize) -> ParsedCommands {
    let (mut parser, mut at, mut commands) = (Parser::new(), 0, Vec::new());
    let mut came = 0;
    while came < sent.len() {
        came = sent.len().min(came + most);
        loop {
            let unread = sent.get(at..came).unwrap_or_default();
            match parser.parse(unread) {
                Err(mistake) => return (commands, Some(mistake)),
                Ok(None) => break,
                Ok(Some(bytes)) => {
                    assert!((1..=unread.len()).contains(&bytes), "{bytes} of {}", unread.len());
                    assert!(bytes <= COMMAND_BYTES, "{bytes} bytes");
                    let args = parser.args(unread);
                    judge_args(&args);
                    commands.push(args.iter().map(<[u8]>::to_vec).collect());
                    at += bytes;
                }
            }
        }
    }
    (commands, None)
}

/// Words are within their bounds in every command.
fn judge_args(args: &Args<'_>) {
    assert!(args.len() <= WORDS && args.iter().count() == args.len(), "{} words", args.len());
    assert!(args.iter().all(|word| word.len() <= WORD_BYTES), "a long word");
    if args.len() > 1 {
        judge_question(args);
    }
    judge_call(args);
}

/// Reads the words as if they followed TG.CHECK.
fn judge_question(args: &Args<'_>) {
    match RespQuestion::read(args, &mut question::RespEntries::default()) {
        Err(question::QuestionMistake::Arity) => {}
        Err(question::QuestionMistake::NoText) => judge_question(&args.to_texts().as_args()),
        Err(question::QuestionMistake::Invalid(why)) => assert!(!why.detail.is_empty()),
        Ok(question) => question.ask(|request| {
            assert_eq!(request.domain().as_bytes(), args.word(1));
            let id = request.id().map(str::len);
            assert!(id.is_none_or(|bytes| (1..=MAX_REQUEST_ID_BYTES).contains(&bytes)));
            no_more_than_the_limit(request);
            for descriptor in request.descriptors() {
                let entries = descriptor.entries();
                assert!(entries.len() <= 64 && descriptor.units() <= MAX_COST, "{descriptor:?}");
                let options = if request.id().is_some() { 2 } else { 0 };
                let (least, most) = (2 + options, 4 + options);
                let beside = args.len() - 2 * entries.len();
                assert!(beside == least || beside == most, "{descriptor:?} of {args:?}");
            }
        }),
    }
}

/// Reads the words as if they followed CL.THROTTLE, and decides.
fn judge_call(args: &Args<'_>) {
    let Ok(call) = ThrottleCall::read(args) else { return };
    let Ok(rule) = call.limit.rule() else { return };
    let usual = Spec::unlimited(tidegate::AlgorithmKind::TokenBucket);
    let Ok(limiter) = KeyedLimiter::new(usual) else { return };
    let limiter = limiter.with_plans(|_| None);
    let before = limiter.peek(Under(&rule, call.key), call.cost);
    let decided = limiter.check(Under(&rule, call.key), call.cost);
    assert_eq!(decided.is_allowed(), call.cost <= decided.limit, "{decided:?} of a new limiter");
    assert_eq!(decided.is_allowed(), before.is_allowed(), "{before:?}, {decided:?}");
    assert!(decided.remaining <= decided.limit, "{decided:?}");
}

/// A message is one line.
fn judge_message(message: &str) {
    assert!(message.starts_with("ERR ") && !message.contains(['\r', '\n']), "{message:?}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds;

    #[test]
    fn every_seed_and_what_lies_close_to_it_is_judged() {
        let judged = seeds::judge_near(&seeds::of("resp"), b"*$\r\n\"'-9 \0\xff", judge);
        assert!(judged > 3000, "{judged}");
    }

    #[test]
    fn what_lies_further_from_the_seeds_is_judged() {
        seeds::judge_far("resp", judge);
    }
}
