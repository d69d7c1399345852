//! The families of metrics: names, help texts and series, written for each `GET /metrics` from the counts of the
//! limiters. Each family is a row of `docs/metrics.md`, and a test compares both.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::registry::Unit;
use tidegate::{
    GateCounts, Mode, OutcomeCounts, PolicyRule, Recorder, RecorderCounts, RuleOutcome, SharedGate,
    StatisticsOfRule,
};

use super::writer::{Labels, Writer};
use crate::counts::Snapshots;
use crate::limiters::{Limiters, StoreStanding};

/// Writes all families.
pub(super) fn write(limiters: &Limiters, to: &mut Writer<'_>) -> fmt::Result {
    process(limiters, to)?;
    listeners(limiters, to)?;
    decisions(limiters, to)?;
    reservations(limiters, to)?;
    recorder(limiters.watching.recorder.get().map(Recorder::counts), to)?;
    // Families of memory and families of a store exclude each other: a series that can never move would look like a
    // fault.
    if let Some(kept) = limiters.kept() {
        memory(&kept, to)?;
        snapshots(&limiters.counts.snapshots, to)?;
    }
    match (limiters.shared(), limiters.standing()) {
        (Some(gate), Some(standing)) => store(gate, standing, to),
        _ => Ok(()),
    }
}

/// The server itself, and its policy.
fn process(limiters: &Limiters, to: &mut Writer<'_>) -> fmt::Result {
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    to.info("tidegate_build", "The version of the server", version)?;
    let started = limiters.counts.started.as_micros() / 1_000_000;
    let help = "When the server started, since 1970";
    to.gauge("process_start_time", help, Some(&Unit::Seconds), [([], started)])?;
    let rules = limiters.policy().rules().len() as u64;
    to.gauge("tidegate_policy_rules", "Rules in force", None, [([], rules)])?;
    let reloads = &limiters.counts.reloads;
    let help = "Attempts to put another configuration in force";
    to.counter_by("outcome", "tidegate_reloads", help, reloads.counts())?;
    let last = reloads.last_us().map(|at| ([], at / 1_000_000));
    let help = "When the last of these attempts ended, since 1970";
    to.gauge("tidegate_last_reload", help, Some(&Unit::Seconds), last)?;
    let is_stale = u64::from(reloads.error().is_some());
    let help = "1 after the file could not be put in force, until it can";
    to.gauge("tidegate_configuration_is_stale", help, None, [([], is_stale)])
}

/// The requests and connections of each listener.
fn listeners(limiters: &Limiters, to: &mut Writer<'_>) -> fmt::Result {
    let all = limiters.counts.all();
    // Operators ask for no decisions.
    let clients = all.iter().filter(|(name, _)| *name != "admin");
    let requests = clients.clone().flat_map(|(listener, counts)| {
        let requests = counts.requests();
        requests.map(|(outcome, count)| ([("listener", *listener), ("outcome", outcome)], count))
    });
    to.counter("tidegate_requests", "Requests for a decision", requests)?;
    let unmatched = limiters.watching.unmatched.counts();
    let help = "Requests for a decision that no rule matched";
    to.counter_by("answer", "tidegate_unmatched_requests", help, unmatched)?;
    let durations =
        clients.map(|(listener, counts)| ([("listener", *listener)], counts.durations.read()));
    let help = "The time from reading a request for a decision to its answer";
    to.durations("tidegate_request_duration", help, durations)?;
    let connections =
        all.map(|(listener, counts)| ([("listener", listener)], counts.connections()));
    let open = connections.map(|(listener, (_, open))| (listener, open));
    to.gauge("tidegate_connections_open", "Connections that are open", None, open)?;
    let accepted = connections.map(|(listener, (accepted, _))| (listener, accepted));
    to.counter("tidegate_connections_accepted", "Connections so far", accepted)
}

fn of_rule(rule: &PolicyRule) -> Labels<'_, 2> {
    [("domain", rule.domain()), ("rule", rule.name())]
}

