//! What there is to tell of the store besides decisions.

use super::audit::Finding;
use super::error::StoreError;

/// Something that became of the store: told once, not for each request that notices.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum StoreEvent<'a> {
    /// It is away from now on, for this reason; rules decide by their own `on_store_error`.
    Lost(&'a StoreError),
    /// It is away still, and by now for another reason: one that somebody has to mend (it does not let this user in,
    /// refuses, or can not even be asked), or any that has stayed the same for several looks. Told once for each in a
    /// row.
    StillLost(&'a StoreError),
    /// It is back, and decisions are exact again.
    Back,
    /// The node that decides about the keys of these slots of a cluster is away, for this reason; rules
    /// decide about them by their own `on_store_error`, and all other keys are decided as before.
    PartLost {
        /// The first slot of the range.
        first_slot: u16,
        /// Its last slot.
        last_slot: u16,
        /// Why.
        error: &'a StoreError,
    },
    /// Such a range is answered for again. [`Back`](Self::Back) tells it of all ranges at once.
    PartBack {
        /// The first slot of the range.
        first_slot: u16,
        /// Its last slot.
        last_slot: u16,
    },
    /// It is there, and did not do what it was asked to for this reason: a key that something else has written, one of
    /// another version, figures it can not hold, too much at once. A decision was then taken without it; without memory ([`StoreError::OutOfMemory`]) a
    /// key that is new was refused. Told once a minute for each kind of reason.
    Undecided {
        /// The first key of the request, whole with its prefix.
        key: &'a [u8],
        /// Why.
        error: &'a StoreError,
    },
    /// So many nodes share the store by now, as far as they are listed there
    /// ([`StoreSettings::nodes`](crate::StoreSettings)): this one's share of each limit follows.
    Nodes(u64),
    /// There are more nodes than units in a limit of these rules, so that some of the nodes have no share of it,
    /// and deny whatever they decide without the store. Told once for each rule.
    NoShare {
        /// The rules' names.
        rules: &'a [&'a str],
        /// The nodes.
        nodes: u64,
    },
    /// It answers, but there is more load than it decides in time: what it does not decide is decided in
    /// process by rules that are `local` or `open`, and refused by rules that are `closed`.
    Overloaded,
    /// It has decided every request in time for a second.
    OverloadEnded {
        /// The requests that it did not decide meanwhile.
        undecided: u64,
    },
    /// How it is set up can make limits fail; told once for each such thing.
    Finding(&'a Finding),
}

/// Who is told.
pub(crate) type Observer = Box<dyn Fn(StoreEvent<'_>) + Send + Sync>;
