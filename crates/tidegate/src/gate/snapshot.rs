//! Snapshots of a gate, which keep usage over a restart.

use std::io::{self, Read, Write};

use super::Gate;
use crate::clock::Clock;
use crate::key::Seed;
use crate::limiter::Ban;
use crate::snapshot::{
    Blocks, Cursor, Kind, ReadBlocks, SnapshotError, SnapshotLoaded, SnapshotWritten, put_text,
};
use crate::step::Lineage;
use crate::store::memory::{Limiters, Loading, Target};
use tidegate_core::Timestamp;

/// Writes the state of a gate for [`load`].
pub(super) fn write<C: Clock>(gate: &Gate<C>, to: &mut impl Write) -> io::Result<SnapshotWritten> {
    let mut blocks = Blocks::begin(to)?;
    let mut limiters = gate.memory.save(&mut blocks, &gate.seed.words(), &gate.clock)?;
    let rules = gate.memory.lineages();
    for (lineage, ban) in gate.front.bans.all() {
        if let Some((rule, _)) = rules.iter().find(|(_, rule)| rule.is_of_rule(lineage)) {
            limiters += save_ban(gate, &mut blocks, rule, ban)?;
        }
    }
    // After the limiters: units may be forgotten whose answer is known, but none is taken twice for one id.
    let answers = gate.answers.save(&mut blocks)?;
    Ok(SnapshotWritten { limiters, answers, bytes: blocks.end()? })
}

fn save_ban<C: Clock>(
    gate: &Gate<C>,
    blocks: &mut Blocks<'_>,
    (domain, name): &(String, String),
    ban: &Ban<C>,
) -> io::Result<u64> {
    let mut payload = Vec::new();
    put_text(&mut payload, domain);
    put_text(&mut payload, name);
    for limiters in ban.limiters() {
        limiters.put_values(&mut payload);
    }
    blocks.put(Kind::Ban, &payload)?;
    Limiters::save_all(blocks, ban.limiters(), &gate.clock)
}

/// Makes a new gate go on from a snapshot.
pub(super) fn load<C: Clock>(
    gate: &mut Gate<C>,
    from: impl Read,
) -> Result<SnapshotLoaded, SnapshotError> {
    if gate.memory.keys() > 0 || gate.answers.len() > 0 {
        return Err(SnapshotError::InUse);
    }
    let mut blocks = ReadBlocks::begin(from)?;
    // Bans and plans know their rules by these lineages; the loaded rules have others.
    let before = gate.memory.lineages();
    let at = gate.clock.now();
    let (kind, payload) = blocks.next()?;
    let head = Head::read(payload).filter(|_| kind == Kind::Head);
    let begun =
        head.and_then(|head| Some((Loading::begin(&gate.memory, head.lineages, at)?, head)));
    let Some((mut loading, head)) = begun else {
        return Err(SnapshotError::Malformed { at: blocks.at() });
    };
    let mut loaded = SnapshotLoaded { written_at: head.at, ..SnapshotLoaded::default() };
    // Limiters belong to the rule or the ban whose block came last.
    let mut target = Target::default();
    loop {
        let (kind, payload) = blocks.next()?;
        let read = match kind {
            Kind::End => break,
            Kind::Head => None,
            Kind::Rule => loading.rule(payload).map(|rule| target = rule),
            Kind::Ban => target_of_ban(gate, payload, &before).map(|ban| target = ban),
            Kind::Limiters => target.load(payload, at, &mut loaded),
            Kind::Answers => gate.answers.load(payload, at).map(|more| loaded.answers += more),
        };
        read.ok_or(SnapshotError::Malformed { at: blocks.at() })?;
    }
    // The store's rules have the lineages of the snapshot now, and bans and plans follow them by name.
    loading.end();
    let after = gate.memory.lineages();
    let other = |lineage: Lineage| {
        let known = before.iter().find(|(_, known)| known.is_of_rule(lineage));
        let now = known.and_then(|(name, _)| after.iter().find(|(other, _)| other == name));
        now.map_or(lineage, |(_, now)| *now)
    };
    gate.front.bans.relabel(other);
    gate.front.plans.relabel(other);
    // The fingerprints that were loaded are hashes with this seed.
    gate.seed = head.seed;
    Ok(loaded)
}

