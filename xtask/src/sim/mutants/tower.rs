//! The mutants of the layers that ship, and of the store that they ask.

use super::{GIVE_BACK, Mutant, SPEND, STORE};

const ACROSS_SLOTS: &str = "crates/tidegate/src/layers/across_slots.rs";
const DENIALS: &str = "crates/tidegate/src/layers/denials.rs";
const TAKE: &str = "crates/tidegate/src/layers/leases/take.rs";
const DECIDE: &str = "crates/tidegate/src/layers/fallback/decide.rs";
const PARTS: &str = "crates/tidegate/src/layers/fallback/share.rs";

pub(super) const TOWER: &[Mutant] = &[
    Mutant {
        name: "a refusal spends the leased units that it held",
        file: SPEND,
        replacements: &[(
            "        self.release();\n        let now = self",
            "        self.layer.commit(self.asks, &std::mem::take(&mut self.held));\n        let now = self",
        )],
    },
    Mutant {
        name: "an admitted request releases the leased units that it held",
        file: SPEND,
        replacements: &[(
            "            self.commit(asks, &std::mem::take(&mut spending.held));\n",
            "            spending.release();\n",
        )],
    },
    Mutant {
        name: "a request that its caller gave up keeps the leased units that it held",
        file: SPEND,
        replacements: &[(
            "    fn drop(&mut self) {\n        self.release();",
            "    fn drop(&mut self) {\n        self.held.clear();",
        )],
    },
    Mutant {
        name: "a request that is refused without the store spends the leased units that it held",
        file: SPEND,
        replacements: &[(
            "            if is_kept {\n",
            "            if is_kept || !held.is_empty() {\n",
        )],
    },
    Mutant {
        name: "an outage loses the units of a share",
        file: GIVE_BACK,
        replacements: &[(
            "                    sleep(pause).await;\n",
            "                    return Err(Lost::NoReply);\n",
        )],
    },
    Mutant {
        name: "a lease is given back twice",
        file: TAKE,
        replacements: &[(
            "                self.end_lease(&rest).await;\n            }\n            next",
            "                self.end_lease(&rest).await;\n                self.end_lease(&rest).await;\n            }\n            next",
        )],
    },
    Mutant {
        name: "a lease that comes too late is not given back",
        file: TAKE,
        replacements: &[(
            "fetch_add(rest.units, Relaxed);\n                self.end_lease(&rest).await;",
            "fetch_add(rest.units, Relaxed);",
        )],
    },
    Mutant {
        name: "a lease whose grant is unknown is not given back",
        file: TAKE,
        replacements: &[(
            "LeaseResult::Unknown => self.end_unknown_lease(&rest).await,",
            "LeaseResult::Unknown => {}",
        )],
    },
    Mutant {
        name: "a node spends a lease for longer than the store granted it",
        file: TAKE,
        replacements: &[(
            "return book.granted(now, ask, &Grant { ticket, since, end });",
            "let end = end.plus(Micros::from_millis(100));\n                return book.granted(now, ask, &Grant { ticket, since, end });",
        )],
    },
    Mutant {
        name: "a node that ends keeps its leases",
        file: GIVE_BACK,
        replacements: &[(
            "self.spawn_end_of_each(self.state.end())",
            "self.spawn_end_of_each({\n            drop(self.state.end());\n            Vec::new()\n        })",
        )],
    },
    Mutant {
        name: "leases outlive a reset",
        file: GIVE_BACK,
        replacements: &[
            (
                "drop(self.spawn_end_of_each(self.state.close(|key| asks.contains(key))));\n        let done",
                "let done",
            ),
            (
                "        drop(self.spawn_end_of_each(self.state.close(|key| asks.contains(key))));\n        done",
                "        done",
            ),
        ],
    },
    Mutant {
        name: "denials outlive a settlement or a reset",
        file: DENIALS,
        replacements: &[(
            "                self.forget(asks);\n                return settled;",
            "                return settled;",
        )],
    },
    Mutant {
        name: "denials are repeated for longer than they hold",
        file: DENIALS,
        replacements: &[(
            "let until = sent.plus(holds.min(MOST));",
            "let until = sent.plus(holds.plus(MOST).plus(MOST));",
        )],
    },
    Mutant {
        name: "a reservation is settled twice",
        file: DENIALS,
        replacements: &[(
            "let settled = self.inner.step(asks, args).await;",
            "let _ = self.inner.step(asks, args).await;\n                let settled = self.inner.step(asks, args).await;",
        )],
    },
    Mutant {
        name: "units of a slot stay taken if a later slot refuses",
        file: ACROSS_SLOTS,
        replacements: &[(
            "        let giving = taken.give_back();\n",
            "        taken.steps.clear();\n        let giving = taken.give_back();\n",
        )],
    },
    Mutant {
        name: "units of a slot stay taken if a later slot is away",
        file: ACROSS_SLOTS,
        replacements: &[(
            "            if kept.await.is_err() {\n",
            "            if kept.await.is_err() && false {\n",
        )],
    },
    Mutant {
        name: "units of a slot come back though the request is admitted",
        file: ACROSS_SLOTS,
        replacements: &[("        taken.keep();\n", "        drop(taken);\n")],
    },
    Mutant {
        name: "a closed rule admits while the store is away",
        file: DECIDE,
        replacements: &[(
            "let is_closed = setting == OnStoreError::Closed\n",
            "let is_closed = lack == Lack::Overloaded && setting == OnStoreError::Closed\n",
        )],
    },
    Mutant {
        name: "a node admits on top of the units that it took ahead",
        file: DECIDE,
        replacements: &[(
            "if let Some(wait) = lasts(ask) {",
            "if let Some(wait) = lasts(ask).filter(|_| false) {",
        )],
    },
    Mutant {
        name: "a node has the whole limit while the store is away",
        file: PARTS,
        replacements: &[(
            "Arc::new(share.rule(rule.variant(number)))",
            "Arc::new(Share::of(None).rule(rule.variant(number)))",
        )],
    },
    Mutant {
        name: "units of a lease that are given back again come back twice",
        file: STORE,
        replacements: &[("                recorded.units = rest.kept;\n", "")],
    },
    Mutant {
        name: "a reservation is settled as of now, not as of when its units were taken",
        file: STORE,
        replacements: &[(
            "limiter.give_back_lease(surplus, now, since));",
            "limiter.give_back_lease(surplus, now, now.max(since)));",
        )],
    },
];
