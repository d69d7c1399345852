//! `tidegate serve`: decide over the network until asked to stop. The order of the start is in [`serve`], and the services
//! of all listeners begin in [`answer`].

mod flags;
mod settings;

pub(crate) use flags::{ServeArgs, command};
pub(super) use settings::{check, load};

use std::ffi::OsString;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::OptionFuture;
use tidegate::Policy;
use tokio::runtime::{Builder, Runtime};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::address::Where;
use super::environment::Surroundings;
use super::guard::{self, ListenerOptions};
use super::listeners::{self, Listener, bind};
use super::passed::Passed;
use crate::allocator::return_free_memory;
use crate::banner::Banner;
use crate::configuration::{self, Cause, ConfigOrigin, Configuration};
use crate::failure::Failure;
use crate::fd_limit::{self, Shares};
use crate::limiters::{Limiters, StoreStanding};
use crate::listener::{self, AcceptOptions, Again, Bounds, Threads};
use crate::logging::Log;
use crate::otlp::Exporter;
use crate::reports::Reports;
use crate::snapshot_file::SnapshotFile;
use crate::stop::Stop;
use crate::{grpc, http, policy, private_file, service_manager, stdout};

/// The longest time that is spent on the last snapshot and the last spans, when a disk or a collector hangs.
const LAST_WRITES: Duration = Duration::from_secs(4);
/// Most connections of probes: they have no share of the file handles.
const PROBES: u32 = 16;

/// Serves until a signal comes and the requests under way are done. `args` are parsed from `given`, the words from
/// `serve` on. Settings that neither they nor the environment give come from `[server]` of the file.
pub(super) fn run(
    args: &ServeArgs,
    given: &[OsString],
    surroundings: &Surroundings,
) -> Result<ExitCode, Failure> {
    let Some(file) = &args.config else {
        return run_with(args, policy::example()?, settings::built_in(), surroundings);
    };
    let text = settings::text(file)?;
    let (policy, args, origin) = settings::read_file(file, text, given.to_vec())?;
    run_with(&args, policy, origin, surroundings)
}

fn run_with(
    args: &ServeArgs,
    policy: Policy,
    origin: ConfigOrigin,
    surroundings: &Surroundings,
) -> Result<ExitCode, Failure> {
    let log = Log::begin(args.log_format, args.log_level)?;
    Ok(run_logged(args, policy, origin, surroundings, &log).unwrap_or_else(|failure| {
        // Errors go through the log, because standard error may not be read.
        failure.report_to(|message| log.write_failure(message))
    }))
}

/// Makes the runtimes, serves on them, and ends them.
fn run_logged(
    args: &ServeArgs,
    policy: Policy,
    origin: ConfigOrigin,
    surroundings: &Surroundings,
    log: &Log,
) -> Result<ExitCode, Failure> {
    let policy = args.over_store(policy);
    for warning in policy::warnings(&policy) {
        tracing::warn!("{warning}");
    }
    // Each runtime takes some file handles.
    fd_limit::raise();
    let runtime = runtime("--threads", args.bounds.threads())?;
    let for_grpc = runtimes_of_grpc(args)?;
    let threads = Threads::of(&for_grpc);
    let served = runtime.block_on(serve(args, policy, origin, surroundings, threads, log));
    // A task that hangs does not keep the process from ending.
    for_grpc.into_iter().chain([runtime]).for_each(Runtime::shutdown_background);
    served
}

/// The runtimes of gRPC calls. They keep more threads busy than checks at the other listeners,
/// which they would only disturb, and are fastest on threads of their own.
fn runtimes_of_grpc(args: &ServeArgs) -> Result<Vec<Runtime>, Failure> {
    if let Where::At(_) = args.grpc {
        let threads = 0..args.bounds.grpc_threads();
        return threads.map(|_| runtime("--grpc-threads", 1)).collect();
    }
    if args.bounds.grpc_threads.is_some() {
        tracing::warn!("--grpc-threads has no effect: that listener is off");
    }
    Ok(Vec::new())
}

