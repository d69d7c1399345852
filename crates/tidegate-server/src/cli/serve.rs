//! `tidegate serve`: decide over the network until asked to stop.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use tidegate::{Policy, StoreUrl};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

use super::guard;
use super::{Failure, address};
use crate::banner::Banner;
use crate::door::Door;
use crate::grpc::{Choices, Family, Unavailable};
use crate::http::{self, Limits};
use crate::limiters::Limiters;
use crate::logging::{self, Format, Level};
use crate::stop::Stop;
use crate::{grpc, handles, policy, resp, stdout};

const EXAMPLES: &str = "\
Examples:
  tidegate serve
  tidegate serve --config rules.toml --http 0.0.0.0:8080 --log-format json
  tidegate serve --config rules.toml --store redis://10.0.0.7:6379
  tidegate serve --tls-cert cert.pem --tls-key key.pem --token-file tokens
  tidegate serve --http 127.0.0.1:0 --grpc 127.0.0.1:0 --resp 127.0.0.1:0 --admin 127.0.0.1:0
                                           any free ports; they are printed

Without a token the admin listener asks for no password: keep it where only operators reach it.
SIGTERM and SIGINT let requests that are under way finish; a second one does not.";

/// Decide over HTTP, gRPC and RESP, with limiters in this process or in a store that nodes share
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The rules, TOML; without it a few that are built in, to try things out
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Where limiters live that nodes share, in place of `[store] url`: redis://, rediss://, unix://,
    /// redis+sentinel:// or redis+cluster://
    #[arg(long, value_name = "URL")]
    store: Option<StoreUrl>,

    /// Where checks are answered (IP:PORT; port 0 takes any free one)
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = address::parse)]
    http: SocketAddr,

    /// Where Envoy's rate limit service is answered, gRPC (IP:PORT)
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8081", value_parser = address::parse)]
    grpc: SocketAddr,

    /// Header fields that the proxy is to add to responses, besides those it makes itself
    #[arg(long, value_name = "FAMILY", value_delimiter = ',')]
    grpc_headers: Vec<Family>,

    /// What the proxy is told where the store is away and a rule is then closed
    #[arg(long, value_name = "ANSWER", default_value = "over-limit")]
    grpc_unavailable: Unavailable,

    /// Where Redis clients ask, RESP2 and RESP3 (IP:PORT)
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6380", value_parser = address::parse)]
    resp: SocketAddr,

    /// Refuse CL.THROTTLE, whose limits the calls carry: only the rules decide
    #[arg(long)]
    no_cl_throttle: bool,

    /// Where operators reset, refund and look at the rules (IP:PORT)
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9090", value_parser = address::parse)]
    admin: SocketAddr,

    /// How log lines, on standard error, are written
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: Format,

    /// The least weighty event that is logged
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: Level,

    #[command(flatten)]
    guard: guard::Args,
}

impl Args {
    fn resp_service(&self, limiters: Arc<Limiters>, door: &Door) -> Result<resp::Service, Failure> {
        let limits = resp::Limits::default();
        let service = resp::Service::new(limiters, door, !self.no_cl_throttle, limits);
        service.map_err(|mistakes| Failure::new(mistakes.to_string()))
    }
}

/// Serves until a signal comes and what was under way is done.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    logging::begin(args.log_format, args.log_level);
    let policy = match &args.config {
        Some(file) => policy::load(file)?,
        None => policy::example()?,
    };
    let policy = match &args.store {
        Some(url) => policy::over(policy, url.clone()),
        None => policy,
    };
    let runtime = runtime()?;
    let served = runtime.block_on(serve(args, policy));
    // A task that hangs does not keep the process from ending.
    runtime.shutdown_background();
    served.map(|()| ExitCode::SUCCESS)
}

fn runtime() -> Result<Runtime, Failure> {
    let mut builder = Builder::new_multi_thread();
    let built = builder.enable_all().build();
    built.map_err(|error| Failure::new(format!("can not start the runtime: {error}")))
}

