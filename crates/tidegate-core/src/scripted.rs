//! Rules that a script decides inside a store. From the state that the script returns, the
//! algorithm computes the values of the decision.

use core::iter;
use core::time::Duration;

use crate::algorithm::Algorithm;
use crate::algorithms::AlgorithmKind;
use crate::decision::Decision;
use crate::held::Held;
use crate::rule::{Rule, Visitor};
use crate::script::{Script, ScriptInput, ScriptReply};
use crate::spec::Spec;
use crate::time::{Micros, Timestamp, Token};

impl Rule {
    /// The input of the rule's script for a request of `cost` units; `None` if the rule is
    /// unlimited.
    #[must_use]
    pub fn script_input(&self, cost: u64) -> Option<ScriptInput> {
        self.visit(InputVisitor { cost })
    }

    /// The rule's script; `None` if the rule is unlimited.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_core::{AlgorithmKind, Rule, Spec};
    ///
    /// let rule = Rule::new(Spec::new(AlgorithmKind::FixedWindow, 5, Duration::from_secs(1)))?;
    /// assert_eq!(rule.script().map(|script| script.name), Some("fixed_window"));
    /// # Ok::<(), tidegate_core::RuleErrors>(())
    /// ```
    #[must_use]
    pub fn script(&self) -> Option<Script> {
        self.visit(ScriptVisitor)
    }

    /// The rule whose states carry this `kind` of script and these parameters; `None` if there is
    /// none. If an algorithm has several names, the result has the name of this rule.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_core::{AlgorithmKind, Rule, Spec};
    ///
    /// let leaky = Rule::new(Spec::new(AlgorithmKind::LeakyBucket, 5, Duration::from_secs(1)))?;
    /// let log = Rule::new(Spec::new(AlgorithmKind::SlidingLog, 9, Duration::from_secs(60)))?;
    /// let input = log.script_input(0).expect("it has a limit");
    /// let rebuilt = leaky.of_parameters(input.script.kind, input.parameters).expect("there is one");
    /// assert_eq!(rebuilt.script_input(1), log.script_input(1));
    /// # Ok::<(), tidegate_core::RuleErrors>(())
    /// ```
    #[must_use]
    pub fn of_parameters(&self, kind: u8, parameters: [u64; 4]) -> Option<Self> {
        let own = self.spec().algorithm;
        let algorithms = iter::once(own).chain(AlgorithmKind::ALL.iter().copied());
        algorithms.into_iter().find_map(|algorithm| {
            let [limit, window_us, ..] = parameters;
            let mut spec = Spec::new(algorithm, limit, Duration::from_micros(window_us));
            if window_us == 0 {
                // A limit of 0 without a window has no other field.
                spec.window = None;
            } else {
                algorithm.restore_fields(kind, parameters, &mut spec);
            }
            let rule = Self::new(spec).ok()?;
            // An algorithm may build a rule from parameters of
            // another, so the rule has to write the same numbers.
            let input = rule.script_input(0)?;
            ((input.script.kind, input.parameters) == (kind, parameters)).then_some(rule)
        })
    }

    /// The largest size in bytes of one stored value of the rule, if it can be too large for a
    /// store (a log in one string); else 0.
    #[must_use]
    pub fn most_stored_bytes(&self) -> u64 {
        self.visit(StoredBytesVisitor).unwrap_or(0)
    }

    /// The decision about a request of `cost` units, computed from the reply of the rule's script;
    /// `None` if the rule is unlimited or the reply holds no state.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_core::{AlgorithmKind, Rule, Spec, Timestamp, ScriptReply, Verdict};
    ///
    /// let rule = Rule::new(Spec::new(AlgorithmKind::FixedWindow, 5, Duration::from_secs(1)))?;
    /// let at = Timestamp::from_micros(300_000);
    /// // The window ends at one second; 5 units are in it.
    /// let state = vec![1_000_000, 5, 300_000];
    /// let reply = ScriptReply { now: at, at, verdict: Verdict::Deny, taken: false, state };
    /// let decision = rule.decision(1, &reply).expect("three integers are a state");
    /// assert_eq!(decision.retry_after(), Some(Duration::from_millis(700)));
    /// # Ok::<(), tidegate_core::RuleErrors>(())
    /// ```
    #[must_use]
    pub fn decision(&self, cost: u64, reply: &ScriptReply) -> Option<Decision> {
        self.visit(ReportVisitor { cost, reply, is_usage: false })?
    }

    /// The token of the permit that a script took, if it took one.
    #[must_use]
    pub fn token(&self, reply: &ScriptReply) -> Option<Token> {
        self.visit(PermitVisitor { reply })?
    }

    /// The decision after usage was reported, about one unit more. The verdict is computed here as
    /// well, because a script that takes reported usage decides nothing.
    #[must_use]
    pub fn standing(&self, reply: &ScriptReply) -> Option<Decision> {
        self.visit(ReportVisitor { cost: 0, reply, is_usage: true })?
    }

    /// Returns when a lease ends that its script replied to, if it was granted: by the time that counts, at the end
    /// of its `life` or before.
    #[must_use]
    pub fn lease_end(&self, reply: &ScriptReply, life: Micros) -> Option<Timestamp> {
        self.visit(LeaseEnd { reply, life })?
    }
}

struct LeaseEnd<'a> {
    reply: &'a ScriptReply,
    life: Micros,
}

impl Visitor for LeaseEnd<'_> {
    type Out = Option<Timestamp>;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Option<Timestamp> {
        let ScriptReply { verdict, at, ref state, .. } = *self.reply;
        let state = algorithm.decode_state(state)?;
        let end = algorithm.lease_end(&state, at)?.min(at.plus(self.life));
        verdict.is_allowed().then_some(end)
    }
}

struct StoredBytesVisitor;

impl Visitor for StoredBytesVisitor {
    type Out = u64;

    fn visit<R: Algorithm>(self, algorithm: &R) -> u64 {
        algorithm.most_stored_bytes()
    }
}

struct InputVisitor {
    cost: u64,
}

impl Visitor for InputVisitor {
    type Out = ScriptInput;

    fn visit<R: Algorithm>(self, algorithm: &R) -> ScriptInput {
        ScriptInput {
            script: algorithm.script(),
            parameters: algorithm.parameters(),
            args: algorithm.script_args(self.cost),
        }
    }
}

struct ScriptVisitor;

impl Visitor for ScriptVisitor {
    type Out = Script;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Script {
        algorithm.script()
    }
}

struct PermitVisitor<'a> {
    reply: &'a ScriptReply,
}

impl Visitor for PermitVisitor<'_> {
    type Out = Option<Token>;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Option<Token> {
        if !R::HOLDS_PERMITS || !self.reply.taken {
            return None;
        }
        algorithm.token(&algorithm.decode_state(&self.reply.state)?)
    }
}

struct ReportVisitor<'a> {
    cost: u64,
    reply: &'a ScriptReply,
    is_usage: bool,
}

impl Visitor for ReportVisitor<'_> {
    type Out = Option<Decision>;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Option<Decision> {
        let mut slot = Some(algorithm.decode_state(&self.reply.state)?);
        let held = Held::after(algorithm, &mut slot, self.cost, self.reply);
        if !self.is_usage {
            return Some(held.report());
        }
        let mut held = held.for_usage();
        let _ = held.decide();
        Some(held.report())
    }
}