/// The decisions of each rule. A series that cannot count in the mode of its rule is left out while it is 0.
fn decisions(limiters: &Limiters, to: &mut Writer<'_>) -> fmt::Result {
    let policy = limiters.policy();
    let of_all = limiters.watching.statistics.of(policy.rules());
    let counts: Vec<_> = of_all.iter().map(StatisticsOfRule::counts).collect();
    let rules = policy.rules().iter().zip(&counts);
    let help = "Decisions of a rule by outcome";
    to.counter("tidegate_rule_decisions", help, rules.clone().flat_map(by_outcome))?;
    let overflow = rules.clone().map(|(rule, counts)| (of_rule(rule), counts.overflow()));
    let help = "Decisions for which a rule had no room for the key";
    to.counter("tidegate_rule_overflow", help, overflow)?;
    // Rules without `near` have no series: their count can only be 0.
    let marked = rules.filter(|(rule, _)| rule.spec().near.is_some());
    let near = marked.map(|(rule, counts)| (of_rule(rule), counts.near()));
    let help = "Allowed requests after which a rule was near its end";
    to.counter("tidegate_rule_near", help, near)
}

/// The reservations of this process, and their ends.
fn reservations(limiters: &Limiters, to: &mut Writer<'_>) -> fmt::Result {
    let (counts, bytes) = limiters.reservations.counts();
    let help = "Reservations that are neither settled nor ended";
    to.gauge("tidegate_reservations", help, None, [([], counts.open)])?;
    let help = "Memory of reservations, settled ones included while they are remembered";
    to.gauge("tidegate_reservation_memory", help, Some(&Unit::Bytes), [([], bytes as u64)])?;
    let help = "Reservations whose settle waits for the store";
    to.gauge("tidegate_reservations_pending", help, None, [([], counts.pending)])?;
    let ended = [
        ("settled", counts.settled),
        ("unsettled", counts.unsettled),
        ("left", counts.left),
        ("unknown", counts.unknown),
        ("given_up", counts.given_up),
        ("dropped", counts.dropped),
    ];
    to.counter_by("how", "tidegate_reservations_ended", "Reservations that have ended", ended)?;
    let help = "Units of settled reservations that came back too late or were not taken";
    to.counter_by("cause", "tidegate_reserved_units_lost", help, limiters.lost.counts())?;
    let renewals = [("renewed", counts.renewed), ("late", counts.late)];
    to.counter_by("outcome", "tidegate_renewals", "Renewals of permits", renewals)
}

/// Without a recorder there are no series.
fn recorder(counts: Option<RecorderCounts>, to: &mut Writer<'_>) -> fmt::Result {
    let bytes = counts.map(|counts| ([], counts.bytes as u64));
    let help = "Memory of the requests that are recorded for a replay";
    to.gauge("tidegate_recorder_memory", help, Some(&Unit::Bytes), bytes)?;
    let lost = counts.map(|counts| [("no_space", counts.no_space), ("too_long", counts.too_long)]);
    let help = "Requests that were not recorded, or dropped before their time";
    to.counter_by("cause", "tidegate_recorder_dropped", help, lost.into_iter().flatten())
}

