//! `GET /v1/decisions`: decisions as they are taken, as a stream of events, for `tidegate tail`. `routes.rs` calls it
//! at the admin listener; the lines come from `limiters/tail.rs`.

use std::time::Duration;

use tidegate::{RuleOutcome, canonical_text};
use tokio::time::sleep;

use super::message::HttpResponse;
use super::query;
use super::table::AdmittedRequest;
use crate::limiters::Filter;
use crate::refusal::{RefusalKind, RequestRefusal};

/// The default and the largest number of decisions a second.
const USUAL: u32 = 100;
const MOST: u32 = 1_000;
/// The time between two writes. One write sends all decisions of that time, because a write takes longer than a
/// decision.
const GATHERED: Duration = Duration::from_millis(50);
/// The largest number of decisions in a write: all decisions between two writes at the highest rate.
const MOST_AT_ONCE: usize = 64;

/// Answers with decisions, until the client leaves or the server stops.
pub(super) async fn decisions(asked: AdmittedRequest<'_>) -> Result<HttpResponse, RequestRefusal> {
    let (filter, per_second) = wanted(asked.query())?;
    let app = asked.app;
    // Before the stream begins: a filter of an unknown rule would be silent for ever.
    query::check_rule(&app.limiters, filter.rule.as_deref())?;
    let mut watch = app
        .limiters
        .watching
        .tail
        .watch(filter, per_second)
        .map_err(|error| RefusalKind::Internal.because(error.to_string()))?;
    app.streams.open(asked.role(), &app.limiters, async move |sink| {
        let mut lines = Vec::new();
        // Without a line the channel is closed, and without a number the client is gone.
        while let Some(1..) = sink.alive(watch.lines.recv_many(&mut lines, MOST_AT_ONCE)).await {
            if sink.send(lines.drain(..)).await.is_err() {
                return;
            }
            sleep(GATHERED).await;
        }
    })
}

/// The filter and the rate of a query.
fn wanted(query: Option<&str>) -> Result<(Filter, u32), RequestRefusal> {
    let names = ["rule", "outcome", "key", "per_second"];
    let expected = "`rule`, `outcome`, `key` or `per_second`";
    let asked = query::parse(query, &names, expected)?;
    let mut filter =
        Filter { rule: asked.get("rule").map(|rule| rule.to_string()), ..Filter::default() };
    if let Some(text) = asked.get("outcome") {
        let outcomes = text
            .split(',')
            .map(|name| RuleOutcome::ALL.into_iter().find(|outcome| outcome.name() == name));
        filter.outcomes = outcomes.collect::<Option<_>>().ok_or_else(|| {
            let names = RuleOutcome::ALL.map(RuleOutcome::name).join(", ");
            query::wrong("outcome", text, &format!("one or several, with commas, of {names}"))
        })?;
    }
    if let Some(text) = asked.get("key") {
        let (name, value) =
            text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
                query::wrong("key", text, "an entry of the key as NAME=VALUE, such as user%3Dada")
            })?;
        // Requests have canonical texts, with which these are compared.
        filter.key = Some((canonical_text(name).into_owned(), canonical_text(value).into_owned()));
    }
    Ok((filter, query::number(&asked, "per_second", USUAL, 1..=MOST)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_whole_or_refused() {
        let query = "rule=r&outcome=refused,never&key=user%3Da%3Db&per_second=7";
        let (filter, per_second) = wanted(Some(query)).unwrap();
        assert_eq!((filter.rule.as_deref(), per_second), (Some("r"), 7));
        assert_eq!(filter.outcomes, [RuleOutcome::Refused, RuleOutcome::Never]);
        assert_eq!(filter.key, Some(("user".to_owned(), "a=b".to_owned())));
        assert_eq!(wanted(None).unwrap().1, 100);
        for wrong in ["outcome=no", "outcome=", "key=ada", "key=%3Dada", "per_second=0", "n=1"] {
            assert!(wanted(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
