//! Requests that no rule matches: counted, and a line of the log a minute that names what matched nothing, because a
//! misspelt entry would pass every limit unseen.

use tidegate::{Request, Striped, SystemClock, printable};

use crate::listener::source;
use crate::once_a_minute::OnceAMinute;

/// Characters of the names that are shown.
const SHOWN: usize = 200;

/// Counts requests that no rule matches, by what became of them.
#[derive(Debug)]
pub(crate) struct Unmatched {
    counts: Striped<2>,
    admitted: OnceAMinute,
    refused: OnceAMinute,
    clock: SystemClock,
}

impl Unmatched {
    pub(super) fn new() -> Self {
        Self {
            counts: Striped::default(),
            admitted: OnceAMinute::new(),
            refused: OnceAMinute::new(),
            clock: SystemClock::new(),
        }
    }

    /// The number of requests that were admitted, and refused.
    pub(crate) fn counts(&self) -> [(&'static str, u64); 2] {
        let [admitted, refused] = self.counts.read();
        [("admitted", admitted), ("refused", refused)]
    }

    /// Counts a request, and names it in the log once a minute.
    #[cold]
    pub(super) fn note(&self, request: &Request<'_>, is_refused: bool) {
        self.counts.add(usize::from(is_refused), 1);
        let often = if is_refused { &self.refused } else { &self.admitted };
        let Some(withheld) = often.passes(&self.clock) else { return };
        let names = names(request);
        let listener = source::listener();
        let peer = source::peer().map(tracing::field::display);
        if is_refused {
            tracing::warn!(
                listener,
                peer,
                names,
                withheld,
                "no rule matches a request, which was refused"
            );
        } else {
            tracing::info!(
                listener,
                peer,
                names,
                withheld,
                "no rule matches a request, which was admitted"
            );
        }
    }
}

/// The domain of a request and the names of the entries of its descriptors, without their values, which name callers:
/// `domain pay, entries biz, channel; entries ip`.
pub(crate) fn names(request: &Request<'_>) -> String {
    let mut text = format!("domain {}", request.domain());
    for (number, descriptor) in request.descriptors().iter().enumerate() {
        text.push_str(if number == 0 { ", " } else { "; " });
        let names = descriptor.entries().iter().map(|(name, _)| *name);
        let names: Vec<_> = names.collect();
        if names.is_empty() {
            text.push_str("no entries");
        } else {
            text.push_str(&format!("entries {}", names.join(", ")));
        }
        // A request may have thousands of names, and this runs on the thread that decides.
        if text.len() > SHOWN {
            break;
        }
    }
    let shown: String = text.chars().take(SHOWN).collect();
    printable::line(&shown).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::Descriptor;

    #[test]
    fn what_matched_nothing_is_named_without_values() {
        let (one, two) = ([("biz", "transfer"), ("channel", "demo")], [("a\nb", "x")]);
        let descriptors = [Descriptor::new(&one), Descriptor::new(&two), Descriptor::new(&[])];
        let named = names(&Request::new("pay", &descriptors));
        assert_eq!(named, r"domain pay, entries biz, channel; entries a\nb; no entries");
        let long = "x".repeat(1_000);
        assert!(names(&Request::new(&long, &[])).len() <= SHOWN);
    }
}
