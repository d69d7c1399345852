//! The limiters that a request is settled with, and the final cost of each.

#[cfg(feature = "redis")]
mod record;

#[cfg(feature = "tower")]
use tidegate_core::Since;
use tidegate_core::{Settled, Token};

use crate::answer::{Answer, Unreached};
use crate::inline_list::InlineList;
use crate::request::Request;
use crate::rules::Policy;
use crate::step::{Ask, DescriptorSet, Lineage, TakenUnits, ValuesSource};
#[cfg(feature = "redis")]
use crate::step::{Lack, Values};
#[cfg(feature = "redis")]
pub use record::RecordedReservation;

/// The units that an admitted request took from each of its limiters, for a cost that is settled later, away from the gate and
/// the answer.
///
/// [`Gate::settle`](crate::Gate::settle) and `SharedGate::settle` settle it with the request, as a
/// [`Charge`](crate::Charge) does that is kept: a limiter that took nothing gives nothing back, also if the rules have
/// changed since. It holds no policy and no limiter, and takes a few dozen bytes for each limiter.
///
/// ```
/// use tidegate::{Gate, Policy, RuleSpec, Taken};
///
/// let gate = Gate::new(Policy::new(vec![RuleSpec::new("tokens", "100/h").key(["user"])])?);
/// let request = ("default", &[("user", "ada")]);
/// let taken = Taken::from(&gate.check(request));
/// // The work took 30 units, not one.
/// assert_eq!(gate.settle(request, &taken, &[30]).remaining(), Some(70));
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Taken {
    limiters: Vec<FromLimiter>,
    /// True if the answer repeats an earlier answer that took permits: they belong to the earlier request.
    has_permits_of_first: bool,
    /// Why this process decided instead of the store, if it did.
    #[cfg(feature = "redis")]
    pub(crate) lack: Option<Lack>,
}

/// The units of one limiter.
#[derive(Clone, Copy, Debug)]
struct FromLimiter {
    known_by: (Lineage, DescriptorSet),
    /// True if another limiter than the key's own gave it.
    is_elsewhere: bool,
    is_enforced: bool,
    taken: TakenUnits,
    /// True if the step opened a reservation, which a settlement closes.
    reserves: bool,
    /// The values under which they were taken.
    #[cfg(feature = "redis")]
    under: Option<Values>,
}

/// A refused request took nothing, and neither did one whose answer is [repeated](Answer::is_repeated).
impl From<&Answer<'_>> for Taken {
    fn from(answer: &Answer<'_>) -> Self {
        if answer.is_repeated() {
            let has_permits_of_first = answer.all().any(|one| one.token().is_some());
            return Self { has_permits_of_first, ..Self::default() };
        }
        Self::by_first(answer)
    }
}

impl Taken {
    /// The units that the first of the requests with this answer took, also if the answer is
    /// [repeated](Answer::is_repeated).
    ///
    /// Of all requests with one answer a single reservation may be settled. So a caller writes these units under the
    /// name of the [first reservation](Answer::first_reservation) only, as a
    /// [record](crate::ReservationRecord::write), which settles once.
    #[must_use]
    pub fn by_first(answer: &Answer<'_>) -> Self {
        let takers =
            answer.all().filter(|one| (answer.is_allowed() || one.is_report()) && one.can_settle());
        let limiters = takers.map(|one| FromLimiter {
            known_by: answer.known_by(&one),
            is_elsewhere: one.is_elsewhere(),
            is_enforced: one.is_enforced(),
            taken: one.reply.decided.taken,
            reserves: one.reply.reserves,
            #[cfg(feature = "redis")]
            under: Values::of(one.values()),
        });
        Self {
            // Boxed first, so that no capacity stays unused: servers count these bytes.
            limiters: limiters.collect::<Box<[_]>>().into_vec(),
            has_permits_of_first: false,
            #[cfg(feature = "redis")]
            lack: answer.standing.lack(),
        }
    }

    /// Returns whether any limiter took the cost and can give it back.
    #[cfg(feature = "tower")]
    pub(crate) fn gives_back(&self) -> bool {
        self.limiters.iter().any(|one| !one.is_elsewhere)
    }

