//! Entries as a JSON object that keeps their order, which is the order of a file or of a request. Names may occur
//! twice.

use serde::{Serialize, Serializer};

/// Entries of a descriptor, of `when`, or of an override's `match`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OrderedMap<'a>(pub(crate) &'a [(String, String)]);

impl Serialize for OrderedMap<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}
