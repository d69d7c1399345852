//! Services of tonic (health, reflection) as one type, which `routes.rs` calls; decisions do not pass through here.

use std::convert::Infallible;
use std::pin::Pin;

use hyper::body::Incoming;
use hyper::http::{Request, Response};
use tonic::codegen::Service;
use tonic::server::NamedService;

use super::call;
use super::reply::{self, GrpcReply};
use crate::listener::KeptBytes;

/// The response of any service of tonic.
type ResponseFuture = Pin<Box<dyn Future<Output = Response<tonic::body::Body>> + Send>>;

/// One of tonic's services, with its name.
pub(super) struct TonicService {
    name: &'static str,
    call: Box<dyn Fn(Request<Incoming>) -> ResponseFuture + Send + Sync>,
}

impl TonicService {
    pub(super) fn new<S>(service: S) -> Self
    where
        S: NamedService + Clone + Send + Sync + 'static,
        S: Service<Request<Incoming>, Response = Response<tonic::body::Body>, Error = Infallible>,
        S::Future: Send,
    {
        Self {
            name: S::NAME,
            call: Box::new(move |request| {
                let mut service = service.clone();
                Box::pin(async move {
                    match service.call(request).await {
                        Ok(response) => response,
                        Err(never) => match never {},
                    }
                })
            }),
        }
    }

    /// Returns whether a path is one of its methods.
    pub(super) fn has(&self, path: &str) -> bool {
        let rest = path.strip_prefix('/').and_then(|path| path.strip_prefix(self.name));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Answers a call. A panic before its answer begins is an error of this call alone.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        kept: KeptBytes,
    ) -> Response<GrpcReply> {
        let call = async { Ok((self.call)(request).await) };
        match call::unpanicked(call).await {
            Ok(response) => response.map(|body| GrpcReply::Tonic(body, Some((kept, None)))),
            Err(why) => reply::failed(why),
        }
    }
}