fn runtime(option: &str, threads: usize) -> Result<Runtime, Failure> {
    let mut builder = Builder::new_multi_thread();
    let built = builder.worker_threads(threads).enable_all().build();
    built.map_err(|error| Failure::new(format!("cannot start the threads of {option}: {error}")))
}

/// The listeners that are bound.
struct OpenListeners {
    http: Option<Listener>,
    grpc: Option<Listener>,
    resp: Option<Listener>,
    admin: Option<Listener>,
    probe: Option<Listener>,
}

impl OpenListeners {
    fn of(args: &ServeArgs) -> Result<Self, Failure> {
        let mut passed = Passed::take(&args.listeners())?;
        let open = args.listeners().map(|(option, address)| bind(address, option, &mut passed));
        let [http, grpc, resp, admin, probe] = open;
        Ok(Self { http: http?, grpc: grpc?, resp: resp?, admin: admin?, probe: probe? })
    }

    /// The open listeners for clients.
    fn of_clients(&self) -> impl Iterator<Item = &Listener> {
        [&self.http, &self.grpc, &self.resp].into_iter().flatten()
    }

    /// Gives each listener its share of the file handles.
    fn share_handles(&self, options: &mut ListenerOptions, runtimes: usize) {
        let most = options.public.bounds.connections;
        let clients = self.of_clients().count();
        let shares = Shares::of(most, clients, self.admin.is_some(), runtimes);
        options.public.bounds.connections = shares.clients;
        options.admin.bounds.connections = shares.operators;
    }

    /// Logs warnings about listeners that answer everybody.
    fn warn(&self, options: &ListenerOptions) {
        for listener in self.of_clients() {
            guard::warn_if_open(listener, &options.public);
            guard::warn_if_unencrypted(listener, &options.public);
        }
        if let Some(admin) = &self.admin {
            guard::warn_if_unencrypted(admin, &options.admin);
        }
    }

    /// Refuses to open what would let anybody beyond this machine undo limits, or change rules.
    fn check(&self, options: &ListenerOptions) -> Result<(), Failure> {
        if let Some(admin) = &self.admin {
            let why = "operators change limits and rules there";
            guard::check_open(admin, &options.admin, why)?;
        }
        if !options.clients.verbs.undo() {
            return Ok(());
        }
        let why = "--public-verbs lets its clients undo limits";
        let mut listeners = [&self.http, &self.resp].into_iter().flatten();
        listeners.try_for_each(|listener| guard::check_open(listener, &options.public, why))
    }
}

