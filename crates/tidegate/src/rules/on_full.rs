//! The treatment of a key for which there is no room.

/// The treatment of a key for which there is no room.
///
/// There is no room if the limiters have reached their cap, or states larger than a word have reached theirs in
/// bytes, and no idle limiter was found. The search is bounded: each request looks at a few dozen limiters, and
/// starts where the previous search ended. So a key may find no room for a moment although a limiter is idle, until the
/// searches have looked at every limiter. If states grow (`sliding_log`), no new limiter may use the last eighth of the
/// bytes. An existing limiter without memory for one more unit keeps its memory and uses coarser times: units taken
/// then count for as long as the last of them. It may admit later than otherwise, but never earlier, and such answers
/// report `overflow` as well.
///
/// A peek, or a cost of 0, reports the decision that a request for such a key would get. A refund gives nothing back to
/// the overflow limiter: the key may have taken nothing there, or long ago, and the refund would give the other keys
/// more than the limit. A reservation records where it was taken, so settling it does give back there.
///
/// ```
/// use tidegate::{OnFull, RuleSpec};
///
/// let per_user = RuleSpec::new("per-user", "10/s").key(["user"]).max_keys(1_000_000, OnFull::Refuse);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnFull {
    /// The key shares one limiter of the rule with all others without room.
    #[default]
    Share,
    /// The key is refused.
    Refuse,
}
