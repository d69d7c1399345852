//! Decisions as scripts: the call for a step over limiters, and the meaning of its reply. No client
//! is known here.
//!
//! The script of an algorithm is next to its code: one function, which runs the verbs in their order.
//! The algorithm works out the values of a decision from the state that the script returns. A
//! script is whole Lua files, joined: `prelude.lua`, the files of the algorithms, and `dispatch.lua`, or `batch.lua` or
//! `each.lua` for several requests in one call; `amend.lua` and `space.lua` stand between them where they are needed.
//!
//! ```
//! use tidegate::script::{Call, CallResult, RedisReply, ScriptLimiter, ScriptStep};
//! use std::time::Duration;
//! use tidegate::{AlgorithmKind, Rule, Spec};
//!
//! let rule = Rule::new(Spec::new(AlgorithmKind::TokenBucket, 100, Duration::from_secs(1)))?;
//! let limiters: Vec<_> = ScriptLimiter::new(b"tg:api:ada", &rule, 1).into_iter().collect();
//! let call = Call::new(&limiters, ScriptStep::Ask, None);
//! // A client sends `EVALSHA call.script.sha1 1 KEYS.. ARGV..`, and hands the reply back:
//! let reply = RedisReply::Nil;
//! // It was written under another rule: the same is asked again, and the state amended, in one step.
//! assert_eq!(call.answer(&limiters, &reply), Ok(CallResult::Changed));
//! let call = call.amending();
//! # Ok::<(), tidegate::RuleErrors>(())
//! ```

mod batch;
mod call;
mod call_result;
mod each;
mod joined;
mod limiter;
mod record;
mod reply;
mod revision;
mod settled;
mod step;

pub use crate::lease::GivenBack;
pub use crate::step::Values;
pub use batch::{CallBatch, Replies};
pub use call::Call;
pub use call_result::{CallResult, DecidedStep, Lacks, NewerValues};
pub use each::Each;
pub use joined::JoinedScript;
pub(crate) use limiter::Purpose;
pub use limiter::{Among, ScriptLimiter};
pub use record::LeaseRecord;
pub use reply::{NotAnAnswer, RedisReply};
pub use revision::Revision;
pub use settled::{SettledUnits, Surplus};
pub use step::ScriptStep;

/// The version of stored states: the first byte of every state, below 32. A state of another version is neither read
/// nor overwritten.
const VERSION: u8 = 1;
/// Bytes before a state that identify it: version, algorithm, and the values of the rule. The
/// revision of these values follows.
const HEAD: usize = 22;