async fn serve(
    args: &ServeArgs,
    policy: Policy,
    origin: ConfigOrigin,
    surroundings: &Surroundings,
    for_grpc: Threads,
    log: &Log,
) -> Result<ExitCode, Failure> {
    listeners::check(args.listeners())?;
    let mut options =
        args.guard.listener_options(args.bounds.of_listener(), args.public_verbs())?;
    // Before the limiters are loaded, which may take long: a signal in this time is answered by an orderly stop.
    let stop = Stop::on_signals(options.public.bounds.patience(), options.public.bounds.drain)?;
    let exporter = Exporter::begin(args.otlp.as_ref())?;
    let (limiters, file) = limiters(args, policy)?;
    let limiters = limiters.with_reservation_bytes(args.bounds.reservation_memory);
    let limiters = limiters.with_top_keys(args.bounds.top_keys as usize);
    let limiters = limiters.with_recorder(args.recorder()).until(stop.clone());
    let limiters = Arc::new(limiters);
    surroundings.log(&origin.text);
    let configuration = Configuration::new(Arc::clone(&limiters), origin, log.level.clone());
    let configuration = Arc::new(configuration);
    // Before the listeners are open: a hang-up that comes earlier would end the process.
    listener::on_hangup(read_again(&configuration, &options));
    let open = OpenListeners::of(args)?;
    // After the sockets are bound, because a socket that was passed has an address of its own.
    open.check(&options)?;
    open.share_handles(&mut options, 1 + for_grpc.count());
    // Clients are already queued by the system; the first is answered by the store, not without it.
    limiters.connected().await;
    announce(args, &open, &options, &limiters, &for_grpc)?;
    return_free_memory();
    if !args.no_watch {
        tokio::spawn(configuration::watch(Arc::clone(&configuration)));
    }
    let clients = options.public.secret.clone();
    let admin = options.admin.secret.clone();
    let both = (Arc::clone(&limiters), configuration);
    let writing = file.map(|file| file.write_every(args.snapshot_every, Arc::clone(&limiters)));
    let writing = writing.transpose()?;
    let answered = answer(args, open, options, both, stop.clone(), for_grpc);
    let notified = service_manager::notify_during(answered, stop.clone());
    // Returns when all connections have ended, or were cut.
    let cut = Reports { log, clients, admin }.during(notified).await?;
    // The limiters do not change any more, so the last snapshot is complete.
    let last = async {
        if let Some(exporter) = exporter {
            let _ = spawn_blocking(|| exporter.end()).await;
        }
        if let Some(writing) = writing {
            let _ = spawn_blocking(|| writing.end()).await;
        }
    };
    let mut ending = stop.clone();
    let is_late = tokio::select! {
        () = ending.ending() => false,
        done = timeout(LAST_WRITES, last) => done.is_err(),
    };
    if is_late {
        tracing::error!(
            connections_cut = cut,
            "stopped without the last snapshot or spans, which were not written within {LAST_WRITES:?}: the snapshot \
             before stays"
        );
        return Ok(ExitCode::FAILURE);
    }
    if stop.is_ending() {
        tracing::warn!(connections_cut = cut, "stopped at once, being asked a second time");
        return Ok(ExitCode::FAILURE);
    }
    // Only at a clean end: a server that was cut off is forgotten by the store after some seconds.
    limiters.leave().await;
    tracing::info!(connections_cut = cut, "stopped");
    Ok(ExitCode::SUCCESS)
}

/// The limiters: in the store, or in this process as their file says, if there is one.
fn limiters(args: &ServeArgs, policy: Policy) -> Result<(Limiters, Option<SnapshotFile>), Failure> {
    let Some(path) = &args.snapshot else { return Ok((Limiters::of(policy)?, None)) };
    if let Some(warning) = policy::warning_of_snapshot(&policy) {
        tracing::warn!("{warning}");
        return Ok((Limiters::of(policy)?, None));
    }
    private_file::check(path, "--snapshot").map_err(Failure::usage)?;
    let file = SnapshotFile::lock(path)?;
    let limiters = Limiters::here(policy, |fresh| file.load(fresh))?;
    Ok((limiters, Some(file)))
}

/// The files that are read again on SIGHUP.
fn read_again(configuration: &Arc<Configuration>, options: &ListenerOptions) -> Vec<Again> {
    let configuration = Arc::clone(configuration);
    let mut files: Vec<Again> = vec![Arc::new(move || configuration.reload(Cause::Signal))];
    let tokens = options.token_files.clone();
    files.push(Arc::new(move || guard::read_again(&tokens)));
    if let Some(tls) = options.public.tls.clone() {
        files.push(Arc::new(move || tls.read_again()));
    }
    files
}

