//! `GET /v1/reservations` and `POST /v1/drop`: the open reservations, for operators. `routes.rs` calls them at
//! the admin listener.
//!
//! ```json
//! {"open": 1, "pending": 0, "bytes": 620, "reservations": [{"reservation": "8f0e4c1d2b3a49586776859493a2b1c0",
//!   "keys": [{"domain": "default", "rule": "tokens", "key": {"user": "ann"}}], "costs": [500],
//!   "ends_us": 1795231424195932, "bytes": 620, "pending": false}]}
//! ```

use serde::Serialize;

use super::app::App;
use super::message::{HttpRequest, HttpResponse};
use super::reserve::{NamedReservation, unsettled};
use super::{answer, audit, body, query};
use crate::limiters::ListedReservation;
use crate::listener::{Role, Who};
use crate::refusal::Refusal;

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
pub(super) fn list(app: &App, who: &Who, query: Option<&str>) -> Result<HttpResponse, Refusal> {
    let expected = format!("`n` from 1 to {MOST}");
    let mut most = USUAL;
    for (name, value) in query::parse(query, &["n"], &expected)? {
        let n = value.parse().ok().filter(|n| (1..=MOST).contains(n));
        most = n.ok_or_else(|| query::wrong(&name, &value, &expected))?;
    }
    let mut reservations = app.limiters.list_reservations(most);
    if who.role < Role::Change {
        for reservation in &mut reservations {
            reservation.hide_id();
        }
    }
    let (counts, bytes) = app.limiters.reservations();
    answer::json(&List { open: counts.open, pending: counts.pending, bytes, reservations })
}

/// Forgets an open reservation, whose units stay taken.
pub(super) async fn drop_open(
    app: &App,
    who: Option<Who>,
    request: HttpRequest,
) -> Result<HttpResponse, Refusal> {
    let body = body::read(request, app.bounds).await?;
    let NamedReservation { reservation } = serde_json::from_slice(&body)
        .map_err(|error| Refusal::of_json(format!("not a reservation: {error}"), &error))?;
    app.limiters.drop_reservation(&reservation).await.map_err(|why| unsettled(&why))?;
    audit::dropped(who.as_ref());
    answer::json(&Dropped { dropped: true })
}
