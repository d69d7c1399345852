//! The data that callers and the store's thread share.

use std::mem::{Discriminant, discriminant};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::audit::ReportedFindings;
use super::counts::RequestCounts;
use super::inbox::{Inbox, Question};
use crate::settings::StoreSettings;
use crate::store::{StoreError, StoreEvent, StoreObserver};

/// Decisions that were not taken are reported this far apart, for each kind of reason.
const REPORTED_AGAIN_US: u64 = 60_000_000;

/// The result of the last check of the store: none yet, fit, or why it is not.
pub(super) type CheckResult = Option<Result<(), StoreError>>;

/// Data that callers and the store's thread share.
pub(super) struct StoreState {
    pub(super) settings: StoreSettings,
    pub(super) inbox: Inbox<Question>,
    pub(super) counts: RequestCounts,
    pub(super) observer: StoreObserver,
    pub(super) found: watch::Sender<CheckResult>,
    pub(super) findings: Mutex<ReportedFindings>,
    /// When a decision that was not taken was last reported, for each kind of reason.
    undecided: Mutex<Vec<(Discriminant<StoreError>, u64)>>,
    pub(super) deadline: Duration,
    began: Instant,
}

impl StoreState {
    pub(super) fn new(settings: StoreSettings, observer: StoreObserver) -> Self {
        Self {
            inbox: Inbox::default(),
            counts: RequestCounts::default(),
            observer,
            found: watch::Sender::new(None),
            findings: Mutex::default(),
            undecided: Mutex::default(),
            deadline: settings.timeout,
            began: Instant::now(),
            settings,
        }
    }

    /// Counts a request that was not decided because of overload, and reports the beginning of an
    /// overload.
    pub(super) fn note_overloaded(&self) {
        if self.counts.overloaded(Instant::now()) {
            (self.observer)(StoreEvent::Overloaded);
        }
    }

    /// Notes a decision that was not taken; returns whether to report it: not if one of this kind
    /// was reported within the last minute.
    pub(super) fn undecided(&self, error: &StoreError) -> bool {
        let kind = discriminant(error);
        let now_us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let mut reported = self.undecided.lock().unwrap_or_else(PoisonError::into_inner);
        match reported.iter_mut().find(|(reported, _)| *reported == kind) {
            Some((_, at_us)) if now_us.saturating_sub(*at_us) < REPORTED_AGAIN_US => return false,
            Some((_, at_us)) => *at_us = now_us,
            None => reported.push((kind, now_us)),
        }
        true
    }
}
