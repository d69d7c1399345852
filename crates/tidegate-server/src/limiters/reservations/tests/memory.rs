//! The memory of reservations: the table's count against the allocator's, and refusals when it is full.

use futures_util::FutureExt;
use tidegate::{Descriptor, Gate, ManualClock, Setup, config};

use super::{RULE, asked, begun, reserve};
use crate::limiters::reservations::*;

/// The bound on reservations.
const BOUND: usize = 1 << 20;

/// A shape of requests.
struct Shape {
    name: &'static str,
    domain: usize,
    descriptors: usize,
    entries: usize,
    rules: usize,
    has_ids: bool,
}

const SHAPES: [Shape; 5] = [
    Shape { name: "small", domain: 7, descriptors: 1, entries: 1, rules: 1, has_ids: false },
    Shape { name: "ids", domain: 7, descriptors: 1, entries: 1, rules: 1, has_ids: true },
    Shape {
        name: "long domain",
        domain: 60_000,
        descriptors: 1,
        entries: 1,
        rules: 1,
        has_ids: false,
    },
    Shape { name: "entries", domain: 7, descriptors: 4, entries: 64, rules: 1, has_ids: false },
    Shape { name: "limiters", domain: 7, descriptors: 64, entries: 1, rules: 20, has_ids: false },
];

/// A gate whose limiters take the same memory however often they are asked.
fn gate(shape: &Shape) -> Gate<ManualClock> {
    let domain = "d".repeat(shape.domain);
    let rules = (0..shape.rules).map(|number| {
        format!(
            "[[rule]]\nname = \"r{number}\"\ndomain = \"{domain}\"\nkey = [\"name\"]\n\
             algorithm = \"token_bucket\"\nlimit = 1000000000\nwindow = \"1d\"\ndedupe = \"1ms\"\n"
        )
    });
    let rules: String = rules.collect();
    let setup = Setup::new(config::parse("test", &rules).unwrap()).max_remembered_answers(1);
    Gate::with_clock(setup, ManualClock::new())
}

/// Reserves until there is no more room, or for the given number of times; returns the ids.
fn fill(
    shape: &Shape,
    gate: &Gate<ManualClock>,
    table: &Reservations<ManualClock>,
    times: usize,
) -> Vec<ReservationId> {
    let domain = "d".repeat(shape.domain);
    let keys: Vec<_> = (0..shape.descriptors).map(|number| format!("key {number}")).collect();
    let names: Vec<_> = (1..shape.entries).map(|number| format!("name {number}")).collect();
    let entries = keys.iter().map(|key| {
        let more = names.iter().map(|name| (name.as_str(), "value"));
        [("name", key.as_str())].into_iter().chain(more).collect::<Vec<_>>()
    });
    let entries: Vec<_> = entries.collect();
    let descriptors: Vec<_> = entries.iter().map(|one| Descriptor::new(one)).collect();
    let policy = gate.policy();
    let mut ids = Vec::new();
    for _ in 0..times {
        let id = ReservationId::random().unwrap().to_string();
        let mut request = Request::new(&domain, &descriptors);
        if shape.has_ids {
            request = request.with_id(&id).unwrap();
        }
        let Ok(space) = table.space(&request, &policy, None) else { break };
        ids.push(space.keep(&gate.check(&request)).unwrap());
    }
    ids
}

/// Settles a reservation for one unit.
fn settle(table: &Reservations<ManualClock>, gate: &Gate<ManualClock>, id: ReservationId) {
    let settle = async |request: &Request<'_>, taken: &Taken| {
        Ok(Ok(SettledReservation::of(&gate.settle(request, taken, &[1]), &[1])))
    };
    let settled = table.settle(&id.to_string(), &[1], settle).now_or_never();
    assert!(settled.unwrap().is_ok());
}

