//! The last step of a waiter at a gate: rules and plans may have changed since the waiter came.

use std::sync::{Arc, Mutex, PoisonError};

use crate::gate::Stepped;
use crate::inline_list::InlineList;
use crate::step::{Ask, Done};
use crate::store::memory::{Generation, Kept};

/// The limiters that a request had when it came, and the result of its last step.
#[derive(Debug)]
pub(super) struct Last {
    first: InlineList<Ask>,
    generation: Arc<Generation>,
    stepped: Mutex<Option<Stepped>>,
}

impl Last {
    /// Creates it for a waiter that has not asked yet.
    pub(super) fn new(generation: &Arc<Generation>, first: &InlineList<Ask>) -> Self {
        Self { first: first.clone(), generation: Arc::clone(generation), stepped: Mutex::default() }
    }

    /// Stores the result of a step.
    pub(super) fn note(&self, stepped: Stepped) {
        *self.stepped.lock().unwrap_or_else(PoisonError::into_inner) = Some(stepped);
    }

    /// Converts `done` from the limiters of the first step to the limiters of the last step.
    pub(super) fn stepped(&self, done: Done) -> Stepped {
        let Self { first, generation, stepped } = self;
        let last = stepped.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Stepped { generation, asks, done: last }) = last else {
            let generation = Kept::from(Arc::clone(generation));
            return Stepped { generation, asks: first.clone(), done };
        };
        let both = asks.iter().zip(last.decisions);
        let decisions =
            both.map(|(ask, last)| done.of(first, ask).cloned().unwrap_or(last)).collect();
        Stepped { generation, asks, done: Done { decisions, ..done } }
    }
}
