//! The commands `rules` and `scrape`: the cost of many rules in memory and of a scrape of their metrics, and the longest
//! decision while others scrape.

use super::running::{self, Server};
use crate::harness::{Case, Entry, Options, Sample};
use crate::process;
use crate::redis_server::RedisServer;
use crate::resp::Connection;
use crate::table::{Column, median_of};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

const OF_MEMORY: &[Column] = &[
    median_of("start_s", "start, s", 2),
    median_of("loaded", "loaded, MiB", 0),
    median_of("asked", "asked once, MiB", 0),
    median_of("most", "at most, MiB", 0),
];
const OF_SCRAPES: &[Column] = &[
    median_of("bytes", "bytes", 0),
    median_of("cpu_ms", "CPU of a scrape, ms", 2),
    median_of("decisions", "decisions", 0),
    median_of("us_alone", "longest alone, us", 0),
    median_of("us_during", "longest during scrapes, us", 0),
];
/// The pause before memory is read, in which a server ends what it began.
const PAUSE: Duration = Duration::from_secs(1);
/// The rules of a server that is scraped.
const RULES: u32 = 1_000;
/// Scrapes, one after the other.
const SCRAPES: u32 = 100;

/// The memory of a server with many rules, as it starts and when each rule has decided once.
pub fn memory(options: &'static Options) -> Vec<Case> {
    let cases = [1, 1_000, 10_000, 100_000].map(|rules| {
        let subjects = [false, true].map(|is_stored| {
            let name = if is_stored { "limits in Redis" } else { "limits in memory" };
            Entry::each(name, move |_| memory_of(rules, is_stored, options))
        });
        Case::once(format!("rules: {rules}"), OF_MEMORY, subjects.into())
    });
    cases.into()
}

/// The CPU time of a scrape, and the longest decision with and without others.
pub fn scrapes(options: &'static Options) -> Vec<Case> {
    let subjects = vec![Entry::each(format!("{RULES} rules"), |_| scraped(options))];
    vec![Case::once("scrape", OF_SCRAPES, subjects)]
}

/// Starts a server with this number of rules, and asks each rule once.
fn memory_of(rules: u32, is_stored: bool, options: &Options) -> Result<Sample, String> {
    let tidegate = running::tidegate(options)?;
    let store = is_stored.then(RedisServer::start).transpose()?;
    let text = text_of(rules);
    let began = Instant::now();
    let server = Server::start(&tidegate, &text, &["--resp"], store.as_ref())?;
    let start_s = began.elapsed().as_secs_f64();
    thread::sleep(PAUSE);
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let loaded = mib(process::resident_bytes(server.pid())?);
    let mut connection = Connection::open(server.at("--resp")?)?;
    (0..rules).try_for_each(|rule| decide(&mut connection, rule))?;
    thread::sleep(PAUSE);
    let asked = mib(process::resident_bytes(server.pid())?);
    let most = mib(process::peak_bytes(server.pid())?);
    Ok(vec![("start_s", start_s), ("loaded", loaded), ("asked", asked), ("most", most)])
}

fn scraped(options: &Options) -> Result<Sample, String> {
    let tidegate = running::tidegate(options)?;
    let server = Server::start(&tidegate, &text_of(RULES), &["--admin", "--resp"], None)?;
    let admin = server.at("--admin")?;
    let mut connection = Connection::open(server.at("--resp")?)?;
    (0..RULES).try_for_each(|rule| decide(&mut connection, rule))?;

    let bytes = scrape(admin)?;
    let before = process::cpu(server.pid())?;
    let began = Instant::now();
    (0..SCRAPES).try_for_each(|_| scrape(admin).map(drop))?;
    let took = began.elapsed();
    let cpu = process::cpu(server.pid())?.saturating_sub(before) / SCRAPES;

    let (_, alone) = longest(&mut connection, || {
        thread::sleep(took);
        Ok(())
    })?;
    let (decisions, during) =
        longest(&mut connection, || (0..SCRAPES).try_for_each(|_| scrape(admin).map(drop)))?;
    Ok(vec![
        ("bytes", bytes as f64),
        ("cpu_ms", cpu.as_secs_f64() * 1e3),
        ("decisions", decisions.into()),
        ("us_alone", alone.as_secs_f64() * 1e6),
        ("us_during", during.as_secs_f64() * 1e6),
    ])
}

/// Decides one by one while another thread does something; returns how many, and the longest.
fn longest(
    connection: &mut Connection,
    other: impl FnOnce() -> Result<(), String> + Send,
) -> Result<(u32, Duration), String> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let done = scope.spawn(|| {
            let done = other();
            is_over.store(true, Relaxed);
            done
        });
        let (mut decisions, mut longest) = (0, Duration::ZERO);
        while !is_over.load(Relaxed) {
            let began = Instant::now();
            decide(connection, decisions % RULES)?;
            longest = longest.max(began.elapsed());
            decisions += 1;
        }
        let done = done.join().map_err(|_| "the other thread panicked".to_owned())?;
        done.map(|()| (decisions, longest))
    })
}

/// This number of rules, each for a tenant of its own; no limit is ever reached.
fn text_of(number: u32) -> String {
    let mut text = String::new();
    for rule in 0..number {
        let _ = write!(
            text,
            "[[rule]]\nname = \"tenant-{rule}\"\nwhen = {{ tenant = \"{rule}\" }}\nkey = [\"user\"]\n\
             algorithm = \"token_bucket\"\nrate = \"1000000/1s\"\n"
        );
    }
    text
}

fn decide(connection: &mut Connection, rule: u32) -> Result<(), String> {
    let tenant = rule.to_string();
    let words = ["TG.CHECK", "default", "tenant", &tenant, "user", "ada"].map(str::as_bytes);
    connection.ask(&words).map(drop)
}

/// Scrapes once; returns the bytes of the answer.
fn scrape(admin: SocketAddr) -> Result<usize, String> {
    let failed = |error: std::io::Error| format!("no scrape: {error}");
    let mut stream = TcpStream::connect(admin).map_err(failed)?;
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(failed)?;
    let is_whole = answer.starts_with(b"HTTP/1.1 200 ") && answer.ends_with(b"# EOF\n");
    is_whole.then_some(answer.len()).ok_or_else(|| "a scrape is not whole".to_owned())
}
