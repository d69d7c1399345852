//! The id of a request, which identifies it when it is repeated.
//!
//! A rule with `dedupe` counts such a request once, and repeats its answer.

use std::fmt;
use std::time::Duration;

use tidegate_core::Micros;

use super::Request;

/// The maximum number of bytes of the id of a request.
pub const MAX_REQUEST_ID_BYTES: usize = 256;

impl<'a> Request<'a> {
    /// Adds an id, for rules with [`dedupe`](crate::rules::RuleSpec::dedupe): if an admitted request is
    /// repeated within that time, it gets the same answer, and takes nothing.
    ///
    /// A request is the same if it has the same id, the same verb (a check, or one that [reserves](Self::reserving)) and the
    /// same limiters, and costs them the same; any other request is decided by itself. So draw the id at random for
    /// each piece of work, and keep it for repetitions. The limited caller must not choose it: requests under an id
    /// that was admitted once are free from then on.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Descriptor, Gate, Policy, Request, RuleSpec, Spec};
    ///
    /// let spec = Spec::new(AlgorithmKind::FixedWindow, 2, Duration::from_secs(86_400));
    /// let rule = RuleSpec::new("all", spec).dedupe(Duration::from_secs(10));
    /// let gate = Gate::new(Policy::new(vec![rule])?);
    /// let descriptors = [Descriptor::new(&[])];
    /// let transfer = Request::new("default", &descriptors).with_id("2f1c-77")?;
    /// for repeated in [false, true, true] {
    ///     let answer = gate.check(&transfer);
    ///     assert!(answer.is_allowed() && answer.is_repeated() == repeated);
    ///     assert_eq!(answer.reported().map(|rule| rule.decision().remaining), Some(1));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the id is empty, or longer than [`MAX_REQUEST_ID_BYTES`].
    pub const fn with_id(mut self, id: &'a str) -> Result<Self, RequestIdError> {
        match id.len() {
            0 => Err(RequestIdError::Empty),
            1..=MAX_REQUEST_ID_BYTES => {
                self.id = Some(id);
                Ok(self)
            }
            bytes => Err(RequestIdError::TooLong(bytes)),
        }
    }

    /// Makes it a request whose cost is settled later, as `Gate::hold` does with its own. A check
    /// without it can be settled too, but a bucket then returns the units less what has drained since.
    ///
    /// | the cost is known | the request |
    /// | --- | --- |
    /// | while the future of the request lives | `hold`; the charge is released or settled, and kept on drop |
    /// | later, or elsewhere | `reserving`, then `Taken` of the answer and `settle` |
    /// | only that nothing was used | a check, then `refund` |
    ///
    /// Under its id it is another request than a check. Otherwise checks under the id of a reservation that was settled for nothing
    /// would be repetitions of it, and free.
    ///
    /// A bucket remembers its lowest level while a reservation is open. A busy bucket, which never ran low, gives the
    /// whole surplus back; otherwise only the units that cannot have drained since then come back.
    /// `Taken` settles it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{Descriptor, Gate, Policy, Request, RuleSpec};
    ///
    /// let rule = RuleSpec::new("all", "2/h").dedupe(Duration::from_secs(10));
    /// let gate = Gate::new(Policy::new(vec![rule])?);
    /// let descriptors = [Descriptor::new(&[])];
    /// let request = Request::new("default", &descriptors).with_id("2f1c-77")?;
    /// assert!(!gate.check(&request.reserving()).is_repeated());
    /// assert!(!gate.check(&request).is_repeated());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn reserving(mut self) -> Self {
        self.reserves = true;
        self
    }

    /// As [`Request::reserving`], under a name and for a life that a shared store remembers with the answer: whichever node is asked
    /// again under the [id](Self::with_id) of the request learns the name
    /// (`Answer::first_reservation`), and with it the
    /// record (`ReservationRecord`) of the reservation. A name is 16 random bytes.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tidegate::{Request, SharedGate};
    ///
    /// # async fn example(gate: &SharedGate, request: Request<'_>, random: [u8; 16]) {
    /// let answer = gate.check(request.reserving_as(&random, Duration::from_secs(60))).await;
    /// let name = answer.first_reservation().map_or(random, |first| first.name);
    /// # let _ = name;
    /// # }
    /// ```
    #[must_use]
    pub const fn reserving_as(self, name: &'a [u8; 16], life: Duration) -> Self {
        let life = Micros::from_duration(life);
        Self { reservation: Some((name, life)), ..self.reserving() }
    }

    /// The id, if the request has one.
    #[must_use]
    pub const fn id(&self) -> Option<&'a str> {
        self.id
    }
}

/// Why a text cannot be the id of a request.
///
/// ```
/// use tidegate::{Descriptor, Request, RequestIdError};
///
/// let descriptors = [Descriptor::new(&[])];
/// let request = Request::new("default", &descriptors);
/// assert_eq!(request.with_id("").unwrap_err(), RequestIdError::Empty);
/// assert_eq!(request.with_id(&"x".repeat(300)).unwrap_err(), RequestIdError::TooLong(300));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RequestIdError {
    /// The text is empty: all requests with it would be the same.
    Empty,
    /// The text has this many bytes; at most [`MAX_REQUEST_ID_BYTES`] are allowed.
    TooLong(usize),
}

impl fmt::Display for RequestIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = MAX_REQUEST_ID_BYTES;
        match self {
            Self::Empty => {
                write!(f, "the request's id is empty: expected 1 to {most} bytes, or no id at all")
            }
            Self::TooLong(bytes) => {
                write!(f, "the request's id has {bytes} bytes: expected 1 to {most}")
            }
        }
    }
}

tidegate_core::debug_as_display!(RequestIdError);

impl std::error::Error for RequestIdError {}

impl<'a> Request<'a> {
    /// Identifies the source of the request by a number of the caller's choice, such as the number of a connection. If
    /// more requests wait for a shared store than it decides in time, sources take turns, so that a quiet source is
    /// decided next to a busy one. 0, the default, is no source in particular.
    ///
    /// ```
    /// use tidegate::{Descriptor, Request};
    ///
    /// let entries = [("user", "ada")];
    /// let descriptors = [Descriptor::new(&entries)];
    /// let request = Request::new("default", &descriptors).from_source(17);
    /// # let _ = request;
    /// ```
    #[must_use]
    pub const fn from_source(mut self, source: u64) -> Self {
        self.source = source;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_a_byte_and_no_more_than_so_many() {
        let request = Request::new("default", &[]);
        let id = |bytes: usize| "x".repeat(bytes);
        for bytes in [1, MAX_REQUEST_ID_BYTES] {
            assert_eq!(request.with_id(&id(bytes)).map(|it| it.id() == Some(&id(bytes))), Ok(true));
        }
        assert_eq!(request.with_id(""), Err(RequestIdError::Empty));
        assert_eq!(request.with_id(&id(257)), Err(RequestIdError::TooLong(257)));
    }
}
