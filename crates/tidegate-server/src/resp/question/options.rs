//! The options of a question, between its domain and its entries: `COST n`, `ID id` and, for a reserve, `LIFE ms`, in
//! any order, each at most once.

use std::time::Duration;

use tidegate::{MAX_COST, Request};

use super::super::args::{Args, integer};
use super::{QuestionMistake, invalid, text};
use crate::limiters::LONGEST_LIFE;

/// The options of a question.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct QuestionOptions<'a> {
    /// Units; 1 by default.
    pub(in super::super) cost: u64,
    pub(in super::super) names_a_cost: bool,
    pub(in super::super) id: Option<RespRequestId<'a>>,
    /// The life of a reservation, if the caller says so.
    pub(in super::super) life: Option<Duration>,
}

impl<'a> QuestionOptions<'a> {
    /// Reads the options, and returns them with the words after them. Each is read once: a second
    /// one is the name of an entry. `LIFE ms` is an option only if `has_life`.
    pub(super) fn read(
        mut rest: Args<'a>,
        has_life: bool,
    ) -> Result<(Self, Args<'a>), QuestionMistake> {
        let mut cost = None;
        let mut id = None;
        let mut life = None;
        loop {
            match rest.word(0) {
                name if cost.is_none() && name.eq_ignore_ascii_case(b"cost") => {
                    cost = Some(units(rest.word(1))?);
                }
                // The option is only valid in capitals: many entries are called `id`, and such an
                // entry read as an option would match no rule.
                b"ID" if id.is_none() => id = Some(RespRequestId::read(&rest)?),
                b"LIFE" if has_life && life.is_none() => life = Some(lifetime(rest.word(1))?),
                _ => {
                    let names_a_cost = cost.is_some();
                    let cost = cost.unwrap_or(1);
                    return Ok((Self { cost, names_a_cost, id, life }, rest));
                }
            }
            rest = rest.skip(2);
        }
    }
}

/// A text that is valid as the id of a request.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct RespRequestId<'a>(&'a str);

impl<'a> RespRequestId<'a> {
    /// Reads the word after `ID`.
    fn read(args: &Args<'a>) -> Result<Self, QuestionMistake> {
        let id = text(args, 1)?;
        let read = Request::new(Request::DEFAULT_DOMAIN, &[]).with_id(id);
        read.map(|_| Self(id)).map_err(|mistake| invalid(mistake.to_string()))
    }

    /// The request with this id.
    pub(super) fn on<'r>(self, request: Request<'r>) -> Request<'r>
    where
        'a: 'r,
    {
        // An invalid id is never constructed, so this cannot fail.
        request.with_id(self.0).unwrap_or(request)
    }
}

fn units(word: &[u8]) -> Result<u64, QuestionMistake> {
    let units = integer(word).and_then(|units| u64::try_from(units).ok());
    units.filter(|units| *units <= MAX_COST).ok_or_else(|| {
        invalid(format!(
            "COST is {:?}: expected a whole number from 0 to {MAX_COST}",
            String::from_utf8_lossy(word.get(..32).unwrap_or(word))
        ))
    })
}

fn lifetime(word: &[u8]) -> Result<Duration, QuestionMistake> {
    let most = LONGEST_LIFE.as_millis();
    let ms = integer(word).and_then(|ms| u64::try_from(ms).ok());
    let ms = ms.filter(|ms| *ms >= 1 && u128::from(*ms) <= most);
    ms.map(Duration::from_millis).ok_or_else(|| {
        invalid(format!(
            "LIFE is {:?}: expected a whole number of milliseconds from 1 to {most}",
            String::from_utf8_lossy(word.get(..32).unwrap_or(word))
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::args::WordRange;

    /// The cost, the id, and the number of words after them.
    fn read(line: &str) -> Option<(u64, Option<String>, usize)> {
        let start = |word: &str| word.as_ptr().addr() - line.as_ptr().addr();
        let spans: Vec<_> = line
            .split_whitespace()
            .map(|word| WordRange::of(start(word)..start(word) + word.len()))
            .collect();
        let (options, rest) =
            QuestionOptions::read(Args::new(line.as_bytes(), &spans), false).ok()?;
        Some((options.cost, options.id.map(|id| id.0.to_owned()), rest.len()))
    }

    #[test]
    fn options_stand_before_the_entries_in_either_order_and_once() {
        for (line, expected) in [
            ("", (1, None, 0)),
            ("user ada", (1, None, 2)),
            ("COST 0 user ada", (0, None, 2)),
            ("COST 3 ID a user ada", (3, Some("a"), 2)),
            ("ID a cost 3 user ada", (3, Some("a"), 2)),
            ("COST 3 cost 4 ID a", (3, None, 4)),
            ("ID a ID b COST 4", (1, Some("a"), 4)),
        ] {
            let (cost, id, left) = expected;
            assert_eq!(read(line), Some((cost, id.map(str::to_owned), left)), "{line}");
        }
        assert_eq!(read("id 7 user ada"), Some((1, None, 4)), "an entry of that name");
        for line in ["COST", "COST x", "COST -1", "COST 1000000001", "ID"] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