/// Prints and logs the addresses of the listeners and their services.
fn announce(
    args: &ServeArgs,
    open: &OpenListeners,
    options: &ListenerOptions,
    limiters: &Limiters,
    for_grpc: &Threads,
) -> Result<(), Failure> {
    let policy = limiters.policy();
    let all = [&open.http, &open.grpc, &open.resp, &open.admin, &open.probe];
    let [public, grpc, resp, admin, probe] = all.map(|listener| Some(listener.as_ref()?.at));
    let banner = Banner {
        public,
        grpc,
        resp,
        admin,
        probe,
        options: &options.public,
        token_file: args.guard.token_file.as_deref(),
        certificate: args.guard.tls_cert.as_deref(),
        config: args.config.as_deref(),
        policy: &policy,
        is_store_away: limiters.standing() == Some(StoreStanding::Unavailable),
        width: stdout::width(),
    };
    stdout::print(&banner.to_string())?;
    let threads = args.bounds.threads();
    let grpc_threads = match for_grpc.count() {
        0 => open.grpc.as_ref().map_or(0, |_| threads),
        own => own,
    };
    tracing::info!(
        http = shown(public),
        grpc = shown(grpc),
        resp = shown(resp),
        admin = shown(admin),
        probe = shown(probe),
        threads,
        grpc_threads,
        rules = policy.rules().len(),
        "started"
    );
    open.warn(options);
    Ok(())
}

fn shown(at: Option<SocketAddr>) -> String {
    at.map_or_else(|| "off".to_owned(), |at| at.to_string())
}

/// Answers at every open listener until `stop`; returns how many connections had to be cut at the
/// end.
async fn answer(
    args: &ServeArgs,
    open: OpenListeners,
    options: ListenerOptions,
    (limiters, configuration): (Arc<Limiters>, Arc<Configuration>),
    stop: Stop,
    for_grpc: Threads,
) -> Result<usize, Failure> {
    let ListenerOptions { public, admin: operators, clients, access, .. } = options;
    let bounds = public.bounds;
    let service =
        http::HttpService::new(Arc::clone(&limiters), bounds, operators.bounds.connections);
    let resp_service = args.resp_service(&limiters, &clients)?;
    let counts = &limiters.counts;
    let http = open.http.map(|on| {
        let options = on.options(&public, &counts.http);
        listener::serve(on.tcp, options, service.public(clients.clone()), stop.clone())
    });
    let grpc = open.grpc.map(|on| {
        let options = AcceptOptions { threads: for_grpc, ..on.options(&public, &counts.grpc) };
        let service = grpc::service(Arc::clone(&limiters), args.choices(), clients, bounds);
        listener::serve(on.tcp, options, service, stop.clone())
    });
    let resp = open.resp.map(|on| {
        let options = on.options(&public, &counts.resp);
        listener::serve(on.tcp, options, resp_service, stop.clone())
    });
    let admin = open.admin.map(|on| {
        let service = service.admin(access, configuration);
        let options = on.options(&operators, &counts.admin);
        listener::serve(on.tcp, options, service, stop.clone())
    });
    let probe = open.probe.map(|on| {
        let bounds = Bounds { connections: PROBES, ..bounds };
        let options = AcceptOptions { bounds, is_passed: on.is_passed, ..AcceptOptions::default() };
        listener::serve(on.tcp, options, service.probe(), stop.clone())
    });
    // Each ends by itself after a stop, so all drain at the same time.
    let (http, grpc, resp, admin, probe) = tokio::join!(
        OptionFuture::from(http),
        OptionFuture::from(grpc),
        OptionFuture::from(resp),
        OptionFuture::from(admin),
        OptionFuture::from(probe),
    );
    Ok([http, grpc, resp, admin, probe].into_iter().flatten().sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        serve: ServeArgs,
    }

    #[test]
    fn listeners_are_on_loopback_and_threads_follow_the_cores_by_default() {
        let Cli { serve } = Cli::parse_from(["tidegate"]);
        let at = [serve.http, serve.grpc, serve.resp, serve.admin];
        let usual = [8080, 8081, 6380, 8082];
        assert_eq!(at, usual.map(|port| Where::At(([127, 0, 0, 1], port).into())));
        let cores = std::thread::available_parallelism().unwrap().get();
        let threads = (serve.bounds.threads(), serve.bounds.grpc_threads());
        assert_eq!(threads, (cores.div_ceil(2), cores));
        let Cli { serve } = Cli::parse_from(["tidegate", "--threads", "3", "--grpc-threads", "5"]);
        assert_eq!((serve.bounds.threads(), serve.bounds.grpc_threads()), (3, 5));
    }
}