async fn serve(args: &Args, policy: Policy) -> Result<(), Failure> {
    check_apart(args)?;
    let doors = args.guard.doors()?;
    let stop = Stop::on_signals(doors.public.limits.patience())?;
    handles::raise(connections(&doors));
    let (public, public_at) = bind(args.http, "--http").await?;
    let (grpc, grpc_at) = bind(args.grpc, "--grpc").await?;
    let (resp, resp_at) = bind(args.resp, "--resp").await?;
    let (admin, admin_at) = bind(args.admin, "--admin").await?;
    let limiters = Limiters::of(policy)?.until(stop.clone());
    limiters.ready().await;
    let policy = limiters.policy();
    let banner = Banner {
        public: public_at,
        grpc: grpc_at,
        resp: resp_at,
        admin: admin_at,
        door: &doors.public,
        token_file: args.guard.token_file(),
        certificate: args.guard.certificate(),
        throttles: !args.no_cl_throttle,
        config: args.config.as_deref(),
        policy,
    };
    stdout::print(&banner.to_string())?;
    let rules = policy.rules().len();
    tracing::info!(http = %public_at, grpc = %grpc_at, resp = %resp_at, admin = %admin_at, rules, "started");
    guard::warn_if_open("--http", public_at, &doors.public);
    guard::warn_if_open("--grpc", grpc_at, &doors.public);
    guard::warn_if_open("--resp", resp_at, &doors.public);
    guard::warn_if_admin_open(admin_at, &doors.admin);

    let limiters = Arc::new(limiters);
    let service = http::Service::new(Arc::clone(&limiters), Limits::default());
    let resp_service = args.resp_service(Arc::clone(&limiters), &doors.public)?;
    let (public, grpc, resp, admin) = tokio::join!(
        service.serve_public(public, doors.public.clone(), stop.clone()),
        grpc::serve(grpc, doors.public.clone(), limiters, args.choices(), stop.clone()),
        resp_service.serve(resp, doors.public, stop.clone()),
        service.serve_admin(admin, doors.admin, stop),
    );
    tracing::info!(connections_cut = public + grpc + resp + admin, "stopped");
    Ok(())
}

/// Most that all four doors hold open together.
fn connections(doors: &guard::Doors) -> u64 {
    3 * u64::from(doors.public.limits.connections) + u64::from(doors.admin.limits.connections)
}

/// Takes an address; answers the real one too, for port 0 is any free port.
async fn bind(at: SocketAddr, option: &str) -> Result<(TcpListener, SocketAddr), Failure> {
    let failed = |error: std::io::Error| {
        let hint = hint(error.kind(), at, option);
        Failure::new(format!("can not listen on {at} ({option}): {error}{hint}"))
    };
    let listener = TcpListener::bind(at).await.map_err(failed)?;
    let real = listener.local_addr().map_err(failed)?;
    Ok((listener, real))
}

/// What to do about an address that can not be had.
fn hint(kind: ErrorKind, at: SocketAddr, option: &str) -> String {
    let (ip, port) = (at.ip(), at.port());
    match kind {
        ErrorKind::AddrInUse => format!(
            "; stop what uses it, or choose another address with {option}, such as {option} {} \
             for any free port",
            SocketAddr::new(ip, 0)
        ),
        ErrorKind::AddrNotAvailable => format!(
            "; this machine has no address {ip}: choose another with {option}, such as {option} \
             127.0.0.1:{port}"
        ),
        ErrorKind::PermissionDenied => format!(
            "; low ports are for the privileged: choose another address with {option}, such as \
             {option} {}",
            SocketAddr::new(ip, usual_port(option))
        ),
        _ => String::new(),
    }
}

/// The port of a door where none is asked for.
fn usual_port(option: &str) -> u16 {
    match option {
        "--grpc" => 8081,
        "--resp" => 6380,
        "--admin" => 9090,
        _ => 8080,
    }
}

/// Two listeners can not share a port, unless it is any free one.
fn check_apart(args: &Args) -> Result<(), Failure> {
    let all = [
        ("--http", args.http),
        ("--grpc", args.grpc),
        ("--resp", args.resp),
        ("--admin", args.admin),
    ];
    for (number, (option, at)) in all.iter().enumerate().filter(|(_, (_, at))| at.port() != 0) {
        if let Some((earlier, _)) = all.iter().take(number).find(|(_, other)| other == at) {
            let free = SocketAddr::new(at.ip(), 0);
            return Err(Failure::configuration(format!(
                "tidegate: {earlier} and {option} are both {at}: give one of them another port, such as \
                 {option} {free}"
            )));
        }
    }
    Ok(())
}

impl Args {
    fn choices(&self) -> Choices {
        let fields = self.grpc_headers.iter().copied().collect();
        Choices { fields, unavailable: self.grpc_unavailable }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_can_not_be_had_is_told_with_the_option_to_change() {
        let at: SocketAddr = "[::1]:80".parse().unwrap();
        for (kind, example) in [
            (ErrorKind::AddrInUse, "such as --admin [::1]:0"),
            (ErrorKind::AddrNotAvailable, "such as --admin 127.0.0.1:80"),
            (ErrorKind::PermissionDenied, "such as --admin [::1]:9090"),
        ] {
            let said = hint(kind, at, "--admin");
            assert!(said.contains("choose another"), "{said}");
            assert!(said.contains(example), "{said}");
        }
    }
}
