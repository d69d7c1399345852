//! A rule whose script decides inside a store: the algorithm works out the values of a decision
//! from the state that the script returned.

use core::iter;

use crate::algorithm::Algorithm;
use crate::algorithms::AlgorithmKind;
use crate::decision::Decision;
use crate::held::{Held, Verbs};
use crate::rule::{Rule, Visitor};
use crate::script::{Question, Told};
use crate::spec::Spec;
use crate::time::Micros;

impl Rule {
    /// The arguments of the rule's script for a request of `cost` units; `None` when the rule is
    /// unlimited.
    #[must_use]
    pub fn question(&self, cost: u64) -> Option<Question> {
        self.visit(Ask { cost })
    }

    /// The rule whose states carry this `kind` of script and these parameters; `None` where there
    /// is none. Where an algorithm has several names, it gets this rule's.
    ///
    /// ```
    /// use tidegate_core::{AlgorithmKind, Micros, Rule, Spec};
    ///
    /// let leaky = Rule::new(Spec::new(AlgorithmKind::LeakyBucket, 5, Micros::from_secs(1)))?;
    /// let log = Rule::new(Spec::new(AlgorithmKind::SlidingLog, 9, Micros::from_secs(60)))?;
    /// let question = log.question(0).expect("it has a limit");
    /// let rebuilt = leaky.of_parameters(question.script.kind, question.figures).expect("there is one");
    /// assert_eq!(rebuilt.question(1), log.question(1));
    /// # Ok::<(), tidegate_core::RuleErrors>(())
    /// ```
    #[must_use]
    pub fn of_parameters(&self, kind: u8, parameters: [u64; 4]) -> Option<Self> {
        let own = self.spec().algorithm;
        let algorithms = iter::once(own).chain(AlgorithmKind::ALL.iter().copied());
        algorithms.into_iter().find_map(|algorithm| {
            let [limit, window_us, ..] = parameters;
            let mut spec = Spec::new(algorithm, limit, Micros::from_micros(window_us));
            if window_us == 0 {
                spec.window = None;
            } else {
                algorithm.restore_fields(kind, parameters, &mut spec);
            }
            let rule = Self::new(spec).ok()?;
            let question = rule.question(0)?;
            ((question.script.kind, question.figures) == (kind, parameters)).then_some(rule)
        })
    }

    /// Most bytes of one value that a store holds for one key of the rule, where that can be too
    /// many for a store: for a log in one string. Else 0.
    #[must_use]
    pub fn most_stored_bytes(&self) -> u64 {
        self.visit(Stored).unwrap_or(0)
    }

    /// The decision about a request of `cost` units, worked out by the algorithm from the reply of
    /// the rule's script; `None` when the rule is unlimited or the reply holds no state.
    ///
    /// ```
    /// use tidegate_core::{AlgorithmKind, Micros, Rule, Spec, Timestamp, Told, Verdict};
    ///
    /// let rule = Rule::new(Spec::new(AlgorithmKind::FixedWindow, 5, Micros::from_secs(1)))?;
    /// let at = Timestamp::from_micros(300_000);
    /// // The window ends at one second; 5 units are in it.
    /// let words = vec![1_000_000, 5, 300_000];
    /// let told = Told { now: at, at, verdict: Verdict::Deny, taken: false, words };
    /// let decision = rule.decision(1, &told).expect("three words are a state");
    /// assert_eq!(decision.retry_after(), Some(Micros::from_millis(700)));
    /// # Ok::<(), tidegate_core::RuleErrors>(())
    /// ```
    #[must_use]
    pub fn decision(&self, cost: u64, reply: &Told) -> Option<Decision> {
        self.visit(Report { cost, reply, is_usage: false })?
    }

    /// The decision about usage that was reported, however much: how the limiter stands with what
    /// was taken. The verdict is worked out here as well, because such a script decides nothing.
    #[must_use]
    pub fn standing(&self, reply: &Told) -> Option<Decision> {
        self.visit(Report { cost: 0, reply, is_usage: true })?
    }
}

struct Stored;

impl Visitor for Stored {
    type Out = u64;

    fn visit<R: Algorithm>(self, algorithm: &R) -> u64 {
        algorithm.most_stored_bytes()
    }
}

struct Ask {
    cost: u64,
}

impl Visitor for Ask {
    type Out = Question;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Question {
        Question {
            script: algorithm.script(),
            figures: algorithm.parameters(),
            words: algorithm.script_args(self.cost),
        }
    }
}

struct Report<'a> {
    cost: u64,
    reply: &'a Told,
    is_usage: bool,
}

impl Visitor for Report<'_> {
    type Out = Option<Decision>;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Option<Decision> {
        let mut slot = Some(algorithm.recalled(&self.reply.words)?);
        let held = Held::after(algorithm, &mut slot, self.cost, self.reply);
        if !self.is_usage {
            return Some(held.report());
        }
        let mut held = held.for_usage();
        held.decide();
        Some(held.report())
    }
}
