//! The programs that ask, and their results: redis-benchmark, wrk, h2load.

use super::running::folder_with;
use crate::harness::least_above;
use crate::programs;
use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// Connections that ask at once.
pub const CONNECTIONS: u32 = 50;
/// Keys that are asked for over RESP.
const KEYS: &str = "100000";
/// Checks over HTTP/1.1 for 100,000 users.
pub const CHECKS: &str = include_str!("wrk.lua");
const MEASURED: &str = include_str!("measured.lua");

/// The requests that were sent, and their answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Answers.
    pub decisions: u64,
    /// Answers per second.
    pub per_s: f64,
    /// Half of the answers came sooner.
    pub p50_us: f64,
    /// 99 of 100 answers came sooner.
    pub p99_us: f64,
}

/// The version of HTTP that is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
}

/// A request over HTTP, one body for all.
pub struct Request<'a> {
    /// In which version.
    pub version: Version,
    /// The part after the address.
    pub path: &'a str,
    /// `NAME: VALUE`.
    pub headers: &'a [&'a str],
    /// The body that is sent.
    pub body: &'a [u8],
}

/// The way in which commands of RESP are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// The number of commands on their way at once on each connection.
    pub depth: u32,
    /// The number of generators that share the connections. Without a pipeline a single generator is busy all the time,
    /// and then measures itself.
    pub generators: u32,
}

/// redis-benchmark, so deep a pipeline, so many of them at once: so many commands of one kind, in which `__rand_int__`
/// is one of 100,000 numbers. (With threads of its own it notices its end a quarter of a second late.) The rate is the
/// total until the last generator ends, and each latency is the greatest.
///
/// # Errors
/// When it is missing, or an answer is an error.
pub fn redis_benchmarks(
    at: SocketAddr,
    pipeline: Pipeline,
    requests: u64,
    command: &[&str],
) -> Result<Load, String> {
    let Pipeline { depth, generators } = pipeline;
    let each = requests / u64::from(generators);
    let connections = CONNECTIONS / generators;
    let loads: Result<Vec<Load>, String> = thread::scope(|scope| {
        let begun: Vec<_> = (0..generators)
            .map(|_| scope.spawn(|| redis_benchmark(at, depth, connections, each, command)))
            .collect();
        begun.into_iter().map(|one| one.join().map_err(|_| "a thread ended".to_owned())?).collect()
    });
    let loads = loads?;
    let most = |of: fn(&Load) -> f64| loads.iter().map(of).fold(0.0, f64::max);
    let decisions = loads.iter().map(|load| load.decisions).sum();
    let seconds = most(|load| load.decisions as f64 / load.per_s);
    let (p50_us, p99_us) = (most(|load| load.p50_us), most(|load| load.p99_us));
    Ok(Load { decisions, per_s: decisions as f64 / seconds, p50_us, p99_us })
}

fn redis_benchmark(
    at: SocketAddr,
    depth: u32,
    connections: u32,
    requests: u64,
    command: &[&str],
) -> Result<Load, String> {
    let mut program = Command::new("redis-benchmark");
    program.args(["-h", &at.ip().to_string(), "-p", &at.port().to_string()]);
    program.args(["-c", &connections.to_string(), "-P", &depth.to_string()]);
    program.args(["-n", &requests.to_string(), "-r", KEYS, "--csv"]).args(command);
    let said = programs::output(&mut program)?;
    read_benchmark(&said, requests).ok_or_else(|| format!("redis-benchmark said {said:?}"))
}

/// Its last line: name, rate, and latencies in milliseconds (mean, least, p50, p95, p99, most).
fn read_benchmark(said: &str, requests: u64) -> Option<Load> {
    let fields: Vec<&str> = said.lines().last()?.rsplitn(8, ',').collect();
    let value = |place: usize| fields.get(place)?.trim_matches('"').parse::<f64>().ok();
    let (per_s, p50_us, p99_us) = (value(6)?, value(3)? * 1e3, value(1)? * 1e3);
    Some(Load { decisions: requests, per_s, p50_us, p99_us })
}

