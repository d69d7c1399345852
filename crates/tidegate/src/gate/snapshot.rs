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

impl<C: Clock> Gate<C> {
    /// Writes the state that a gate in another process needs to go on ([`Gate::with_snapshot`]): the limiters of every
    /// rule in force, with the values they were counted under and the limiter of keys without room; bans and counted
    /// refusals; remembered answers to requests with an id; and the secret that keys are hashed with.
    ///
    /// Waiting requests, held permits, statistics, plans and observers are not in it, nor are the limiters of rules
    /// that were removed.
    ///
    /// Decisions go on during the call: a few limiters are locked at a time, never while `to` is written, and a change
    /// of the policy waits until all are written. So a snapshot is not of one instant. Each limiter is as it was at
    /// some moment of the call: units admitted after the call began may be missing, but no unit is in it that was not
    /// admitted.
    ///
    /// A reader of the snapshot knows the secret and can make keys whose limiters collide: keep it as you keep a
    /// password. Writes are of up to 64 KiB, or as long as one log is; small ones are few, but `to` may as well be
    /// buffered.
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, Gate, ManualClock, Policy, RuleSpec, Spec};
    ///
    /// let spec = Spec::per_hour(2).algorithm(AlgorithmKind::SlidingLog);
    /// let policy = Policy::new(vec![RuleSpec::new("per-user", spec).key(["user"])])?;
    /// let clock = ManualClock::new();
    /// let before = Gate::with_clock(policy.clone(), clock.clone());
    /// let ada = ("default", &[("user", "ada")]);
    /// assert!(before.admits(ada));
    /// let mut file = Vec::new();
    /// let written = before.write_snapshot(&mut file)?;
    /// assert_eq!((written.limiters, written.bytes), (1, file.len() as u64));
    ///
    /// let (after, loaded) = Gate::with_clock(policy, clock).with_snapshot(&file[..])?;
    /// assert_eq!(loaded.limiters, 1);
    /// assert_eq!((after.admits(ada), after.admits(ada)), (true, false));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of `to`.
    pub fn write_snapshot(&self, mut to: impl Write) -> io::Result<SnapshotWritten> {
        let mut blocks = Blocks::begin(&mut to)?;
        let mut limiters = self.memory.save(&mut blocks, &self.seed.words(), &self.clock)?;
        let rules = self.memory.lineages();
        for (lineage, ban) in self.front.bans.all() {
            if let Some((rule, _)) = rules.iter().find(|(_, rule)| rule.is_of_rule(lineage)) {
                limiters += self.save_ban(&mut blocks, rule, ban)?;
            }
        }
        // After the limiters: units may be forgotten whose answer is known, but none is taken twice for one id.
        let answers = self.answers.save(&mut blocks)?;
        Ok(SnapshotWritten { limiters, answers, bytes: blocks.end()? })
    }

    fn save_ban(
        &self,
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
        Limiters::save_all(blocks, ban.limiters(), &self.clock)
    }

    /// Goes on from a snapshot that a gate has [written](Gate::write_snapshot): the new gate decides as if the old gate had
    /// never stopped. Call it before the first request.
    ///
    /// Time passes as the clocks say: units leave while no process runs. If this gate's clock is earlier than the
    /// writer's, that counts as a step of the clock: it makes no caller wait longer than a window, and gives no caller
    /// more than one fill. Rules are matched by domain and name, and usage under other values is carried over as by
    /// [`Gate::replace`]. The limiters of a rule that this gate does not have are dropped, and so are the limiters of a
    /// rule with another key. The caps of the rules hold: a limiter for which there is no room is not taken over, and
    /// its key is treated like any other key without room. Answers to requests with an id are remembered as long as the
    /// values of their rules are the same and the program is of the same version.
    ///
    /// ```
    /// use tidegate::{Gate, Policy, RuleSpec};
    ///
    /// let policy = Policy::new(vec![RuleSpec::new("all", "100/h")])?;
    /// let mut file = Vec::new();
    /// Gate::new(policy.clone()).write_snapshot(&mut file)?;
    /// let (gate, loaded) = Gate::new(policy).with_snapshot(&file[..])?;
    /// assert!(gate.admits(&[]) && loaded.limiters == 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the snapshot is damaged, incomplete or of another version, and if this gate has limiters
    /// already. Even for damaged bytes, memory is taken only as far as there are bytes. The gate is dropped on an
    /// error, because a part may have been loaded: begin with a new gate.
    pub fn with_snapshot(
        mut self,
        from: impl Read,
    ) -> Result<(Self, SnapshotLoaded), SnapshotError> {
        if self.memory.keys() > 0 || self.answers.len() > 0 {
            return Err(SnapshotError::InUse);
        }
        let mut blocks = ReadBlocks::begin(from)?;
        // Bans and plans know their rules by these lineages; the loaded rules have others.
        let before = self.memory.lineages();
        let at = self.clock.now();
        let (kind, payload) = blocks.next()?;
        let head = Head::read(payload).filter(|_| kind == Kind::Head);
        let begun =
            head.and_then(|head| Some((Loading::begin(&self.memory, head.lineages, at)?, head)));
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
                Kind::Ban => self.target_of_ban(payload, &before).map(|ban| target = ban),
                Kind::Limiters => target.load(payload, at, &mut loaded),
                Kind::Answers => self.answers.load(payload, at).map(|more| loaded.answers += more),
            };
            read.ok_or(SnapshotError::Malformed { at: blocks.at() })?;
        }
        // The store's rules have the lineages of the snapshot now, and bans and plans follow them by name.
        loading.end();
        let after = self.memory.lineages();
        let other = |lineage: Lineage| {
            let known = before.iter().find(|(_, known)| known.is_of_rule(lineage));
            let now = known.and_then(|(name, _)| after.iter().find(|(other, _)| other == name));
            now.map_or(lineage, |(_, now)| *now)
        };
        self.front.bans.relabel(other);
        self.front.plans.relabel(other);
        // The fingerprints that were loaded are hashes with this seed.
        self.seed = head.seed;
        Ok((self, loaded))
    }

    /// The limiters of the ban that the snapshot names; `None` if the gate has no such ban.
    fn target_of_ban(
        &self,
        payload: &[u8],
        lineages: &[((String, String), Lineage)],
    ) -> Option<Target> {
        let mut from = Cursor(payload);
        let name = (from.text()?, from.text()?);
        let rule = lineages.iter().find(|((domain, rule), _)| (&**domain, &**rule) == name);
        let ban = rule.and_then(|(_, lineage)| self.front.bans.of_rule(*lineage));
        Target::of_ban(&mut from, ban.map(Ban::limiters)).filter(|_| from.is_at_end())
    }
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
