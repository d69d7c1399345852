//! A program in axum that says hello, in a layer or bare, and wrk, which asks it.

use super::services::{Service, TWO, governor, sound, tidegate, tidegate_per_ip};
use crate::cases::Rule;
use crate::host::Stolen;
use crate::process;
use crate::programs::{self, Program};
use crate::rounds::{self, By, Sample};
use crate::server::generators::{Load, wrk_by};
use axum::Router;
use axum::routing::get;
use clap::Args;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tower_governor::GovernorLayer;

/// The name of the case.
pub const CASE: &str = "axum";

/// A program, and its address.
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
pub fn run(wanted: &LayerHello) -> Result<(), String> {
    let router = router(Service::named(&wanted.service).ok_or("no such service")?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start the runtime: {error}"))?;
    let served = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(wanted.at).await?;
        axum::serve(listener, router.into_make_service_with_connect_info::<SocketAddr>()).await
    });
    served.map_err(|error| format!("cannot serve: {error}"))
}

fn router(service: Service) -> Router {
    let (rule, bare) = (Rule::PLENTY, Router::new().route("/", get(async || "Hello, World!")));
    match service {
        Service::Bare => bare,
        Service::Governor => {
            bare.layer(GovernorLayer::new(sound(governor(rule).finish().map(Arc::new))))
        }
        Service::GovernorFields => {
            let config = governor(rule).use_headers().finish().map(Arc::new);
            bare.layer(GovernorLayer::new(sound(config)))
        }
        Service::TidegatePerIp => bare.layer(tidegate_per_ip(rule).headers(false)),
        Service::TidegatePerIpTwoFields => bare.layer(tidegate_per_ip(rule).headers(TWO)),
        Service::TidegatePerIpFields => bare.layer(tidegate_per_ip(rule)),
        Service::Tidegate => bare.layer(tidegate(rule).headers(false)),
        Service::TidegateFields => bare.layer(tidegate(rule)),
    }
}

/// Starts a program for each service, and lets wrk ask one after the other in each round.
///
/// # Errors
/// When wrk is missing, or a request is refused.
pub fn measure(
    services: &[Service],
    rounds: usize,
    length: Duration,
) -> Result<rounds::Case, String> {
    let running =
        services.iter().map(|service| Hello::start(*service)).collect::<Result<Vec<_>, _>>()?;
    let mut samples = vec![Vec::new(); running.len()];
    for round in 0..rounds {
        for place in 0..running.len() {
            let turn = (round + place) % running.len();
            samples[turn].push(running[turn].sample(length)?);
        }
    }
    let subjects = services.iter().zip(samples);
    let subjects = subjects.map(|(service, samples)| rounds::Subject {
        name: service.name(),
        samples,
        bytes: None,
    });
    let base = Service::GovernorFields.name();
    Ok(rounds::Case { name: CASE.to_owned(), base, by: By::Cpu, subjects: subjects.collect() })
}

/// A program that answers until this is dropped.
struct Hello {
    at: SocketAddr,
    program: Program,
}

impl Hello {
    /// Started, and asked for a second to warm up.
    fn start(service: Service) -> Result<Self, String> {
        let this = std::env::current_exe().map_err(|error| format!("own path: {error}"))?;
        let at = programs::free_address()?;
        let address = at.to_string();
        let program = Program::start(this, ["layer-hello", service.name(), &address])?;
        let hello = Self { at, program: program.listening(at)? };
        wrk_by("", at, Duration::from_secs(1))?;
        Ok(hello)
    }

    fn sample(&self, length: Duration) -> Result<Sample, String> {
        let (before, stolen_before) = (process::cpu(self.program.pid())?, Stolen::now()?);
        let Load { decisions, per_s, p50_us, p99_us } = wrk_by("", self.at, length)?;
        let cpu = process::cpu(self.program.pid())?.saturating_sub(before);
        let cpu_us = cpu.as_secs_f64() * 1e6 / decisions as f64;
        Ok(Sample { per_s, cpu_us, p50_us, p99_us, stolen: stolen_before.share_since()? })
    }
}