    /// Keeps the limiters of `all`, with their actual costs, that took their cost and can settle the difference. The
    /// overflow limiter gives nothing back.
    fn of<K>(&self, all: Vec<(Ask<K>, u64)>) -> Vec<(Ask<K>, u64)> {
        again(all, |(ask, _)| ask, &self.limiters, |one| one.known_by)
            .into_iter()
            .filter(|((ask, actual), one)| !one.is_elsewhere || *actual > ask.cost)
            .map(|((ask, actual), one)| {
                (Ask { taken: one.taken, reserves: one.reserves, ..ask }, actual)
            })
            .collect()
    }

    /// The limiters that took units and are not among `all` limiters of the request any more. A permit ends by itself.
    fn unreached<K>(
        &self,
        request: &Request<'_>,
        actual: &[u64],
        all: &[(Ask<K>, u64)],
    ) -> Option<Box<[Unreached]>> {
        let gone = self.limiters.iter().filter(|one| {
            let is_found = all.iter().any(|(ask, _)| (ask.lineage, ask.by) == one.known_by);
            !is_found && !one.is_elsewhere && one.is_enforced && one.taken.token.is_none()
        });
        let unreached = gone.map(|one| {
            let by = one.known_by.1;
            // The limiter is not known any more, so its part is summed up over the descriptors that it was found by.
            let mut reserved = 0_u64;
            let mut cost = 0_u64;
            for (place, (descriptor, actual)) in
                request.descriptors().iter().zip(of_each(actual)).enumerate()
            {
                if by.has(place) {
                    reserved = reserved.saturating_add(descriptor.units());
                    cost = cost.saturating_add(actual);
                }
            }
            // Units that were reserved too many cannot come back, and units that are missing cannot be taken.
            let settled = match cost.checked_sub(reserved) {
                Some(0) => Settled::Whole,
                Some(cut) => Settled::Cut(cut),
                None => Settled::Late(reserved - cost),
            };
            Unreached { by, settled }
        });
        let unreached: Vec<_> = unreached.filter(|one| one.settled != Settled::Whole).collect();
        (!unreached.is_empty()).then(|| unreached.into_boxed_slice())
    }

    /// Keeps the limiters of `all` whose permits the request holds. Returns `None` if an enforced limiter is not among
    /// them any more or shares its permits with other keys, and if the permits belong to another request.
    pub(crate) fn permits_of<K>(
        &self,
        all: impl IntoIterator<Item = Ask<K>>,
    ) -> Option<Vec<Ask<K>>> {
        let held = self.limiters.iter().filter(|one| one.taken.token.is_some());
        let own = held.clone().filter(|one| !one.is_elsewhere);
        let both = again(all, |ask| ask, own, |one| one.known_by);
        // A permit that keys without space share cannot be renewed, so it counts as one that is lost.
        let found = both.iter().filter(|(_, one)| one.is_enforced).count();
        if self.has_permits_of_first || found != held.filter(|one| one.is_enforced).count() {
            return None;
        }
        Some(
            both.into_iter()
                .map(|(ask, one)| Ask { taken: TakenUnits::new(one.taken.token, None), ..ask })
                .collect(),
        )
    }

    /// Keeps only the permits.
    #[cfg(feature = "tower")]
    pub(crate) fn only_permits(mut self) -> Self {
        self.limiters.retain(|one| one.taken.token.is_some());
        self
    }

    /// Leaves the permits out.
    #[cfg(feature = "tower")]
    pub(crate) fn without_permits(mut self) -> Self {
        self.limiters.retain(|one| one.taken.token.is_none());
        self
    }

    /// Returns whether it took nothing that can be given back or renewed: settling it changes nothing.
    #[must_use]
    pub const fn is_nothing(&self) -> bool {
        self.limiters.is_empty() && !self.has_permits_of_first
    }

    /// The bytes that it allocates, next to itself.
    #[must_use]
    pub const fn heap_bytes(&self) -> usize {
        self.limiters.capacity() * Self::BYTES_OF_A_LIMITER
    }

    /// The bytes that it allocates for each limiter.
    pub const BYTES_OF_A_LIMITER: usize = size_of::<FromLimiter>();

