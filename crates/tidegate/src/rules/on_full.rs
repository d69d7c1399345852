//! What becomes of a key for which there is no room.

/// What becomes of a key for which there is no room.
///
/// There is none when as many limiters exist as may, or when states larger than a word take all the
/// bytes they may, and none of them was found to be as good as new. Looking is bounded work: a few
/// dozen limiters for each request, going on where the one before ended. So a key may for a moment find
/// no room though there could be some, and a place that became free is found before all limiters have
/// been looked at once. Where states grow (a `sliding_log`), no new limiter is let into the last eighth
/// of the bytes. One that is there and has no memory left for one unit more goes on in the memory that it
/// has, with coarser times: units taken then count for as long as the last of them. So it may admit later
/// than it would have, and never sooner, and such answers say `overflow` as well.
///
/// A look (`peek`, or a cost of 0) at such a key tells what a request would be told. A refund gives
/// nothing back to the shared limiter: it may come from a key that took nothing there, or long ago, and
/// would give the others more than the limit. A reservation knows where it was taken, so settling one
/// does give back there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnFull {
    /// It shares one limiter of the rule with all others that came too late.
    #[default]
    Share,
    /// It is refused.
    Refuse,
}
