//! Payments limited by business type and channel: `cargo run --example payment --features config`.
//!
//! A minute of seeded traffic, every request at its own time, so that each run gives the same numbers. Each channel of
//! a business type has a limit of its own, and one channel a higher limit. All transfers together have another limit,
//! and a request that any limit refuses is charged to none.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use tidegate::{Descriptor, Gate, Request, Timestamp, config};

const RULES: &str = r#"
[[rule]]
name = "pay-channel"
domain = "pay"
key = ["biz_type", "channel"]
algorithm = "sliding_log"
rate = "20/1s"

[[rule.override]]
match = { channel = "alipay" }
limit = 50

[[rule]]
name = "transfers"
domain = "pay"
when = { biz_type = "transfer" }
algorithm = "token_bucket"
rate = "60/1s"
"#;

const TYPES: [&str; 3] = ["transfer", "refund", "topup"];
const CHANNELS: [&str; 3] = ["alipay", "wechat", "card"];
const REQUESTS: usize = 12_000;
/// 2026-01-01 00:00:00 UTC.
const BEGIN: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// A small generator of numbers that look random (SplitMix64), the same on every machine.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn one_of(&mut self, names: &[&'static str; 3]) -> &'static str {
        // The first is asked for half the time, as the largest channel is.
        let [first, second, third] = *names;
        match self.below(4) {
            0 | 1 => first,
            2 => second,
            _ => third,
        }
    }
}

/// When requests of one kind were admitted, and how many were refused.
#[derive(Default)]
struct Kind {
    admitted: Vec<Timestamp>,
    refused: usize,
}

impl Kind {
    /// The maximum number admitted in any second, counted the slow way.
    fn most_in_a_second(&self) -> usize {
        let second = Duration::from_secs(1);
        let until = |end: &Timestamp| {
            self.admitted
                .iter()
                .filter(|at| **at <= *end && end.duration_since(**at) < second)
                .count()
        };
        self.admitted.iter().map(until).max().unwrap_or(0)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let gate = Gate::with_clock(config::parse("rules.toml", RULES)?, BEGIN);
    let kinds = traffic(&gate);
    println!(
        "{:<9} {:<7} {:>8} {:>8} {:>16}",
        "biz_type", "channel", "admitted", "refused", "most in a second"
    );
    for ((biz_type, channel), kind) in &kinds {
        let (admitted, most) = (kind.admitted.len(), kind.most_in_a_second());
        println!("{biz_type:<9} {channel:<7} {admitted:>8} {:>8} {most:>16}", kind.refused);
        assert!(most <= if *channel == "alipay" { 50 } else { 20 });
    }
    let transfers = kinds.iter().filter(|((biz_type, _), _)| *biz_type == "transfer");
    let transfers: usize = transfers.map(|(_, kind)| kind.admitted.len()).sum();
    println!("{transfers} transfers in a minute; the bucket of all could give 60 + 60 * 60");
    assert!(transfers <= 60 + 60 * 60);
    let total: usize = kinds.values().map(|kind| kind.admitted.len() + kind.refused).sum();
    assert_eq!(total, REQUESTS);
    Ok(())
}

/// 200 requests a second on average, for a minute.
fn traffic(gate: &Gate<Timestamp>) -> BTreeMap<(&'static str, &'static str), Kind> {
    let mut seeded = Seeded(20_260_101);
    let mut kinds: BTreeMap<_, Kind> = BTreeMap::new();
    let mut now = BEGIN;
    for _ in 0..REQUESTS {
        now = now.plus(Duration::from_micros(seeded.below(10_000)));
        let (biz_type, channel) = (seeded.one_of(&TYPES), seeded.one_of(&CHANNELS));
        let entries = [("biz_type", biz_type), ("channel", channel)];
        let descriptors = [Descriptor::new(&entries)];
        let answer = gate.check_at(&Request::new("pay", &descriptors), now);
        let kind = kinds.entry((biz_type, channel)).or_default();
        match answer.is_allowed() {
            true => kind.admitted.push(now),
            false => kind.refused += 1,
        }
    }
    kinds
}
