//! The id of a request, by which it is known when it is asked again.

use std::fmt;

use super::Request;

/// Most bytes of the id of a request.
pub const MAX_REQUEST_ID_BYTES: usize = 256;

impl<'a> Request<'a> {
    /// The same under an id, for rules that say [`dedupe`](crate::RuleSpec::dedupe): within that time
    /// a request that was admitted is answered the same when it is asked again, and takes nothing.
    ///
    /// It is the same request that has the same id, meets the same limiters, and costs them the same;
    /// any other one is decided by itself. So an id is best drawn at random for each piece of work, and
    /// kept when its question is asked again. It must not be left to whoever is limited: what is
    /// admitted under an id once is free under it from then on.
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, Descriptor, Gate, Micros, Policy, Request, RuleSpec, Spec};
    ///
    /// let spec = Spec::new(AlgorithmKind::FixedWindow, 2, Micros::from_secs(86_400));
    /// let rule = RuleSpec::new("all", spec).dedupe(Micros::from_secs(10));
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
    /// It is empty, or longer than [`MAX_REQUEST_ID_BYTES`].
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

    /// The same without an id.
    pub(crate) const fn without_id(mut self) -> Self {
        self.id = None;
        self
    }

    /// The id it is asked under, if it has one.
    #[must_use]
    pub const fn id(&self) -> Option<&'a str> {
        self.id
    }
}

/// Why a text is not the id of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestIdError {
    /// It is empty: all requests without one would be the same.
    Empty,
    /// It has so many bytes, and at most [`MAX_REQUEST_ID_BYTES`] are taken.
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

impl std::error::Error for RequestIdError {}

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
