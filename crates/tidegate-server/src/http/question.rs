//! What a body asks: a domain, and one descriptor or several, each with its cost.
//!
//! ```json
//! {"domain": "pay", "descriptor": {"channel": "alipay"}, "cost": 2}
//! {"descriptors": [{"user": "a"}, {"descriptor": {"tenant": "b"}, "cost": 3}], "cost": 1}
//! ```
//!
//! The domain is `default` and the cost 1 unless said; the cost beside `descriptors` holds for those
//! that name none. Entries keep the order in which they are written. Nothing else is taken.

mod cost;
mod entries;
mod item;

use axum::extract::Request;
use serde::{Deserialize, Deserializer};
use tidegate::Descriptor;

use super::problem::{Kind, Problem};
use super::{Limits, body};
use cost::Cost;
use entries::Entries;
use item::Item;

/// Most descriptors of one question.
const MOST_DESCRIPTORS: usize = 64;
const EXAMPLE: &str = r#"{"domain": "pay", "descriptor": {"channel": "alipay"}, "cost": 1}"#;

/// A question, understood.
#[derive(Debug)]
pub(super) struct Question {
    domain: String,
    items: Vec<Item>,
    cost: Option<Cost>,
}

/// The body as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Fields {
    #[serde(default, deserialize_with = "given")]
    domain: Option<String>,
    #[serde(default, deserialize_with = "given")]
    descriptor: Option<Entries>,
    #[serde(default, deserialize_with = "given")]
    descriptors: Option<Vec<Item>>,
    #[serde(default, deserialize_with = "given")]
    cost: Option<Cost>,
}

/// A field that is there has a value: `null` is a mistake, not an absence.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

impl Question {
    /// Reads the body of a request.
    pub(super) async fn read(request: Request, limits: Limits) -> Result<Self, Problem> {
        Self::parse(&body::read(request, limits).await?)
    }

    fn parse(body: &[u8]) -> Result<Self, Problem> {
        if body.trim_ascii_start().first() == Some(&b'[') {
            return Err(mistaken("the body is an array"));
        }
        let fields: Fields = serde_json::from_slice(body).map_err(|error| unreadable(&error))?;
        let items = match (fields.descriptor, fields.descriptors) {
            (Some(entries), None) => vec![Item::of(entries)],
            (None, Some(items)) => items,
            (Some(_), Some(_)) => {
                return Err(mistaken("both `descriptor` and `descriptors` are given"));
            }
            (None, None) => {
                return Err(mistaken("neither `descriptor` nor `descriptors` is given"));
            }
        };
        check_number(items.len())?;
        let domain = fields.domain.unwrap_or_else(|| tidegate::Request::DEFAULT_DOMAIN.to_owned());
        if domain.is_empty() {
            return Err(mistaken("`domain` is empty"));
        }
        Ok(Self { domain, items, cost: fields.cost })
    }

    /// Whether a cost is named anywhere.
    pub(super) fn names_a_cost(&self) -> bool {
        self.cost.is_some() || self.items.iter().any(|item| item.cost.is_some())
    }

    /// Puts the question.
    pub(super) async fn ask<T>(&self, to: impl AsyncFnOnce(&tidegate::Request<'_>) -> T) -> T {
        let entries: Vec<_> = self.items.iter().map(|item| item.entries.pairs()).collect();
        let costs = self.items.iter().map(|item| item.cost.or(self.cost).unwrap_or_default());
        let descriptors: Vec<_> = entries
            .iter()
            .zip(costs)
            .map(|(entries, cost)| Descriptor::new(entries).cost(cost.units()))
            .collect();
        to(&tidegate::Request::new(&self.domain, &descriptors)).await
    }
}

fn check_number(descriptors: usize) -> Result<(), Problem> {
    match descriptors {
        0 => Err(mistaken("`descriptors` is empty")),
        1..=MOST_DESCRIPTORS => Ok(()),
        _ => Err(mistaken(&format!(
            "`descriptors` has {descriptors} items, and at most {MOST_DESCRIPTORS} are taken"
        ))),
    }
}

fn mistaken(what: &str) -> Problem {
    Problem::new(Kind::InvalidBody, format!("{what}: expected such as {EXAMPLE}"))
}

/// The text of `error` says where.
fn unreadable(error: &serde_json::Error) -> Problem {
    let what = if error.is_data() { "" } else { "not JSON: " };
    Problem::of_json(format!("{what}{error}; expected such as {EXAMPLE}"), error)
}
