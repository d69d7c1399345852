//! The arguments of `TG.CHECK domain [COST n] [ID id] [name value ...]`, and of `TG.PEEK`, `TG.RESERVE`, `TG.REFUND` and
//! `TG.RESET`, as a question to the gate.
//!
//! A question is read from words that are texts. If one is not, all of them are copied as texts ([`Args::to_texts`]),
//! and read again: every value is a key.

mod options;

use smallvec::SmallVec;
use tidegate::{Descriptor, Request};

use super::args::Args;
use crate::refusal::{RefusalKind, RequestRefusal};
use options::QuestionOptions;

/// Entries that are stored without an allocation.
const AT_HAND: usize = 8;
/// Most entries, as over HTTP.
const MOST_ENTRIES: usize = 64;

/// The entries of a question, kept by the caller next to the question: they are too large to be moved.
#[derive(Default)]
pub(super) struct RespEntries<'a>(SmallVec<[(&'a str, &'a str); AT_HAND]>);

/// A question as read: its words are borrowed from the command, and its entries from the caller.
pub(super) struct RespQuestion<'a, 'e> {
    domain: &'a str,
    pub(super) options: QuestionOptions<'a>,
    entries: &'e [(&'a str, &'a str)],
}

/// Why a question is invalid.
pub(super) enum QuestionMistake {
    Arity,
    /// A word has to be escaped.
    NoText,
    Invalid(RequestRefusal),
}

impl<'a, 'e> RespQuestion<'a, 'e> {
    /// Reads the words of a command, including its name, with its entries in `entries`, which is empty.
    ///
    /// # Errors
    /// Returns the first error of the question.
    pub(super) fn read(
        args: &Args<'a>,
        entries: &'e mut RespEntries<'a>,
    ) -> Result<Self, QuestionMistake> {
        Self::read_with(args, entries, false)
    }

    /// Reads the words of a reserve, which may have `LIFE ms`.
    ///
    /// # Errors
    /// Returns the first error of the question.
    pub(super) fn read_reserve(
        args: &Args<'a>,
        entries: &'e mut RespEntries<'a>,
    ) -> Result<Self, QuestionMistake> {
        Self::read_with(args, entries, true)
    }

    /// Reads a question, with `LIFE ms` if `has_life`.
    fn read_with(
        args: &Args<'a>,
        entries: &'e mut RespEntries<'a>,
        has_life: bool,
    ) -> Result<Self, QuestionMistake> {
        let domain = text(args, 1)?;
        if domain.is_empty() {
            return Err(invalid("the domain is empty: expected a name such as default"));
        }
        let (options, rest) = QuestionOptions::read(args.skip(2), has_life)?;
        if rest.len() % 2 == 1 {
            return Err(QuestionMistake::Arity);
        }
        let count = rest.len() / 2;
        // Before the words are read, because rules search the entries.
        if count > MOST_ENTRIES {
            let detail = format!("there are {count} entries: expected at most {MOST_ENTRIES}");
            return Err(invalid(detail));
        }
        for number in (0..rest.len()).step_by(2) {
            entries.0.push((text(&rest, number)?, text(&rest, number + 1)?));
        }
        Ok(Self { domain, options, entries: &entries.0 })
    }

    pub(super) fn descriptor(&self) -> Descriptor<'_> {
        Descriptor::new(self.entries).cost(self.options.cost)
    }

    /// A request about `descriptors`, with the id of the question.
    pub(super) fn request<'r>(&'r self, descriptors: &'r [Descriptor<'r>]) -> Request<'r> {
        let request = Request::new(self.domain, descriptors);
        self.options.id.map_or(request, |id| id.on(request))
    }

    /// Passes the request to `to`.
    pub(super) fn ask<T>(&self, to: impl FnOnce(&Request<'_>) -> T) -> T {
        to(&self.request(&[self.descriptor()]))
    }
}

/// A question that is written well and cannot be asked.
pub(super) fn invalid(detail: impl Into<String>) -> QuestionMistake {
    QuestionMistake::Invalid(RefusalKind::InvalidQuestion.because(detail))
}

fn text<'a>(args: &Args<'a>, number: usize) -> Result<&'a str, QuestionMistake> {
    args.text(number).ok_or(QuestionMistake::NoText)
}