/// A series for each outcome of a rule.
fn by_outcome<'p>(
    (rule, counts): (&'p PolicyRule, &OutcomeCounts),
) -> impl Iterator<Item = (Labels<'p, 3>, u64)> + use<'p> {
    let counts = RuleOutcome::ALL.map(|outcome| (outcome, counts.decisions(outcome)));
    let shown = counts
        .into_iter()
        .filter(move |(outcome, count)| *count > 0 || can_count(rule.mode(), *outcome));
    shown.map(move |(outcome, count)| {
        let [domain, name] = of_rule(rule);
        ([domain, name, ("outcome", outcome.name())], count)
    })
}

/// Returns whether a rule in this mode can have decisions with this outcome.
const fn can_count(mode: Mode, outcome: RuleOutcome) -> bool {
    let of_shadow = matches!(outcome, RuleOutcome::ShadowAllowed | RuleOutcome::ShadowRefused);
    match mode {
        Mode::Enforce => !of_shadow,
        Mode::Shadow => of_shadow || matches!(outcome, RuleOutcome::Reported),
        _ => false,
    }
}

fn memory(kept: &GateCounts, to: &mut Writer<'_>) -> fmt::Result {
    let keys = kept.rules().map(|(rule, kept)| (of_rule(rule), kept.keys as u64));
    to.gauge("tidegate_rule_keys", "Keys that have a limiter in memory", None, keys)?;
    let bytes = kept.rules().map(|(rule, kept)| (of_rule(rule), kept.bytes as u64));
    let help = "Memory of a rule's limiters";
    to.gauge("tidegate_rule_memory", help, Some(&Unit::Bytes), bytes)?;
    let dropped = kept.rules().map(|(rule, kept)| (of_rule(rule), kept.dropped));
    let help = "Idle limiters that were dropped from memory";
    to.counter("tidegate_rule_keys_dropped", help, dropped)
}

/// Without a file there are no series.
fn snapshots(snapshots: &Snapshots, to: &mut Writer<'_>) -> fmt::Result {
    let is_on = snapshots.is_on();
    let (succeeded, failed) = snapshots.counts();
    let outcomes = [("succeeded", succeeded), ("failed", failed)].into_iter().filter(|_| is_on);
    let help = "Attempts to write the limiters to their file";
    to.counter_by("outcome", "tidegate_snapshots", help, outcomes)?;
    let help = "When the limiters were last written, or else when the server started, since 1970";
    let last = is_on.then_some(([], snapshots.last_us.load(Relaxed) / 1_000_000));
    to.gauge("tidegate_snapshot_last", help, Some(&Unit::Seconds), last)?;
    let help = "The length of the file of limiters";
    let bytes = is_on.then_some(([], snapshots.bytes.load(Relaxed)));
    to.gauge("tidegate_snapshot_size", help, Some(&Unit::Bytes), bytes)?;
    let durations = is_on.then(|| ([], snapshots.durations.read()));
    let help = "The time that writing the limiters took";
    to.durations("tidegate_snapshot_duration", help, durations)
}

/// The store, and the layers over it.
fn store(gate: &SharedGate, standing: StoreStanding, to: &mut Writer<'_>) -> fmt::Result {
    let states = [
        ("available", StoreStanding::Available),
        ("partly_unavailable", StoreStanding::PartlyUnavailable),
        ("unavailable", StoreStanding::Unavailable),
    ];
    let states = states.map(|(name, state)| ([("state", name)], u64::from(state == standing)));
    to.gauge("tidegate_store_state", "1 for the state of the store, else 0", None, states)?;
    let counts = gate.counts();
    let help = "Calls that were sent to the store and not yet answered";
    to.gauge("tidegate_store_calls_under_way", help, None, [([], counts.under_way)])?;
    let help = "The time from sending a call to the store to its answer";
    to.durations("tidegate_store_call_duration", help, [([], counts.calls)])?;
    let numbers = [
        ("tidegate_store_calls_failed", "Calls that broke off or got an error", counts.failed),
        (
            "tidegate_store_requests_merged",
            "Requests that shared a call with others",
            counts.merged,
        ),
        (
            "tidegate_store_requests_denied_again",
            "Requests refused without the store, which had just denied them",
            counts.denied_again,
        ),
        ("tidegate_store_requests_late", "Requests whose answer came too late", counts.late),
        (
            "tidegate_store_requests_undone",
            "Late requests whose units were given back",
            counts.undone,
        ),
    ];
    for (name, help, count) in numbers {
        to.counter(name, help, [([], count)])?;
    }
    let leased = [
        ("taken", counts.leased),
        ("spent", counts.leased_spent),
        ("returned", counts.leased_returned),
        ("expired", counts.leased_expired),
    ];
    to.counter_by("what", "tidegate_leased_units", "Units taken ahead from the store", leased)?;
    let help = "Units that were counted without an answer to the caller";
    to.counter_by("cause", "tidegate_units_lost", help, counts.lost())?;
    let asked = [
        ("granted", counts.leases_granted),
        ("refused", counts.leases_refused),
        ("late", counts.leases_late),
        ("unanswered", counts.leases_unanswered),
    ];
    to.counter_by("outcome", "tidegate_leases", "Leases that the store was asked for", asked)?;
    let renewed = [([], counts.shares_renewed)];
    to.counter("tidegate_shares_renewed", "Shares asked for as one ended", renewed)?;
    let help = "Limiters whose units were carried to a store that had lost them";
    to.counter("tidegate_carried_limiters", help, [([], counts.carried)])?;
    let without = [
        ("unavailable", counts.unavailable),
        ("overloaded_local", counts.local),
        ("overloaded_shed", counts.shed),
    ];
    let help = "Requests decided without the store";
    to.counter_by("cause", "tidegate_degraded_requests", help, without)
}
