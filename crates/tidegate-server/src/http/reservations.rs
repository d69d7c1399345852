//! `GET /v1/reservations` and `POST /v1/drop`: the open reservations, for operators. `routes.rs` calls them at
//! the admin listener.
//!
//! ```json
//! {"open": 1, "pending": 0, "bytes": 620, "reservations": [{"reservation": "8f0e4c1d2b3a49586776859493a2b1c0",
//!   "keys": [{"domain": "default", "rule": "tokens", "key": {"user": "ann"}}], "costs": [500],
//!   "ends_us": 1795231424195932, "bytes": 620, "pending": false}]}
//! ```

use serde::Serialize;

use super::message::HttpResponse;
use super::reserve::NamedReservation;
use super::table::AdmittedRequest;
use super::{answer, body, query};
use crate::limiters::ListedReservation;
use crate::listener::Role;
use crate::refusal::RequestRefusal;

/// The number of reservations that are listed by default, and at most.
const USUAL: usize = 100;
const MOST: usize = 1_000;

/// The answer to a list.
#[derive(Serialize)]
struct List {
    /// All open reservations, and the reservations whose settle waits for the store.
    open: u64,
    pending: u64,
    /// The memory of all, settled ones included while they are remembered.
    bytes: usize,
    /// Those that end first.
    reservations: Vec<ListedReservation>,
}

/// The answer to a drop.
#[derive(Serialize)]
struct Dropped {
    dropped: bool,
}

/// The open reservations that end first. A caller that has an id may settle the reservation, so an operator who only reads
/// sees no ids.
pub(super) async fn list(asked: AdmittedRequest<'_>) -> Result<HttpResponse, RequestRefusal> {
    let expected = format!("`n` from 1 to {MOST}");
    let mut most = USUAL;
    for (name, value) in query::parse(asked.query(), &["n"], &expected)? {
        let n = value.parse().ok().filter(|n| (1..=MOST).contains(n));
        most = n.ok_or_else(|| query::wrong(&name, &value, &expected))?;
    }
    let limiters = &asked.app.limiters;
    let mut reservations = limiters.list_reservations(most);
    if asked.role() < Role::Change {
        for reservation in &mut reservations {
            reservation.hide_id();
        }
    }
    let (counts, bytes) = limiters.reservations.counts();
    answer::json(&List { open: counts.open, pending: counts.pending, bytes, reservations })
}

/// Forgets an open reservation, whose units stay taken.
pub(super) async fn drop_open(asked: AdmittedRequest<'_>) -> Result<HttpResponse, RequestRefusal> {
    let AdmittedRequest { app, request, by, .. } = asked;
    let NamedReservation { reservation } = body::json(request, app.bounds, "a reservation").await?;
    app.decider.drop_open(&by, &reservation).await?;
    answer::json(&Dropped { dropped: true })
}
