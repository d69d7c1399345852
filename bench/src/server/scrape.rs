//! The command `scrape`: the CPU time that a scrape of the metrics takes with many rules, and the longest decision
//! while others scrape.

use super::running::{self, folder_with};
use crate::process;
use crate::programs::{self, Program};
use crate::report;
use crate::resp::Connection;
use clap::Args;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

const HEADINGS: [&str; 6] = [
    "rules",
    "bytes",
    "CPU of a scrape, ms",
    "decisions",
    "longest alone, us",
    "longest during scrapes, us",
];

/// The options of this command.
#[derive(Args)]
pub struct Scrape {
    /// The number of rules; each has decided.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rules: u32,
    /// Scrapes, one after the other.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    scrapes: u32,
    /// The server's program, in place of one that is built from these sources.
    #[arg(long, value_name = "FILE")]
    tidegate: Option<PathBuf>,
}

impl Scrape {
    /// Measures and prints.
    ///
    /// # Errors
    /// When the server is missing, or does not answer as it should.
    pub fn run(&self) -> Result<(), String> {
        let folder = folder_with("rules.toml", rules(self.rules))?;
        let (admin, resp) = (programs::free_address()?, programs::free_address()?);
        let config = folder.path().join("rules.toml").to_string_lossy().into_owned();
        let (at_admin, at_resp) = (admin.to_string(), resp.to_string());
        let listeners =
            ["--admin", &at_admin, "--resp", &at_resp, "--http", "off", "--grpc", "off"];
        let arguments = ["serve", "--config", &config].into_iter().chain(listeners);
        let tidegate = running::tidegate(self.tidegate.as_deref())?;
        let server = Program::start(tidegate, arguments)?.listening(admin)?;
        let mut connection = Connection::open(resp)?;
        for rule in 0..self.rules {
            decide(&mut connection, rule)?;
        }

        let bytes = scrape(admin)?;
        let before = process::cpu(server.pid())?;
        let began = Instant::now();
        (0..self.scrapes).try_for_each(|_| scrape(admin).map(drop))?;
        let took = began.elapsed();
        let cpu = process::cpu(server.pid())?.saturating_sub(before) / self.scrapes;

        let (_, alone) = self.longest(&mut connection, |_| {
            thread::sleep(took);
            Ok(())
        })?;
        let (decisions, beside) = self.longest(&mut connection, |scrapes| {
            (0..scrapes).try_for_each(|_| scrape(admin).map(drop))
        })?;
        let row = [
            self.rules.to_string(),
            bytes.to_string(),
            format!("{:.2}", cpu.as_secs_f64() * 1e3),
            decisions.to_string(),
            alone.as_micros().to_string(),
            beside.as_micros().to_string(),
        ];
        println!("\n{}", report::ruled(HEADINGS.map(str::to_owned).to_vec(), [row.to_vec()]));
        Ok(())
    }

    /// Decides one by one while another thread does something; returns how many, and the longest.
    fn longest(
        &self,
        connection: &mut Connection,
        other: impl FnOnce(u32) -> Result<(), String> + Send,
    ) -> Result<(u32, Duration), String> {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let done = scope.spawn(|| {
                let done = other(self.scrapes);
                is_over.store(true, Relaxed);
                done
            });
            let (mut decisions, mut longest) = (0, Duration::ZERO);
            while !is_over.load(Relaxed) {
                let began = Instant::now();
                decide(connection, decisions % self.rules)?;
                longest = longest.max(began.elapsed());
                decisions += 1;
            }
            let done = done.join().map_err(|_| "the other thread panicked".to_owned())?;
            done.map(|()| (decisions, longest))
        })
    }
}

/// This number of rules, each for a tenant of its own; no limit is ever reached.
pub(super) fn rules(number: u32) -> String {
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

pub(super) fn decide(connection: &mut Connection, rule: u32) -> Result<(), String> {
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
