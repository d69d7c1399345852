//! The state that a layer and its services share, and the path of one request through it.
//!
//! `service.rs` asks it before the inner service runs, and again with the response. A `Decider` decides.

use std::fmt;
use std::io::Write as _;
use std::sync::{Arc, Once};

use http::Response;
use http::request::Parts;
use tidegate_core::Micros;

use super::body::{Recorder, RequestGuards, ResponseBody};
use super::decider::{Admission, Decider, Later, Ruling, Soon};
use super::entries::{Entries, LayerQuestion};
use super::fields::LimitFields;
use super::grpc;
use super::in_flight::InFlight;
use super::pacing::{Hold, Pacing};
use super::refusal::{Reason, Refusal};
use super::unmatched;
use crate::frontend::Taken;
use crate::headers::FieldSet;
use crate::jitter::Jitter;
use crate::request::Request;

/// Makes the response of a refusal.
pub(super) type Respond = dyn Fn(&Refusal, &Parts) -> Response<Vec<u8>> + Send + Sync;

/// Decides by the response if a request counts.
pub(super) type IsCharged = dyn Fn(&http::response::Parts) -> bool + Send + Sync;

#[derive(Clone)]
pub(super) struct LayerState {
    decider: Arc<dyn Decider>,
    pub(super) domain: Arc<str>,
    /// The descriptor that is used if `descriptors` is empty.
    usual: [Entries; 1],
    descriptors: Vec<Entries>,
    pub(super) shown: FieldSet,
    pub(super) on_refused: Option<Arc<Respond>>,
    pub(super) recorder: Option<Arc<dyn Recorder>>,
    pub(super) pacing: Option<Pacing>,
    pub(super) in_flight: Option<InFlight>,
    pub(super) jitter: Option<Jitter>,
    /// Decides if a response counts; all do by default.
    pub(super) counts: Option<Arc<IsCharged>>,
    /// Done when rules that cannot match were reported.
    reported: Arc<Once>,
}

impl LayerState {
    pub(super) fn new(decider: Arc<dyn Decider>, usual: Entries) -> Self {
        Self {
            decider,
            domain: Request::DEFAULT_DOMAIN.into(),
            usual: [usual],
            descriptors: Vec::new(),
            shown: true.into(),
            on_refused: None,
            recorder: None,
            pacing: None,
            in_flight: None,
            jitter: None,
            counts: None,
            reported: Arc::new(Once::new()),
        }
    }

    pub(super) fn domain(&mut self, domain: &str) {
        self.domain = domain.into();
        // Other rules may be without a match now, so they are reported again.
        self.reported = Arc::new(Once::new());
    }

    pub(super) fn descriptor(&mut self, entries: Entries) {
        self.descriptors.push(entries);
        self.reported = Arc::new(Once::new());
    }

    fn asked_about(&self) -> &[Entries] {
        if self.descriptors.is_empty() { &self.usual } else { &self.descriptors }
    }

    /// A sentence for each rule that no request can match.
    pub(super) fn unmatched(&self) -> Vec<String> {
        let Some(policy) = self.decider.policy() else { return Vec::new() };
        let added: Vec<_> = self.asked_about().iter().map(Entries::names).collect();
        unmatched::unmatched(&policy, &self.domain, &added)
    }

    /// Prints these sentences on standard error, once for a layer and its clones.
    pub(super) fn report_unmatched(&self) {
        self.reported.call_once(|| {
            // The reader may be gone, which is no reason to panic.
            let mut to = std::io::stderr();
            self.unmatched().iter().for_each(|sentence| drop(writeln!(to, "tidegate: {sentence}")));
        });
    }

    /// Requests a permit, waits while the host is held, then asks the gate; all of it now, if nothing takes its time.
    ///
    /// The permit comes first, because it can be given back without a trace.
    /// The work that an admitted request leaves for its response is put into `after`.
    pub(super) fn ask(
        self: &Arc<Self>,
        parts: &Parts,
        after: &mut Option<Box<After>>,
    ) -> Soon<Ruling> {
        let may_settle = self.counts.is_some() || self.pacing.is_some();
        let mut question = LayerQuestion::new(&self.domain, self.shown, may_settle);
        question.read(self.asked_about(), parts);
        let hold = self.pacing.as_ref().and_then(|pacing| pacing.meet(parts));
        // A copy, because the request itself goes on to the service.
        let charge = self.counts.as_ref().map(|_| (question.to_owned(), Taken::default()));
        // Only for a request whose response matters, because it is an allocation.
        if hold.is_some() || charge.is_some() {
            *after = Some(Box::new(After { plan: Arc::clone(self), hold: hold.clone(), charge }));
        }
        let Some(in_flight) = &self.in_flight else {
            return ask(&self.decider, hold.as_ref(), &question);
        };
        let permit = in_flight.permit(parts);
        let decider = Arc::clone(&self.decider);
        let question = question.to_owned();
        Soon::Later(Box::pin(async move {
            /// The shortest wait that can be reported, if another request holds the permit for an
            /// unknown time.
            const SOON: Micros = Micros::from_secs(1);
            let Some(permit) = permit.await else {
                return Ruling::refused(Refusal::for_now(Reason::InFlight, SOON));
            };
            ask(&decider, hold.as_ref(), &question).wait().await.with(permit)
        }))
    }

