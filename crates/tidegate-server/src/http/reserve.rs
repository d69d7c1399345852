//! `POST /v1/reserve`, `POST /v1/settle` and `POST /v1/renew`: units for work whose cost is known only afterwards, and
//! permits for as long as work runs. `routes.rs` calls them, and [`RequestDecider`](crate::decide::RequestDecider)
//! takes the units and keeps the reservations.
//!
//! ```json
//! {"descriptor": {"user": "a"}, "cost": 500, "life_ms": 30000}
//! {"reservation": "8f0e4c1d2b3a49586776859493a2b1c0", "actual": 120}
//! {"reservation": "8f0e4c1d2b3a49586776859493a2b1c0"}
//! ```

use serde::{Deserialize, Serialize};
use smallvec::{SmallVec, smallvec};
use tidegate::{MAX_COST, readable};

use super::message::HttpResponse;
use super::question::HttpQuestion;
use super::table::AdmittedRequest;
use super::{answer, body};
use crate::decide::SettleAnswer;
use crate::limiters::RequestVerb;
use crate::refusal::{RefusalKind, RequestRefusal};

/// A settle as written.
#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "an object such as {\"reservation\": \"8f0e...\", \"actual\": 120}"
)]
struct Settle {
    reservation: String,
    actual: Actual,
}

/// A reservation that is renewed or dropped, as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object such as {\"reservation\": \"8f0e...\"}")]
pub(super) struct NamedReservation {
    pub(super) reservation: String,
}

/// The answer to a renewal.
#[derive(Serialize)]
struct Renewed {
    /// True if all permits of the reservation are still out.
    renewed: bool,
}

/// The final cost of the work: for each descriptor, or one for all.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a whole number of units, or an array of them, one for each descriptor"
)]
enum Actual {
    One(u64),
    Each(Vec<u64>),
}

/// Answers as a check, and keeps the taken units under an id.
pub(super) async fn reserve(asked: AdmittedRequest<'_>) -> Result<HttpResponse, RequestRefusal> {
    let AdmittedRequest { app, request, .. } = asked;
    let decider = &app.decider;
    let answered = async {
        // The claim on the connection lasts until the answer is made.
        let (body, _held) = body::read_held(request, app.bounds).await?;
        let body = readable::json(&body);
        let (question, life) = HttpQuestion::parse_reserve(&body)?;
        let reserved = question.ask(async |one| decider.reserve(one, life, "`life_ms`").await);
        answer::reserved(&reserved.await?)
    };
    answered.await.inspect_err(|why| decider.refused(RequestVerb::Check, why))
}

/// Settles a reservation, and answers how its limiters stand then.
pub(super) async fn settle(asked: AdmittedRequest<'_>) -> Result<HttpResponse, RequestRefusal> {
    let AdmittedRequest { app, request, by, .. } = asked;
    let Settle { reservation, actual } = body::json(request, app.bounds, "a settle").await?;
    let is_one = matches!(actual, Actual::One(_));
    let actual: SmallVec<[u64; 1]> = match actual {
        Actual::One(units) => smallvec![units],
        Actual::Each(units) => units.into(),
    };
    if let Some(units) = actual.iter().find(|units| **units > MAX_COST) {
        let detail = format!("`actual` is {units}: expected a whole number from 0 to {MAX_COST}");
        return Err(RefusalKind::InvalidBody.because(detail));
    }
    let settled = app.decider.settle(&by, &reservation, &actual, |settlement| match settlement {
        SettleAnswer::Settled(settled) => answer::settled(settled, &actual, is_one),
        // The settle is kept until the store answers, so its client gets 202 and no problem.
        SettleAnswer::Waits { detail, ends_us } => answer::pending(&detail, ends_us),
    });
    settled.await?
}

/// Makes the permits of a reservation last their lives from now, and answers whether all were still out.
pub(super) async fn renew(asked: AdmittedRequest<'_>) -> Result<HttpResponse, RequestRefusal> {
    let AdmittedRequest { app, request, by, .. } = asked;
    let NamedReservation { reservation } = body::json(request, app.bounds, "a renewal").await?;
    let renewed = app.decider.renew(&by, &reservation).await?;
    answer::json(&Renewed { renewed })
}