/// The limiters of the ban that the snapshot names; `None` if the gate has no such ban.
fn target_of_ban<C: Clock>(
    gate: &Gate<C>,
    payload: &[u8],
    lineages: &[((String, String), Lineage)],
) -> Option<Target> {
    let mut from = Cursor(payload);
    let name = (from.text()?, from.text()?);
    let rule = lineages.iter().find(|((domain, rule), _)| (&**domain, &**rule) == name);
    let ban = rule.and_then(|(_, lineage)| gate.front.bans.of_rule(*lineage));
    Target::of_ban(&mut from, ban.map(Ban::limiters)).filter(|_| from.is_at_end())
}

/// The first block.
struct Head {
    at: Timestamp,
    lineages: u64,
    seed: Seed,
}

impl Head {
    fn read(payload: &[u8]) -> Option<Self> {
        let mut from = Cursor(payload);
        let at = Timestamp::from_micros(from.number()?);
        let lineages = from.number()?;
        let seed = Seed::from_words(&from.list(|from| from.number())?)?;
        from.is_at_end().then_some(Self { at, lineages, seed })
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::{AlgorithmKind, ManualClock, Policy, Request, RuleSpec, Spec};
    use proptest::prelude::*;
    use std::time::Duration;

    fn gate() -> Gate<ManualClock> {
        let rules = AlgorithmKind::ALL.iter().map(|algorithm| {
            let spec = Spec::new(*algorithm, 3, Duration::from_secs(60));
            let mut rule = RuleSpec::new(algorithm.name(), spec).key(["user"]);
            rule.dedupe = Some(Duration::from_secs(60));
            rule.limit_from_request = algorithm.is_queue();
            rule
        });
        Gate::with_clock(Policy::new(rules.collect()).unwrap(), ManualClock::new())
    }

    fn ask(gate: &Gate<ManualClock>, user: &str) {
        let entries = [("user", user)];
        let request = Request::from(("default", &entries));
        let _ = gate.check(request.with_id("1").unwrap());
        let _ = gate.refund(("default", &entries));
        let _ = gate.settle(("default", &entries), None, &[7]);
    }

    /// A snapshot with changed bytes in one block, and checksums that fit them.
    fn forged(bytes: &[u8], block: usize, change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let (mut from, mut forged) = (ReadBlocks::begin(bytes).unwrap(), Vec::new());
        let mut to = Blocks::begin(&mut forged).unwrap();
        for number in 0.. {
            let (kind, payload) = from.next().unwrap();
            if kind == Kind::End {
                break;
            }
            let mut payload = payload.to_vec();
            if number == block {
                change(&mut payload);
            }
            to.put(kind, &payload).unwrap();
        }
        to.end().unwrap();
        forged
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// Numbers that no gate has written, in blocks with correct checksums.
        #[test]
        fn no_forged_block_makes_a_gate_panic(block in 0..20_usize, at: prop::sample::Index, with: Vec<u8>) {
            let before = gate();
            ["ada", "bob"].iter().for_each(|user| ask(&before, user));
            let mut bytes = Vec::new();
            before.write_snapshot(&mut bytes).unwrap();
            let bytes = forged(&bytes, block, |payload| {
                if !payload.is_empty() {
                    let at = at.index(payload.len());
                    let end = (at + with.len()).min(payload.len());
                    payload.splice(at..end, with.iter().copied());
                }
            });
            if let Ok((after, _)) = gate().with_snapshot(&bytes[..]) {
                ["ada", "bob", "eve"].iter().for_each(|user| ask(&after, user));
                after.clock.advance(Duration::from_secs(61));
                ["ada", "bob", "eve"].iter().for_each(|user| ask(&after, user));
            }
        }
    }
}
