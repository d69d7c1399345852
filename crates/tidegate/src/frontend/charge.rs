//! A cost that is taken first, until it is known whether it counts.

use crate::answer::Answer;
use crate::request::Request;

/// The cost of an admitted request, until it is known whether it counts.
///
/// [`Charge::keep`] keeps it, [`Charge::settle`] changes it to the actual cost of the work, and [`Charge::release`]
/// gives it back. A charge that is dropped is kept: work that panics or is cancelled is not a free try. The permit of a
/// rule of `concurrency` comes back when it is settled, for any cost, and otherwise at the end of its life.
///
/// Only units that this request took are given back. A limiter in shadow mode that would have refused took nothing. The
/// overflow limiter, which keys without room share, gives nothing back. A request whose answer is
/// [repeated](Answer::is_repeated) took nothing.
///
/// Over a store the cost goes back where it was taken: a cost that was admitted without the store
/// ([`Answer::is_degraded`]) goes back to this node's share of the limit, and the store is not asked. Units that a late
/// reply took for this request stay taken.
///
/// ```
/// use tidegate::{Gate, Policy, RuleSpec, Spec};
///
/// let spec = Spec::per_minute(100);
/// let gate = Gate::new(Policy::new(vec![RuleSpec::new("tokens", spec).key(["user"])])?);
/// let Ok(charge) = gate.hold(&[("user", "ada")]) else { return Ok(()) };
/// charge.release(); // the work did not run
/// assert_eq!(gate.peek(&[("user", "ada")]).remaining(), Some(100));
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Debug)]
#[must_use = "dropped, the cost stays taken"]
pub struct Charge<'a, G> {
    pub(crate) gate: &'a G,
    pub(crate) request: Request<'a>,
    pub(crate) answer: Answer<'a>,
}

impl<'a, G> Charge<'a, G> {
    /// Holds the cost of a request that `gate` has answered, as [`Gate::hold`](crate::Gate::hold) does for one that does
    /// not wait. The request should be one that [reserves](Request::reserving), or less may come back.
    ///
    /// ```
    /// use tidegate::{Charge, Gate, Request, Timer};
    ///
    /// async fn render(gate: &Gate<impl Timer>, request: &Request<'_>) -> bool {
    ///     let request = request.reserving();
    ///     let answer = gate.acquire(request).await;
    ///     let Ok(charge) = Charge::of(gate, request, answer) else { return false };
    ///     charge.settle(7); // what it did cost
    ///     true
    /// }
    /// ```
    ///
    /// # Errors
    /// Returns the answer, if it refuses.
    #[expect(
        clippy::result_large_err,
        reason = "a refusal is an answer as any other, and needs no memory"
    )]
    pub fn of(
        gate: &'a G,
        request: impl Into<Request<'a>>,
        answer: Answer<'a>,
    ) -> Result<Self, Answer<'a>> {
        let request = request.into();
        if answer.is_allowed() { Ok(Self { gate, request, answer }) } else { Err(answer) }
    }

    /// The answer that admitted the request; its delay, if any, is how long the work must be held.
    pub const fn answer(&self) -> &Answer<'a> {
        &self.answer
    }

    /// Keeps the cost, as dropping the charge does. No store is asked.
    pub fn keep(self) {}
}
