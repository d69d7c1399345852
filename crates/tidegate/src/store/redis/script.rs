//! Decisions as scripts: the call for a step over limiters, and the meaning of its reply. No client
//! is known here.
//!
//! The script of an algorithm is next to its code: one function, which runs the verbs in their order.
//! The algorithm works out the values of a decision from the state that the script returns. A
//! script is whole Lua files, joined: `prelude.lua`, the files of the algorithms, and `dispatch.lua`, or `batch.lua` or
//! `each.lua` for several requests in one call; `amend.lua` and `space.lua` stand between them where they are needed.
//!
//! ```
//! use tidegate::script::{Answer, Call, Limiter, Reply, Step};
//! use std::time::Duration;
//! use tidegate::{AlgorithmKind, Rule, Spec};
//!
//! let rule = Rule::new(Spec::new(AlgorithmKind::TokenBucket, 100, Duration::from_secs(1)))?;
//! let limiters: Vec<_> = Limiter::new(b"tg:api:ada", &rule, 1).into_iter().collect();
//! let call = Call::new(&limiters, Step::Ask, None);
//! // A client sends `EVALSHA call.script.sha1 1 KEYS.. ARGV..`, and hands the reply back:
//! let reply = Reply::Nil;
//! // It was written under another rule: the same is asked again, and the state amended, in one step.
//! assert_eq!(call.answer(&limiters, &reply), Ok(Answer::Changed));
//! let call = call.amending();
//! # Ok::<(), tidegate::RuleErrors>(())
//! ```

mod answer;
mod batch;
mod call;
mod count;
mod each;
mod id;
mod known;
mod limiter;
mod newer_values;
mod record;
mod reply;
mod revision;
mod settled;
mod step;
mod text;

pub use crate::lease::GivenBack;
pub use crate::step::Values;
pub(crate) use answer::Seen;
pub use answer::{Answer, Decided, Lacks};
pub use batch::{Batch, Replies};
pub use call::Call;
pub use each::Each;
pub use known::Script;
pub use limiter::{Among, Limiter};
pub use newer_values::NewerValues;
pub use record::LeaseRecord;
pub use reply::{NotAnAnswer, Reply};
pub use revision::Revision;
pub use settled::{Settled, Surplus};
pub use step::Step;

/// The version of stored states: the first byte of every state, below 32. A state of another version is neither read
/// nor overwritten.
const VERSION: u8 = 1;
/// Bytes before a state that identify it: version, algorithm, and the values of the rule. The
/// revision of these values follows.
const HEAD: usize = 22;
