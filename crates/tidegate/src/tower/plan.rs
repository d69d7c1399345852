//! The state that a layer and its services share, and the path of one request through it.

use std::fmt;
use std::sync::Arc;

use http::Response;
use http::request::Parts;
use tidegate_core::Micros;

use super::body::ResponseBody;
use super::charging::{Counts, PendingCharge};
use super::decider::{Admission, Asked, Decider, Later, Ruling, Soon};
use super::entries::{Entries, Question};
use super::fields::Fields;
use super::grpc;
use super::held::{Held, Recorder};
use super::in_flight::{InFlight, PermitFuture};
use super::pacing::{Hold, Pacing};
use super::refusal::{Reason, Refusal};
use crate::request::Request;

/// Makes the response of a refusal.
pub(super) type Respond = dyn Fn(&Refusal, &Parts) -> Response<Vec<u8>> + Send + Sync;

#[derive(Clone)]
pub(super) struct Plan {
    decider: Arc<dyn Decider>,
    pub(super) domain: Arc<str>,
    /// The descriptor that is used if `descriptors` is empty.
    usual: [Entries; 1],
    descriptors: Vec<Entries>,
    pub(super) shows_limits: bool,
    pub(super) on_refused: Option<Arc<Respond>>,
    pub(super) recorder: Option<Arc<dyn Recorder>>,
    pub(super) pacing: Option<Pacing>,
    pub(super) in_flight: Option<InFlight>,
    /// Whether a response counts; all do by default.
    pub(super) counts: Option<Arc<Counts>>,
}

impl Plan {
    pub(super) fn new(decider: Arc<dyn Decider>, usual: Entries) -> Self {
        Self {
            decider,
            domain: Request::DEFAULT_DOMAIN.into(),
            usual: [usual],
            descriptors: Vec::new(),
            shows_limits: true,
            on_refused: None,
            recorder: None,
            pacing: None,
            in_flight: None,
            counts: None,
        }
    }

    pub(super) fn descriptor(&mut self, entries: Entries) {
        self.descriptors.push(entries);
    }

    fn asked_about(&self) -> &[Entries] {
        if self.descriptors.is_empty() { &self.usual } else { &self.descriptors }
    }

    /// Requests a permit, waits while the host is held, then asks the gate.
    ///
    /// The permit comes first, because it can be given back without a trace.
    pub(super) fn ask(self: &Arc<Self>, parts: &Parts) -> (Asked, Passage) {
        let question = Question::read(&self.domain, self.asked_about(), parts);
        let hold = self.pacing.as_ref().and_then(|pacing| pacing.meet(parts));
        let charge = self.counts.clone().map(|counts| PendingCharge::new(counts, question.clone()));
        let inquiry = Inquiry { decider: self.decider.clone(), hold: hold.clone(), question };
        let asked = match &self.in_flight {
            Some(in_flight) => inquiry.with_permit(in_flight.permit(parts)),
            None => inquiry.ask(),
        };
        (asked, Passage::new(self.clone(), hold, charge))
    }
}

/// The data needed to ask.
struct Inquiry {
    decider: Arc<dyn Decider>,
    hold: Option<Hold>,
    question: Question,
}

impl Inquiry {
    fn ask(self) -> Asked {
        match self.hold {
            Some(hold) => hold.ask(self.decider, self.question),
            None => self.decider.ask(self.question),
        }
    }

    fn with_permit(self, permit: PermitFuture) -> Later<Ruling> {
        /// The shortest wait that can be reported, if another request holds the permit for an
        /// unknown time.
        const SOON: Micros = Micros::from_secs(1);
        Box::pin(async move {
            match permit.await {
                Some(permit) => self.ask().await.with(permit),
                None => Ruling::refused(Refusal::for_now(Reason::InFlight, SOON)),
            }
        })
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Plan");
        debug.field("domain", &self.domain).field("descriptors", &self.asked_about());
        debug.field("tells", &self.shows_limits).finish_non_exhaustive()
    }
}

/// One request after the gate has decided.
pub(super) struct Passage {
    plan: Arc<Plan>,
    hold: Option<Hold>,
    charge: Option<PendingCharge>,
    fields: Fields,
    held: Held,
}

impl Passage {
    fn new(plan: Arc<Plan>, hold: Option<Hold>, charge: Option<PendingCharge>) -> Self {
        Self { plan, hold, charge, fields: Fields::default(), held: Held::default() }
    }

    /// Notes that the request goes on.
    pub(super) fn admitted(&mut self, admission: Admission) {
        self.fields = admission.fields;
        if let Some(charge) = &mut self.charge {
            charge.took(admission.took);
        }
        self.held = Held::new(self.plan.recorder.clone(), admission.permit);
    }

    /// Notes the service's response. A cost that does not count is given back before the response
    /// is passed on ([`Passage::passed_on`]), which may take time.
    pub(super) fn answered<B, E>(
        &mut self,
        answer: Result<Response<B>, E>,
    ) -> Result<(Response<B>, Option<Later<Fields>>), E> {
        let mut response = answer.inspect_err(|_| self.held.fail())?;
        let mut later = None;
        self.held.answered(&response);
        if let Some(hold) = &self.hold {
            hold.note(&response, &*self.plan.decider);
        }
        if let Some(charge) = self.charge.take() {
            let release = |question: &_, took: &_| self.plan.decider.release(question, took);
            let (same, fields) = charge.close(response, release);
            response = same;
            match fields {
                Some(Soon::Now(fields)) => self.fields = fields,
                Some(Soon::Later(fields)) => later = Some(fields),
                None => {}
            }
        }
        Ok((response, later))
    }

    /// Notes that the cost was given back, and the state of the limits afterwards.
    pub(super) fn released(&mut self, fields: Fields) {
        self.fields = fields;
    }

    /// The response as the caller gets it.
    pub(super) fn passed_on<B>(self, mut response: Response<B>) -> Response<ResponseBody<B>> {
        if self.plan.shows_limits {
            self.fields.put(response.headers_mut());
        }
        response.map(|body| ResponseBody::inner(body, self.held))
    }

    /// The response to a refused request.
    pub(super) fn refused<B>(self, refusal: Refusal, parts: &Parts) -> Response<ResponseBody<B>> {
        if let Some(recorder) = &self.plan.recorder {
            recorder.block();
        }
        let refusal = if self.plan.shows_limits { refusal } else { refusal.without_limits() };
        let mut response = self.respond(&refusal, parts);
        refusal.put_fields(response.headers_mut());
        response.extensions_mut().insert(refusal);
        response.map(ResponseBody::text)
    }

    fn respond(&self, refusal: &Refusal, parts: &Parts) -> Response<Vec<u8>> {
        match (grpc::content_type(&parts.headers), &self.plan.on_refused) {
            (Some(content_type), _) => grpc::response(refusal, content_type.clone()),
            (None, Some(respond)) => respond(refusal, parts),
            (None, None) => refusal.to_problem(),
        }
    }
}
