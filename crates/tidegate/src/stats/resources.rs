//! The named entry points of a process, and the statistics of each.
//!
//! For programs that count by name. For the rules of a gate there is an observer ([`RuleStatistics`](crate::RuleStatistics)).

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use super::entry::Entry;
use super::statistics::Statistics;
use crate::clock::{Clock, SystemClock};

/// The statistics of each named entry point, up to a number of entry points.
///
/// A name is a part of the program (a route, a rule, a queue), never a caller: each has statistics of
/// at most nine kilobytes, and none is ever dropped.
///
/// ```
/// use tidegate::Resources;
///
/// let resources = Resources::new(100);
/// let search = resources.named("search")?; // keep it: the name is looked up once
/// search.block(1);
/// drop(search.entry());
///
/// for (name, stats) in resources.all() {
///     let minute = stats.minute();
///     assert_eq!((&*name, minute.pass, minute.block), ("search", 1, 1));
/// }
/// # Ok::<(), tidegate::TooManyResources>(())
/// ```
#[derive(Debug)]
pub struct Resources<C = SystemClock> {
    most: usize,
    clock: C,
    named: RwLock<StatisticsByName<C>>,
}

type StatisticsByName<C> = BTreeMap<Arc<str>, Arc<Statistics<C>>>;

impl Resources {
    /// Allows at most `most` names, by the system's clock.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self::with_clock(most, SystemClock::new())
    }
}

impl<C: Clock + Clone> Resources<C> {
    /// Allows at most `most` names, each with a copy of `clock`.
    #[must_use]
    pub fn with_clock(most: usize, clock: C) -> Self {
        Self { most, clock, named: RwLock::default() }
    }

    /// The statistics of that name, created if there are none. The same name always has the same
    /// statistics.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is new and there are as many names as allowed.
    pub fn named(&self, name: &str) -> Result<Arc<Statistics<C>>, TooManyResources> {
        if let Some(stats) = self.get(name) {
            return Ok(stats);
        }
        // Looked for again under the lock: another thread may have added it since.
        let mut named = self.named.write().unwrap_or_else(PoisonError::into_inner);
        if !named.contains_key(name) && named.len() >= self.most {
            return Err(TooManyResources { name: name.into(), most: self.most });
        }
        let stats = named
            .entry(name.into())
            .or_insert_with(|| Arc::new(Statistics::with_clock(self.clock.clone())));
        Ok(Arc::clone(stats))
    }

    /// Counts a request of one unit at the entry point of that name: [`Statistics::entry`].
    ///
    /// # Errors
    ///
    /// Returns an error as [`Resources::named`] does.
    pub fn entry(&self, name: &str) -> Result<Entry<Arc<Statistics<C>>, C>, TooManyResources> {
        self.named(name).map(|stats| stats.entry_owned())
    }
}

impl<C> Resources<C> {
    /// The statistics of that name, if there are any.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<Statistics<C>>> {
        self.read(|named| named.get(name).cloned())
    }

    /// All names and their statistics, in the order of the names.
    #[must_use]
    pub fn all(&self) -> Vec<(Arc<str>, Arc<Statistics<C>>)> {
        self.read(|named| {
            named.iter().map(|(name, stats)| (Arc::clone(name), Arc::clone(stats))).collect()
        })
    }

    /// The number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read(BTreeMap::len)
    }

    /// Returns whether there is no name yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn read<T>(&self, look: impl FnOnce(&StatisticsByName<C>) -> T) -> T {
        look(&self.named.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A new entry point was named, and no more are allowed.
///
/// ```
/// use tidegate::Resources;
///
/// let resources = Resources::new(1);
/// resources.named("search")?;
/// let error = resources.named("orders").unwrap_err();
/// assert!(error.to_string().contains("orders"), "{error}");
/// # Ok::<(), tidegate::TooManyResources>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct TooManyResources {
    name: Box<str>,
    most: usize,
}

impl fmt::Display for TooManyResources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, most } = self;
        write!(
            f,
            "no room for the resource {name:?}: there are {most} already, as many as may be; "
        )?;
        f.write_str("allow more, or name entry points only, not callers")
    }
}

tidegate_core::debug_as_display!(TooManyResources);

impl Error for TooManyResources {}