/// 1,930 pairs with a long domain took 153 MB of a bound of 1 MiB, limiters were not counted (435 MB under 16 MiB), and
/// settled reservations kept their requests.
#[test]
fn reservations_hold_no_more_memory_than_their_bound() {
    for shape in &SHAPES {
        let gate = gate(shape);
        // The limiters exist from now on.
        fill(shape, &gate, &Reservations::with_clock(BOUND, ManualClock::new()), 1);
        let clock = ManualClock::new();
        let table = Reservations::with_clock(BOUND, clock.clone());
        let measured = |what: &str, run: &mut dyn FnMut()| {
            let held = allocation_counter::measure(run).bytes_current;
            eprintln!("{} {what}: {held} bytes held, {} counted", shape.name, table.counts().1);
            held
        };
        let mut ids = Vec::new();
        let held = measured("open", &mut || ids = fill(shape, &gate, &table, 1_000_000));
        let held = held - (ids.capacity() * size_of::<ReservationId>()) as i64;
        let open = table.counts();
        assert!(open.1 <= BOUND && open.0.open == ids.len() as u64, "{}", shape.name);
        assert!(held <= BOUND as i64 * 9 / 8, "{}: {held}", shape.name);
        assert!(held >= BOUND as i64 / 4, "{}: {held} of what is counted", shape.name);
        let settled = measured("settled", &mut || {
            ids.iter().for_each(|id| settle(&table, &gate, *id));
        });
        assert!(settled <= 0, "{}: a settled reservation takes less than an open one", shape.name);
        let more = measured("pairs", &mut || {
            for _ in 0..200 {
                fill(shape, &gate, &table, 1).iter().for_each(|id| settle(&table, &gate, *id));
            }
        });
        assert!(
            held + settled + more <= BOUND as i64 * 9 / 8,
            "{}: {more} after pairs",
            shape.name
        );
        let ended = measured("ended", &mut || {
            clock.advance(REMEMBERED + REMEMBERED);
            while table.counts().1 > 0 {}
        });
        assert!(ended < 0, "{}: forgotten reservations free their memory", shape.name);
        assert_eq!(table.counts().1, 0);
    }
}

/// 1,124 reservations of cost 0 with a life of a day filled a table of 1 MiB for everybody; so would requests that no
/// rule limits.
#[test]
fn reservations_of_nothing_fill_no_table() {
    let (_, table, gate) = begun(64, RULE);
    let reserve = |request: &Request<'_>| reserve(&table, &gate, request).unwrap().to_string();
    let never = async |_: &Request<'_>, _: &Taken| Err(Unsettled::Unknown);
    let settle = |id: &str, actual: &[u64]| {
        let settled = table.settle(id, actual, never).now_or_never().unwrap().unwrap();
        let Ok(stand) = &settled.outcome.stand else { panic!("{settled:?}") };
        (stand.shares(0, actual[0]), stand.line().rule.is_none())
    };
    let (mut free, mut unlimited) = (String::new(), String::new());
    for _ in 0..2_000 {
        free = asked(0, 0, reserve);
        unlimited = reserve(&Request::new("nowhere", &[Descriptor::new(&[]).cost(7)]));
    }
    assert_eq!(table.counts(), (ReservationCounts::default(), 0));
    for _ in 0..2 {
        assert_eq!(settle(&free, &[0]), ([0, 0], true));
        assert_eq!(settle(&free, &[9]), ([0, 9], true), "it settles to nothing, and says so");
        assert_eq!(settle(&unlimited, &[9]), ([9, 0], true), "no limit cuts it");
    }
    assert_eq!(table.renew(&free, async |_, _| Ok(false)).now_or_never(), Some(Ok(true)));
    let other = Reservations::with_clock(64 << 10, ManualClock::new());
    let settled = other.settle(&free, &[0], never).now_or_never().unwrap();
    assert!(settled.unwrap().outcome.stand.is_ok(), "any process of a store settles it");
}

/// Settled reservations counted as whole for a minute, so that 2,180 pairs a second filled the table.
#[test]
fn settled_reservations_refuse_no_honest_pair() {
    let rule = "[[rule]]\nname = \"all\"\nalgorithm = \"token_bucket\"\nrate = \"1000000/1s\"\n";
    let (clock, table, gate) = begun(64, rule);
    let settle = async |request: &Request<'_>, taken: &Taken| {
        Ok(Ok(SettledReservation::of(&gate.settle(request, taken, &[1]), &[1])))
    };
    let mut ids = Vec::new();
    for _ in 0..10_000 {
        // The oldest makes room, so each has a time of its own.
        clock.advance(Duration::from_micros(1));
        let id = asked(0, 5, |request| reserve(&table, &gate, request)).unwrap().to_string();
        assert!(table.settle(&id, &[1], settle).now_or_never().unwrap().is_ok());
        ids.push(id);
    }
    let (counts, bytes) = table.counts();
    assert!((counts.open, counts.settled) == (0, 10_000) && bytes <= 64 << 10, "{bytes}");
    let again = |id: &str| table.settle(id, &[1], settle).now_or_never().unwrap();
    assert_eq!(again(&ids[0]).unwrap_err(), Unsettled::Unknown, "the oldest makes room");
    let last = again(ids.last().unwrap()).unwrap();
    assert!(last.done.is_none() && last.outcome.stand.is_ok(), "the newest are remembered");
}
