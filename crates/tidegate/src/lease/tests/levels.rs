//! Levels that leases rely on, when units of others come back.

use tidegate_core::{Micros, Rule, Spec, Timestamp};

use super::super::Terms;
use crate::step::Step;
use crate::store::fake::limiter;

/// The units that hold up the level under a long lease may belong to a shorter lease, and come back first.
#[test]
fn a_short_lease_that_comes_back_leaves_the_level_that_a_longer_one_relies_on() {
    let rule = Rule::new(Spec::per_second(1_000)).unwrap();
    let ms = Micros::from_millis;
    let terms = |life| Terms::of(&rule, 200, ms(life), ms(1_000)).unwrap();
    let at = |time: u64| Timestamp::EPOCH.plus(ms(5_000 + time));
    let mut stored = limiter(&rule).unwrap();
    let short = stored.lease(160, at(0), terms(40).life());
    let long = stored.lease(20, at(1), terms(200).life());
    assert_eq!([short, long], [Some(at(40)), Some(at(201))]);
    stored.give_back_lease(160, at(30), at(0).minus(terms(40).counts_earlier()));
    assert!(
        stored.used(at(200)) >= 20,
        "{} are counted, and 20 can be spent",
        stored.used(at(200))
    );
    let mut without = limiter(&rule).unwrap();
    without.lease(160, at(0), ms(40));
    without.lease(20, at(1), ms(200));
    without.give_back_lease(160, at(30), at(0));
    assert!(without.used(at(200)) < 20, "it would not hold if lives were all alike");
}

/// The units that hold up the level under a lease may belong to a reservation that is settled for nothing.
#[test]
fn a_reservation_that_is_settled_leaves_the_level_that_a_later_lease_relies_on() {
    let rule = Rule::new(Spec::per_second(1_000)).unwrap();
    let ms = Micros::from_millis;
    let terms = Terms::of(&rule, 200, ms(200), ms(1_000)).unwrap();
    let at = |time: u64| Timestamp::EPOCH.plus(ms(5_000 + time));
    let used_after = |since: Timestamp| {
        let mut stored = limiter(&rule).unwrap();
        stored.run(Step::Settle { actual: 250, token: None, since: None }, 0, at(0));
        assert_eq!(stored.lease(20, at(1), terms.life()), Some(at(201)));
        stored.give_back_lease(250, at(10), since);
        stored.used(at(200))
    };
    assert!(used_after(at(0).minus(terms.exact_earlier())) >= 20, "20 can be spent");
    assert!(used_after(at(0)) < 20, "it would not hold as of when they were taken");
}