/// wrk, asking as `script` says, or for `/` if that is empty, as fast as it is answered.
///
/// # Errors
/// When it is missing, or an answer is not one of success.
pub fn wrk(script: &str, at: SocketAddr, length: Duration) -> Result<Load, String> {
    let folder = folder_with("wrk.lua", format!("{script}\n{MEASURED}"))?;
    let mut program = Command::new("wrk");
    program.args(["-t", "1", "-c", &CONNECTIONS.to_string(), "-d", &seconds(length)]);
    program.arg("-s").arg(folder.path().join("wrk.lua")).arg(format!("http://{at}"));
    let said = programs::output(&mut program)?;
    match read_wrk(&said) {
        Some((load, 0)) => Ok(load),
        Some((_, wrong)) => Err(format!("wrk: {wrong} requests were not answered with 2xx")),
        None => Err(format!("wrk said {said:?}")),
    }
}

/// The line that the script prints, and how many requests went wrong.
fn read_wrk(said: &str) -> Option<(Load, u64)> {
    let line = said.lines().find_map(|line| line.strip_prefix("measured "))?;
    let values: Vec<u64> = line.split(' ').map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let [decisions, us, p50_us, p99_us, wrong] = values[..] else { return None };
    let per_s = decisions as f64 / (us as f64 / 1e6);
    let load = Load { decisions, per_s, p50_us: p50_us as f64, p99_us: p99_us as f64 };
    Some((load, wrong))
}

/// h2load: the same request again and again, `streams` at once on each connection, as fast as they are answered.
///
/// # Errors
/// When it is missing, or an answer is not one of success.
pub fn h2load(
    at: SocketAddr,
    request: &Request<'_>,
    streams: u32,
    length: Duration,
) -> Result<Load, String> {
    let mut program = Command::new("h2load");
    program.args(["-D", &seconds(length), "-m", &streams.to_string()]);
    measured_by_h2load(at, request, &mut program, Duration::ZERO)
}

/// h2load: one request again and again at a given rate, however long answers take.
///
/// Each connection looks at its due requests every 10 ms, and sends all of them, also while others are not answered
/// yet. So connections begin apart from each other, because they must not all look at the same time. Its loop waits
/// with `select`, because it counts in whole milliseconds with `epoll`. Latency counts from the sending of a request.
/// The result covers the time in which all connections sent.
///
/// # Errors
/// When it is missing, or an answer is not one of success.
pub fn h2load_at(
    at: SocketAddr,
    request: &Request<'_>,
    per_s: f64,
    length: Duration,
) -> Result<Load, String> {
    const BY_SELECT: &str = "1";
    let mut program = Command::new("h2load");
    program.env("LIBEV_FLAGS", BY_SELECT).args(paced(per_s, length)).args(["-m", NONE_WAITS]);
    measured_by_h2load(at, request, &mut program, APART * CONNECTIONS)
}

/// The time between the beginnings of connections, which look at the clock every 10 ms: so they look at ten different
/// times in these.
const APART: Duration = Duration::from_millis(3);
/// More requests than become due on a connection before the first of them is answered.
const NONE_WAITS: &str = "1000";

/// The flags that make h2load ask so many times a second, all connections together.
fn paced(per_s: f64, length: Duration) -> [String; 7] {
    let each = (per_s / f64::from(CONNECTIONS)).round().max(1.0);
    let asked = each * f64::from(CONNECTIONS) * length.as_secs_f64();
    let apart = format!("{}ms", APART.as_millis());
    ["-r", "1", "--rate-period", &apart, "-n", &asked.to_string(), &format!("--rps={each}")]
        .map(str::to_owned)
}

fn measured_by_h2load(
    at: SocketAddr,
    request: &Request<'_>,
    program: &mut Command,
    begins: Duration,
) -> Result<Load, String> {
    let folder = folder_with("body", request.body)?;
    let log = folder.path().join("log");
    program.args(["-t", "1", "-c", &CONNECTIONS.to_string()]);
    program.arg("-d").arg(folder.path().join("body"));
    program.arg(format!("--log-file={}", log.display()));
    program.args((request.version == Version::Http1).then_some("--h1"));
    program.args(request.headers.iter().flat_map(|header| ["-H", header]));
    program.arg(format!("http://{at}{}", request.path));
    let said = programs::output(program)?;
    let (decisions, wrong) = read_h2load(&said).ok_or_else(|| format!("h2load said {said:?}"))?;
    if wrong > 0 || decisions == 0 {
        return Err(format!("h2load: {decisions} answers, {wrong} of no success"));
    }
    let text = std::fs::read_to_string(log).map_err(|error| format!("h2load's log: {error}"))?;
    let lines = text.lines().count() as u64;
    if lines < decisions {
        return Err(format!("h2load's log has {lines} answers, and {decisions} came"));
    }
    let (per_s, [p50_us, p99_us]) = read_log(&text, begins)?;
    Ok(Load { decisions, per_s, p50_us, p99_us })
}