    /// The values under which units were taken from a limiter.
    #[cfg(feature = "redis")]
    pub(crate) fn under<K>(&self, ask: &Ask<K>) -> Option<Values> {
        let known_by = (ask.lineage, ask.by);
        self.limiters.iter().find(|one| one.known_by == known_by)?.under
    }

    /// Its units as their limiter knows them, if it took them from one limiter at a known time.
    #[cfg(feature = "tower")]
    pub(crate) fn of_one(&self) -> Option<Since> {
        let one = self.limiters.first()?;
        one.taken.as_known(one.reserves)
    }

    /// The tokens of its permits, in the order of the rules.
    pub fn tokens(&self) -> impl Iterator<Item = Token> {
        self.limiters.iter().filter_map(|one| one.taken.token)
    }
}

/// The limiters that a request is settled with, and the actual cost of each.
pub(crate) struct Settling<K> {
    pub(crate) asks: InlineList<Ask<K>>,
    pub(crate) actual: Vec<u64>,
    /// The limiters that took units and no longer belong to the request.
    pub(crate) unreached: Option<Box<[Unreached]>>,
}

impl<K: PartialEq> Settling<K> {
    /// Returns how to settle a request whose descriptors turned out to cost `actual`: one number for each of them, the
    /// last also for the rest. `resolve` returns all limiters of a request, unlimited ones included: the request may
    /// have taken from them before they became unlimited.
    pub(crate) fn of(
        policy: &Policy,
        request: &Request<'_>,
        taken: Option<&Taken>,
        actual: &[u64],
        resolve: impl Fn(&Request<'_>) -> InlineList<Ask<K>>,
    ) -> Self {
        let mut all = with_actual(request, actual, resolve);
        let mut unreached = None;
        match taken {
            Some(taken) => {
                unreached = taken.unreached(request, actual, &all);
                all = taken.of(all);
            }
            // Nothing says that a rule took the cost before it became unlimited.
            None => all.retain(|(ask, _)| {
                ask.values.source != ValuesSource::Rule || !ask.is_unlimited(policy)
            }),
        }
        let (asks, actual) = all.into_iter().unzip();
        Self { asks, actual, unreached }
    }
}

/// Resolves a request, and pairs each limiter with its actual cost.
fn with_actual<K: PartialEq>(
    request: &Request<'_>,
    actual: &[u64],
    resolve: impl Fn(&Request<'_>) -> InlineList<Ask<K>>,
) -> Vec<(Ask<K>, u64)> {
    let both = request.descriptors().iter().zip(of_each(actual));
    let costing_actual: Vec<_> = both.map(|(one, actual)| one.cost(actual)).collect();
    // Resolved a second time with the actual costs: several descriptors may share a limiter, which sums them up.
    let costing = resolve(&Request::new(request.domain(), &costing_actual));
    resolve(request)
        .into_iter()
        .filter_map(|ask| {
            let actual = costing.iter().find(|other| other.is_of(&ask))?.cost;
            Some((ask, actual))
        })
        .collect()
}

/// The actual cost of each descriptor: the last also holds for the rest.
fn of_each(actual: &[u64]) -> impl Iterator<Item = u64> {
    let last = actual.last().copied().unwrap_or_default();
    actual.iter().copied().chain(std::iter::repeat(last))
}

/// Pairs the limiters that a request matches now with the limiters of its earlier answer, and drops limiters without a
/// partner. `asks` are all limiters of the request, including the unlimited.
pub(crate) fn again<T, K, M>(
    asks: impl IntoIterator<Item = T>,
    of: impl Fn(&T) -> &Ask<K>,
    answered: impl IntoIterator<Item = M>,
    identify: impl Fn(&M) -> (Lineage, DescriptorSet),
) -> Vec<(T, M)> {
    let mut answered: Vec<_> = answered.into_iter().collect();
    asks.into_iter()
        .filter_map(|one| {
            let ask = of(&one);
            let place = answered.iter().position(|one| identify(one) == (ask.lineage, ask.by))?;
            // Taken out, so that each limiter of the answer has at most one partner.
            Some((one, answered.remove(place)))
        })
        .collect()
}