    /// The response to a refused request.
    pub(super) fn refuse(&self, refusal: Refusal, parts: &Parts) -> Response<Vec<u8>> {
        if let Some(recorder) = &self.recorder {
            recorder.block();
        }
        // Before the response is made, so that its text and its fields say the same wait.
        let refusal = match self.jitter {
            Some(jitter) => refusal.later_by(jitter),
            None => refusal,
        };
        let mut response = self.respond(&refusal, parts);
        // After the response is made, whose own fields stay.
        refusal.put_fields(response.headers_mut());
        response.extensions_mut().insert(refusal);
        response
    }

    fn respond(&self, refusal: &Refusal, parts: &Parts) -> Response<Vec<u8>> {
        match (grpc::content_type(&parts.headers), &self.on_refused) {
            // A client of gRPC understands no other form, so this goes before the response of the program.
            (Some(content_type), _) => grpc::response(refusal, content_type.clone()),
            (None, Some(respond)) => respond(refusal, parts),
            (None, None) => refusal.to_problem(),
        }
    }
}

/// Waits while the host is held, then asks the gate.
fn ask(
    decider: &Arc<dyn Decider>,
    hold: Option<&Hold>,
    question: &LayerQuestion<'_>,
) -> Soon<Ruling> {
    match hold {
        Some(hold) => Soon::Later(hold.clone().ask(Arc::clone(decider), question.to_owned())),
        None => decider.ask(question),
    }
}

impl fmt::Debug for LayerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Plan");
        debug.field("domain", &self.domain).field("descriptors", &self.asked_about());
        debug.field("shown", &self.shown).finish_non_exhaustive()
    }
}

/// The work that an admitted request leaves for its response, next to the header fields.
pub(super) struct After {
    plan: Arc<LayerState>,
    hold: Option<Hold>,
    /// The question, and the units that it took, if its response decides whether it counts. If the request is dropped
    /// before, the charge stays.
    charge: Option<(LayerQuestion<'static>, Taken)>,
}

/// One request after the gate has admitted it.
pub(super) struct Passage {
    after: Option<Box<After>>,
    fields: LimitFields,
    held: RequestGuards,
}

impl Passage {
    /// Notes that the request goes on.
    pub(super) fn admitted(
        plan: &LayerState,
        mut after: Option<Box<After>>,
        admission: Admission,
    ) -> Self {
        let Admission { fields, took, mut held } = admission;
        if let Some((_, taken)) = after.as_mut().and_then(|after| after.charge.as_mut()) {
            *taken = took;
        }
        if let Some(recorder) = &plan.recorder {
            held.begin(recorder);
        }
        Self { after, fields, held }
    }

    /// Notes the service's response. A cost that does not count is given back before the response
    /// is passed on ([`Passage::passed_on`]), which may take time.
    pub(super) fn answered<B, E>(
        &mut self,
        answer: Result<Response<B>, E>,
    ) -> Result<(Response<B>, Option<Later<LimitFields>>), E> {
        let response = answer.inspect_err(|_| self.held.fail())?;
        self.held.answered(&response);
        let Some(After { plan, hold, charge }) = self.after.as_deref_mut() else {
            return Ok((response, None));
        };
        if let Some(hold) = hold {
            hold.note(&response, &*plan.decider);
        }
        // Taken, so that the cost is given back only once.
        let Some((question, took)) = charge.take() else { return Ok((response, None)) };
        let (parts, body) = response.into_parts();
        let is_charged = plan.counts.as_ref().is_none_or(|counts| counts(&parts));
        let response = Response::from_parts(parts, body);
        if is_charged {
            return Ok((response, None));
        }
        match plan.decider.give_back(&question, &took) {
            Soon::Later(fields) => Ok((response, Some(fields))),
            Soon::Now(fields) => {
                self.released(fields);
                Ok((response, None))
            }
        }
    }

    /// Notes that the cost was given back, and the state of the limits afterwards.
    pub(super) fn released(&mut self, fields: LimitFields) {
        self.fields = fields;
    }

    /// The response as the caller gets it.
    pub(super) fn passed_on<B>(self, mut response: Response<B>) -> Response<ResponseBody<B>> {
        self.fields.put(response.headers_mut());
        response.map(|body| ResponseBody::inner(body, self.held))
    }
}