/// Answers, and those that were none of success.
fn read_h2load(said: &str) -> Option<(u64, u64)> {
    let line = said.lines().find_map(|line| line.strip_prefix("requests: "))?;
    let of = |what: &str| {
        let value = line.split(", ").find_map(|part| part.strip_suffix(what))?;
        value.trim().parse::<u64>().ok()
    };
    let done = of(" done")?;
    Some((done, done.saturating_sub(of(" succeeded")?)))
}

/// Rate, p50 and p99 of the requests between `begins` after the first and `begins` before the last.
///
/// A line for each answer: the time of the request, the status, the time until the answer; in microseconds.
fn read_log(text: &str, begins: Duration) -> Result<(f64, [f64; 2]), String> {
    let answer = |line: &str| {
        let (sent, status_and_us) = line.split_once('\t')?;
        let (_, us) = status_and_us.split_once('\t')?;
        Some((sent.parse::<u64>().ok()?, us.trim().parse::<u32>().ok()?))
    };
    let answers: Option<Vec<(u64, u32)>> = text.lines().map(answer).collect();
    let mut answers = answers.ok_or("h2load's log has lines that tell no answer")?;
    answers.sort_unstable();
    let (Some((first, _)), Some((last, _))) = (answers.first(), answers.last()) else {
        return Err("h2load's log is empty".to_owned());
    };
    let begins = begins.as_micros() as u64;
    let within = first + begins..=last.saturating_sub(begins);
    let seconds = within.end().saturating_sub(*within.start()).max(1) as f64 / 1e6;
    let sent = answers.iter().filter(|(sent, _)| within.contains(sent));
    let mut us: Vec<u32> = sent.map(|(_, us)| *us).collect();
    us.sort_unstable();
    if us.is_empty() {
        return Err("h2load ended before all its connections had begun".to_owned());
    }
    let rate = us.len() as f64 / seconds;
    Ok((rate, [0.5, 0.99].map(|part| least_above(&us, part))))
}

/// Whole seconds, which is what the programs take.
fn seconds(length: Duration) -> String {
    length.as_secs().max(1).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_redis_benchmark_says_is_read_whatever_the_command_is_called() {
        let said = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
                    \"A, b\",\"89686.10\",\"0.299\",\"0.088\",\"0.287\",\"0.367\",\"0.631\",\"1.919\"\n";
        let load = Load { decisions: 9, per_s: 89_686.1, p50_us: 287.0, p99_us: 631.0 };
        assert_eq!(read_benchmark(said, 9), Some(load));
    }

    #[test]
    fn what_wrk_says_is_read() {
        let said = "Running 1s test @ http://127.0.0.1:1\nmeasured 5000 500000 120 340 2\n";
        let load = Load { decisions: 5_000, per_s: 10_000.0, p50_us: 120.0, p99_us: 340.0 };
        assert_eq!(read_wrk(said), Some((load, 2)));
        assert_eq!(read_wrk("unable to connect"), None);
    }

    #[test]
    fn what_h2load_says_is_read() {
        let said = "finished in 1.00s, 3 req/s\nrequests: 50 total, 60 started, 50 done, 48 succeeded, 2 failed, 2 errored, 0 timeout\n";
        assert_eq!(read_h2load(said), Some((50, 2)));
    }

    #[test]
    fn the_log_of_h2load_gives_rate_and_latencies() {
        let log = "1500000\t200\t20\n1000000\t200\t10\n2000000\t200\t30\n";
        assert_eq!(read_log(log, Duration::ZERO), Ok((3.0, [20.0, 30.0])));
        assert_eq!(read_log(log, Duration::from_millis(250)), Ok((2.0, [20.0, 20.0])));
        assert!(read_log(log, Duration::from_secs(1)).unwrap_err().contains("before all"));
        assert!(read_log("", Duration::ZERO).unwrap_err().contains("empty"));
        assert!(read_log("1000000\t200\n", Duration::ZERO).unwrap_err().contains("lines"));
    }

    #[test]
    fn h2load_gets_the_rate_of_a_connection_and_how_much_that_is_in_all() {
        let answer = paced(32_510.0, Duration::from_secs(2)).join(" ");
        assert_eq!(answer, "-r 1 --rate-period 3ms -n 65000 --rps=650");
    }
}
