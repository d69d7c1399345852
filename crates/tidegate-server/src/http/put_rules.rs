//! `PUT /v1/rules`: another configuration, in the TOML of its file. It checks the request here, and
//! [`Configuration::put`] checks the text, writes the file and puts the rules in force.

use hyper::header::{CONTENT_TYPE, ETAG, HeaderValue, IF_MATCH};
use serde::Serialize;
use tidegate_lab::diff::{Change, PolicyDiff};

use super::message::{HttpRequest, HttpResponse};
use super::table::AdmittedRequest;
use super::{answer, body};
use crate::audit::Changer;
use crate::configuration::{Proposal, Proposed, PutRefused};
use crate::listener::Bounds;
use crate::policy::Wrong;
use crate::refusal::{RefusalKind, RequestRefusal};

/// The maximum size of a configuration in a request, in bytes.
const MOST_BYTES: usize = 4 << 20;

/// The maximum size of an answer to a change, in bytes, which are claimed before anything changes.
const MOST_ANSWERED: usize = 6 << 20;

/// The hint to a text that may have been sent by `curl -d`.
const IN_ONE_LINE: &str = "the body is one line: expected `curl --data-binary @FILE`, because -d removes the ends of lines";

/// The answer to a change, or to a dry run.
#[derive(Serialize)]
struct Changed<'a> {
    dry_run: bool,
    /// The file of the server, which a change writes.
    file: &'a str,
    added: usize,
    changed: usize,
    removed: usize,
    /// The changes in words, one line for each.
    text: String,
    #[serde(flatten)]
    diff: &'a PolicyDiff,
}

/// Puts the body in force, or with `?dry_run=1` answers the changes that it would make.
pub(super) async fn put(asked: AdmittedRequest<'_>) -> Result<HttpResponse, RequestRefusal> {
    let configuration = asked.configuration()?;
    let AdmittedRequest { app, request, by: who, .. } = asked;
    let is_dry_run = match check(&who, &request) {
        Ok(is_dry_run) => is_dry_run,
        Err(problem) => {
            Box::pin(body::pass_over(request, app.bounds)).await;
            return Err(problem);
        }
    };
    let expected = request.headers().get_all(IF_MATCH).iter();
    let expected: Vec<_> = expected.map(|tags| String::from_utf8_lossy(tags.as_bytes())).collect();
    // Several fields of one name are one list (RFC 9110, 5.3).
    let expected = (!expected.is_empty()).then(|| expected.join(","));
    let bounds = Bounds { body_bytes: MOST_BYTES, ..app.bounds };
    let (bytes, held) = body::read_typed(request, bounds).await?;
    // A change that is in force is never answered as failed, for want of room.
    held.iter().try_for_each(|held| held.keep_answer(MOST_ANSWERED))?;
    let text = String::from_utf8(bytes.to_vec()).map_err(|_| {
        RefusalKind::InvalidBody
            .because("the body is not UTF-8: expected the TOML of a configuration")
    })?;
    let is_one_line = !text.trim_end().contains('\n');
    let proposal = Proposal { text, expected, is_dry_run, who: who.to_string() };
    // Parsing a configuration and writing its file block the thread, and the thread of the connection has to decide.
    answer::made_apart(move || {
        let put = configuration.put(proposal).map_err(|refused| {
            let is_wrong = matches!(refused, PutRefused::Wrong(Wrong::Text(_)));
            let problem = problem(refused);
            if is_wrong && is_one_line { problem.with_hint(IN_ONE_LINE) } else { problem }
        });
        let file = configuration.file().unwrap_or_default().display().to_string();
        answered(put?, &file, is_dry_run)
    })
    .await
}

/// The answer; without the single rules if it would be longer than its claim.
fn answered(
    Proposed { etag, diff }: Proposed,
    file: &str,
    dry_run: bool,
) -> Result<HttpResponse, RequestRefusal> {
    let mut response = shown(&diff, file, dry_run)?;
    if response.body().len().is_some_and(|bytes| bytes > MOST_ANSWERED) {
        response = shown(&diff.without_rules(), file, dry_run)?;
    }
    let etag = HeaderValue::from_str(&etag);
    response.headers_mut().extend(etag.ok().map(|etag| (ETAG, etag)));
    Ok(response)
}

fn shown(diff: &PolicyDiff, file: &str, dry_run: bool) -> Result<HttpResponse, RequestRefusal> {
    answer::json(&Changed {
        dry_run,
        file,
        added: diff.count(Change::Added),
        changed: diff.count(Change::Changed),
        removed: diff.count(Change::Removed),
        text: diff.to_string(),
        diff,
    })
}

/// Returns whether the request is for a dry run.
fn check(who: &Changer, request: &HttpRequest) -> Result<bool, RequestRefusal> {
    if !who.is_known_operator() {
        let detail = "a configuration is taken from this machine alone where neither a token nor a \
                      certificate is asked for: see --admin-token-file and --tls-client-ca";
        return Err(RefusalKind::Forbidden.because(detail));
    }
    let is_dry_run = match request.uri().query() {
        None => false,
        Some("dry_run=1" | "dry_run=true") => true,
        Some("dry_run=0" | "dry_run=false") => false,
        Some(other) => {
            let detail = format!("the query is {other:?}: expected none, or dry_run=1");
            return Err(RefusalKind::InvalidQuery.because(detail));
        }
    };
    let given = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    // Parameters are ignored: TOML is always UTF-8, which is checked.
    let given = given.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if !given.eq_ignore_ascii_case(b"application/toml") {
        let detail = "expected the header field `content-type: application/toml` (curl: -H \
                      'content-type: application/toml' --data-binary @rules.toml)";
        return Err(RefusalKind::UnsupportedMediaType.because(detail));
    }
    Ok(is_dry_run)
}

/// The problem of a configuration that was refused.
fn problem(refused: PutRefused) -> RequestRefusal {
    match refused {
        PutRefused::Unconditional => RefusalKind::PreconditionRequired.because("the header field `if-match` is missing: expected the `etag` of GET /v1/rules, so that the \
             change of another operator is not overwritten",
        ),
        PutRefused::Stale { etag, is_unquoted } => {
            let detail = if is_unquoted {
                format!("the tag of `if-match` lacks its quotes: expected {etag}, with the quotes")
            } else {
                format!(
                    "the configuration in force has the `etag` {etag}, whose quotes belong to it: read GET /v1/rules again"
                )
            };
            let problem = RefusalKind::PreconditionFailed.because(detail);
            // The tag in force goes with the refusal, so that its client can compare and ask again.
            match HeaderValue::from_str(&etag) {
                Ok(etag) => problem.with(ETAG, etag),
                Err(_) => problem,
            }
        }
        PutRefused::Conflict(why) => RefusalKind::Conflict.because(why),
        PutRefused::Wrong(Wrong::Text(errors)) => RequestRefusal::of_configuration(&errors),
        PutRefused::Wrong(wrong) => {
            RefusalKind::InvalidRules.because(wrong.to_string())
        }
    }
}
