//! Parses one row: the time and the verb, and after the bar the expected answer.

use super::duration::{parse_count, parse_duration_us};
use super::{Answer, Expect, Step, Verb};

/// Reads a row of the table at `line`.
pub(super) fn parse_row(line: usize, text: &str) -> Result<Step, String> {
    let (ask, answer) = text
        .split_once('|')
        .ok_or("expected `at  ask | answer ...`, with a bar even when nothing is answered")?;
    let (at, verb) = ask.trim().split_once(char::is_whitespace).ok_or("expected `at  ask |`")?;
    let step = Step {
        line,
        at_us: parse_duration_us(at)?,
        verb: parse_verb(verb.trim())?,
        expect: parse_expect(&answer.split_whitespace().collect::<Vec<_>>())?,
    };
    match (&step.verb, &step.expect) {
        (Verb::Ask(_) | Verb::Peek(_), _) | (_, None) => Ok(step),
        _ => Err("only a cost and `peek` are answered: leave the rest of the row empty".into()),
    }
}

fn parse_verb(text: &str) -> Result<Verb, String> {
    if let Some(fields) = text.strip_prefix("amend ") {
        let mut amended = Vec::new();
        parse_fields(fields, &mut amended)?;
        return Ok(Verb::Amend(amended));
    }
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        ["peek", cost] => Ok(Verb::Peek(parse_count(cost)?)),
        ["refund", units] => Ok(Verb::Refund(parse_count(units)?)),
        ["settle", reserved, actual] => {
            Ok(Verb::Settle { reserved: parse_count(reserved)?, actual: parse_count(actual)? })
        }
        ["return", units, token] => {
            Ok(Verb::Return { units: parse_count(units)?, token: parse_duration_us(token)? })
        }
        ["renew", token] => Ok(Verb::Renew { token: parse_duration_us(token)? }),
        ["reset"] => Ok(Verb::Reset),
        [cost] => Ok(Verb::Ask(parse_count(cost)?)),
        _ => Err(format!(
            "`{text}` is not known: expected a cost, `peek COST`, `refund UNITS`, \
             `settle RESERVED ACTUAL`, `return UNITS TOKEN`, `renew TOKEN`, `reset` or `amend KEY = VALUE, ...`"
        )),
    }
}

/// Reads `key = value, key = value`; no key may occur twice.
pub(super) fn parse_fields(text: &str, fields: &mut Vec<(String, String)>) -> Result<(), String> {
    for part in text.split(',') {
        let pair = part.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
        match pair {
            Some((key, value)) if !key.is_empty() && !value.is_empty() => {
                if fields.iter().any(|(known, _)| known == key) {
                    return Err(format!("`{key}` is given twice"));
                }
                fields.push((key.into(), value.into()));
            }
            _ => return Err(format!("`{}` is not `key = value`", part.trim())),
        }
    }
    Ok(())
}

fn parse_expect(columns: &[&str]) -> Result<Option<Expect>, String> {
    let [answer, remaining, retry_after, reset_after, delay] = columns else {
        return match columns {
            [] => Ok(None),
            _ => Err(format!("expected 5 columns after the bar, or none, got {}", columns.len())),
        };
    };
    let expect = Expect {
        answer: unless_star(answer, parse_answer)?,
        remaining: unless_star(remaining, parse_count)?,
        retry_after_us: unless_star(retry_after, parse_retry)?,
        reset_after_us: unless_star(reset_after, parse_duration_us)?,
        delay_us: unless_star(delay, parse_duration_us)?,
    };
    agreeing(expect).map(Some)
}

fn unless_star<T>(
    text: &str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    if text == "*" { Ok(None) } else { read(text).map(Some) }
}

fn parse_answer(text: &str) -> Result<Answer, String> {
    match text {
        "yes" => Ok(Answer::Yes),
        "no" => Ok(Answer::No),
        "never" => Ok(Answer::Never),
        _ => Err(format!("`{text}` is not an answer: expected yes, no or never")),
    }
}

fn parse_retry(text: &str) -> Result<Option<u64>, String> {
    if text == "-" { Ok(None) } else { parse_duration_us(text).map(Some) }
}

/// Refuses a row that contradicts itself, and so could never be satisfied.
fn agreeing(expect: Expect) -> Result<Expect, String> {
    match (expect.answer, expect.retry_after_us) {
        (Some(Answer::Yes), Some(retry)) if retry != Some(0) => {
            Err("`yes` waits for nothing: retry_after must be 0".into())
        }
        (Some(Answer::No), Some(None | Some(0))) => {
            Err("`no` has a wait: retry_after must be a duration above 0".into())
        }
        (Some(Answer::Never), Some(Some(_))) => Err("`never`: retry_after must be `-`".into()),
        _ => Ok(expect),
    }
}
