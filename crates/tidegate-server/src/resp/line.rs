//! Writes a decision as a map of names and values, for `check.rs` and `reserve.rs`. Names, and the flags if none is
//! set, are encoded at compile time, because every decision writes the same bytes.

use tidegate::json::DecisionLine;

use super::reply::{Proto, RespReply};

/// A name as it is written, of at most 99 bytes.
macro_rules! name {
    ($name:literal) => {
        const { &bulk::<{ bulk_size($name) }>($name) }
    };
}

/// All flags of an answer in the usual case, each as `$no`.
macro_rules! no_flags {
    ($no:literal) => {
        concat!(
            "$9\r\nunlimited\r\n",
            $no,
            "$8\r\ndegraded\r\n",
            $no,
            "$8\r\noverflow\r\n",
            $no,
            "$10\r\noverloaded\r\n",
            $no
        )
        .as_bytes()
    };
}

const fn bulk_size(text: &str) -> usize {
    text.len() + if text.len() < 10 { b"$0\r\n\r\n".len() } else { b"$00\r\n\r\n".len() }
}

/// A bulk string of RESP, made at compile time.
const fn bulk<const SIZE: usize>(text: &str) -> [u8; SIZE] {
    let text = text.as_bytes();
    let mut bytes = [0; SIZE];
    let mut at = 1;
    bytes[0] = b'$';
    if text.len() > 9 {
        bytes[1] = b'0' + (text.len() / 10) as u8;
        at = 2;
    }
    bytes[at] = b'0' + (text.len() % 10) as u8;
    bytes[at + 1] = b'\r';
    bytes[at + 2] = b'\n';
    bytes[SIZE - 2] = b'\r';
    bytes[SIZE - 1] = b'\n';
    // A constant function has no iterators.
    let mut number = 0;
    while number < text.len() {
        bytes[at + 3 + number] = text[number];
        number += 1;
    }
    bytes
}

/// Writes values under the names that they have over HTTP, in a map with room for `more`.
#[inline]
pub(super) fn write_line(
    decision: &DecisionLine<'_>,
    flags: [(&'static str, bool); 4],
    more: usize,
    reply: &mut RespReply<'_>,
) {
    reply.map(7 + flags.len() + more);
    reply.written(name!("allowed"));
    reply.boolean(decision.allowed);
    reply.written(name!("rule"));
    match decision.rule {
        Some(name) => reply.text(name),
        None => reply.null(),
    }
    reply.written(name!("limit"));
    reply.known(decision.limit);
    reply.written(name!("remaining"));
    reply.known(decision.remaining);
    reply.written(name!("retry_after_us"));
    reply.known(decision.retry_after_us);
    reply.written(name!("reset_after_us"));
    reply.integer(decision.reset_after_us);
    reply.written(name!("delay_us"));
    reply.integer(decision.delay_us);
    if flags.iter().any(|(_, is)| *is) {
        for (name, is) in flags {
            reply.text(name);
            reply.boolean(is);
        }
        return;
    }
    // Nearly every answer has no flag set.
    reply.written(match reply.proto {
        Proto::Resp2 => no_flags!(":0\r\n"),
        Proto::Resp3 => no_flags!("#f\r\n"),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(rule: Option<&str>, number: u64) -> DecisionLine<'_> {
        DecisionLine {
            at_us: 0,
            allowed: rule.is_some(),
            rule,
            limit: rule.map(|_| number),
            remaining: rule.map(|_| number),
            retry_after_us: rule.map(|_| number),
            reset_after_us: number,
            delay_us: number,
        }
    }

    const FLAGS: [&str; 4] = ["unlimited", "degraded", "overflow", "overloaded"];

    /// The same line, item by item.
    fn item_by_item(
        line: &DecisionLine<'_>,
        is: [bool; 4],
        more: usize,
        reply: &mut RespReply<'_>,
    ) {
        reply.map(11 + more);
        reply.text("allowed");
        reply.boolean(line.allowed);
        reply.text("rule");
        match line.rule {
            Some(rule) => reply.text(rule),
            None => reply.null(),
        }
        reply.field("limit", line.limit);
        reply.field("remaining", line.remaining);
        reply.field("retry_after_us", line.retry_after_us);
        reply.field("reset_after_us", Some(line.reset_after_us));
        reply.field("delay_us", Some(line.delay_us));
        for (name, is) in FLAGS.into_iter().zip(is) {
            reply.text(name);
            reply.boolean(is);
        }
    }

    #[test]
    fn a_line_is_what_its_items_are_one_by_one() {
        let rules = [None, Some("per-user"), Some("a-rule-with-a-longer-name")];
        let kinds = [(Proto::Resp2, 0), (Proto::Resp3, 0), (Proto::Resp2, 2)];
        let all = rules.into_iter().flat_map(|rule| kinds.map(|kind| (rule, kind)));
        for (rule, (proto, more)) in all {
            for (number, is) in [0, 9, 10, 1_000_000, u64::MAX].into_iter().cycle().zip(0..16_u8) {
                let is = [1, 2, 4, 8].map(|flag| is & flag != 0);
                let flags = [0, 1, 2, 3].map(|flag: usize| (FLAGS[flag], is[flag]));
                let (mut written, mut expected) = (Vec::new(), Vec::new());
                let line = line(rule, number);
                write_line(&line, flags, more, &mut RespReply::new(&mut written, proto));
                item_by_item(&line, is, more, &mut RespReply::new(&mut expected, proto));
                let [written, expected] =
                    [written, expected].map(|it| String::from_utf8(it).unwrap());
                assert_eq!(written, expected);
            }
        }
    }

    #[test]
    fn flags_have_the_names_of_all_protocols() {
        let gate = tidegate::Gate::new(tidegate::Policy::default());
        assert_eq!(crate::flags::of(&gate.peek(&[])).map(|(name, _)| name), FLAGS);
    }
}
