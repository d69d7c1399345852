//! The command `layer`: the cost of a tower layer for a request, compared with tower_governor and with no layer.
//!
//! First each layer is called in this process, over a service that does nothing; then a program in axum has it,
//! and wrk asks.

mod services;

use crate::cases::{self, LAYER_ADMITTED};
use crate::harness::{Case, Entry, Options};
use crate::measure;
use crate::pace::Pace;
use crate::server::generators::wrk;
use crate::server::loaded::{BY_CPU, Loaded};
use crate::server::running::Running;
use clap::Args;
pub use services::offers;
use services::{SERVICES, router};
use std::net::SocketAddr;
use std::time::Duration;

/// The cases in this process, and the case of programs.
pub fn cases(_: &Options) -> Vec<Case> {
    let called = cases::LAYER.iter().map(|case| measure::case(case, offers(case), Pace::Apart));
    let programs = SERVICES.iter().map(|service| {
        Entry::new(*service, || {
            let running = Running::this(&["layer-hello", service])?;
            Loaded::begin(running, Box::new(|at, length| wrk("", at, length)), Box::new(|_| Ok(())))
        })
    });
    let asked = Case {
        base: LAYER_ADMITTED.base,
        rounds: 9,
        length: Duration::from_secs(3),
        ..Case::once("axum", BY_CPU, programs.collect())
    };
    called.chain([asked]).collect()
}

/// A program in axum, and its address.
#[derive(Args)]
pub struct LayerHello {
    /// The name of the service.
    service: String,
    /// IP:PORT.
    at: SocketAddr,
}

/// Serves until it is ended, on tokio's runtime of a thread for each core.
///
/// # Errors
/// If the address is not available.
pub fn hello(wanted: &LayerHello) -> Result<(), String> {
    let router = router(&wanted.service);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start the runtime: {error}"))?;
    let served = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(wanted.at).await?;
        axum::serve(listener, router.into_make_service_with_connect_info::<SocketAddr>()).await
    });
    served.map_err(|error| format!("cannot serve: {error}"))
}
