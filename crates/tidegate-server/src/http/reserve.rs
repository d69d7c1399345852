//! `POST /v1/reserve`, `POST /v1/settle` and `POST /v1/renew`: units for work whose cost is known only afterwards, and
//! permits for as long as work runs. `routes.rs` calls them; `limiters/reserve.rs` takes the units and keeps the
//! reservations.
//!
//! ```json
//! {"descriptor": {"user": "a"}, "cost": 500, "life_ms": 30000}
//! {"reservation": "8f0e4c1d2b3a49586776859493a2b1c0", "actual": 120}
//! {"reservation": "8f0e4c1d2b3a49586776859493a2b1c0"}
//! ```

use serde::{Deserialize, Serialize};
use smallvec::{SmallVec, smallvec};
use tidegate::{MAX_COST, readable};

use super::answer;
use super::app::App;
use super::audit;
use super::body;
use super::message::{HttpRequest, HttpResponse};
use super::question::HttpQuestion;
use crate::counts::RequestOutcome;
use crate::limiters::{Unreserved, Unsettled};
use crate::listener::Who;
use crate::refusal::{Refusal, RefusalKind};

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
pub(super) async fn reserve(app: &App, request: HttpRequest) -> Result<HttpResponse, Refusal> {
    let done = reserve_counted(app, request).await;
    done.inspect_err(|_| app.counts().count(RequestOutcome::Error))
}

async fn reserve_counted(app: &App, request: HttpRequest) -> Result<HttpResponse, Refusal> {
    // The claim on the connection lasts until the answer is made.
    let (body, _held) = body::read_held(request, app.bounds).await?;
    let read = app.counts().now();
    let body = readable::json(&body);
    let (question, life) = HttpQuestion::parse_reserve(&body)?;
    let reserved = question.ask(async |request| app.limiters.reserve(request, life).await).await;
    let reserved = reserved.map_err(unreserved)?;
    app.counts().answered(&reserved.answer);
    app.counts().took(read, 1);
    answer::reserved(&reserved)
}

/// Settles a reservation, and answers how its limiters stand then.
pub(super) async fn settle(
    app: &App,
    who: Option<Who>,
    request: HttpRequest,
) -> Result<HttpResponse, Refusal> {
    let body = body::read(request, app.bounds).await?;
    let Settle { reservation, actual } = serde_json::from_slice(&body)
        .map_err(|error| Refusal::of_json(format!("not a settle: {error}"), &error))?;
    let is_one = matches!(actual, Actual::One(_));
    let actual: SmallVec<[u64; 1]> = match actual {
        Actual::One(units) => smallvec![units],
        Actual::Each(units) => units.into(),
    };
    if let Some(units) = actual.iter().find(|units| **units > MAX_COST) {
        let detail = format!("`actual` is {units}: expected a whole number from 0 to {MAX_COST}");
        return Err(Refusal::new(RefusalKind::InvalidBody, detail));
    }
    let settling = match app.limiters.settle(&reservation, &actual).await {
        Ok(settling) => settling,
        Err(why @ Unsettled::Pending(ends)) => {
            // The settle is kept until the store answers, so its client gets 202 and no problem.
            audit::waits(who.as_ref(), &actual);
            return answer::pending(&why.to_string(), ends.as_micros());
        }
        Err(why) => return Err(unsettled(&why)),
    };
    match &settling.outcome.stand {
        Ok(settled) => {
            audit::settled(who.as_ref(), settling.done.as_ref());
            answer::settled(settled, &actual, is_one)
        }
        Err(why) => {
            let detail = format!("{why}; it is unknown whether the reservation was settled");
            Err(Refusal::new(RefusalKind::Unavailable, detail))
        }
    }
}

/// Makes the permits of a reservation last their lives from now, and answers whether all were still out.
pub(super) async fn renew(
    app: &App,
    who: Option<Who>,
    request: HttpRequest,
) -> Result<HttpResponse, Refusal> {
    let body = body::read(request, app.bounds).await?;
    let NamedReservation { reservation } = serde_json::from_slice(&body)
        .map_err(|error| Refusal::of_json(format!("not a renewal: {error}"), &error))?;
    let renewed = app.limiters.renew(&reservation).await.map_err(|why| unsettled(&why))?;
    audit::renewed(who.as_ref(), renewed);
    answer::json(&Renewed { renewed })
}

/// The problem of a reserve that made no reservation.
fn unreserved(why: Unreserved) -> Refusal {
    match why {
        Unreserved::Full => {
            let problem = Refusal::new(RefusalKind::TooManyReservations, why.to_string());
            problem.repeatable()
        }
        Unreserved::TooLong { .. } => {
            Refusal::new(RefusalKind::InvalidBody, format!("`life_ms`: {why}"))
        }
        Unreserved::Unrecorded(_) => {
            let problem = Refusal::new(RefusalKind::Unavailable, why.to_string());
            problem.repeatable()
        }
    }
}

/// The problem of a settle, a renewal or a drop that changed nothing.
pub(super) fn unsettled(why: &Unsettled) -> Refusal {
    let (kind, may_ask_again) = match why {
        Unsettled::NoId | Unsettled::Costs { .. } => (RefusalKind::InvalidBody, false),
        Unsettled::Unknown => (RefusalKind::UnknownReservation, false),
        Unsettled::Otherwise { .. } | Unsettled::Elsewhere => {
            (RefusalKind::SettledOtherwise, false)
        }
        Unsettled::Full => (RefusalKind::TooManyReservations, true),
        Unsettled::Undone(_) | Unsettled::Unrenewed(_) | Unsettled::Pending(_) => {
            (RefusalKind::Unavailable, true)
        }
    };
    let problem = Refusal::new(kind, why.to_string());
    if may_ask_again { problem.repeatable() } else { problem }
}
