//! Makes the access log that the README replays: ten minutes at a small shop.
//!
//! `cargo run -p tidegate-lab --example make_example_log > crates/tidegate-lab/data/example-access.log`
//!
//! Nothing in it is real. The addresses are reserved for documentation, the numbers come from a generator with a fixed
//! seed, so every run makes the same bytes. In it are:
//!
//! * ordinary visitors who open a page every few seconds, some of them from IPv6 addresses;
//! * `203.0.113.66`, a scraper that takes forty pages within four seconds, once a minute;
//! * `198.51.100.23`, which guesses passwords, one every other second for six minutes;
//! * a flash sale in the sixth minute, which draws all callers;
//! * a few health checks, an old crawler, and a TLS handshake sent to the plain port.
//!
//! A server writes a line when the answer is out but with the time at which the request came, so
//! the lines are slightly out of order.

use std::fmt::Write;

const DAY: &str = "14/Mar/2025";
const MINUTES: u64 = 10;
const MINUTE_MS: u64 = 60_000;
const SALE_MS: u64 = 5 * MINUTE_MS;

const BROWSERS: [&str; 4] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:136.0) Firefox/136.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64) Chrome/134.0 Safari/537.36",
    "Mozilla/5.0 (Macintosh) Version/18.3 Safari/605.1.15",
    "Mozilla/5.0 (Linux; Android 15) Chrome/134.0 Mobile Safari/537.36",
];
const PAGES: [&str; 8] =
    ["/", "/shop", "/shop?page=2", "/cart", "/about", "/style.css", "/search?q=lamp", "/logo.svg"];

fn main() {
    print!("{}", example_log());
}

/// The whole log.
pub(crate) fn example_log() -> String {
    let mut log = Log { random: Random(0x7469_6465), lines: Vec::new() };
    log.visitors();
    log.scraper();
    log.password_guesser();
    log.flash_sale();
    log.oddities();
    log.into_text()
}

struct Log {
    random: Random,
    lines: Vec<Line>,
}

struct Line {
    /// When the answer was out, which decides the order of the lines.
    done_ms: u64,
    text: String,
}

struct Request<'a> {
    /// Since 10:00:00.
    at_ms: u64,
    ip: &'a str,
    request: &'a str,
    status: u16,
    size: u64,
    agent: &'a str,
}

impl Log {
    fn visitors(&mut self) {
        for number in 0..60 {
            let ip = visitor(number);
            let agent = self.random.pick(&BROWSERS);
            let mut at_ms = self.random.below((MINUTES - 2) * MINUTE_MS);
            for _ in 0..8 + self.random.below(14) {
                self.page(at_ms, &ip, agent);
                at_ms += 500 + self.random.below(11_000);
            }
        }
    }

    fn page(&mut self, at_ms: u64, ip: &str, agent: &str) {
        let page = match self.random.below(3) {
            0 => format!("/item/{}", 100 + self.random.below(400)),
            _ => self.random.pick(&PAGES).to_owned(),
        };
        let status = if self.random.below(25) == 0 { 404 } else { 200 };
        let size = 900 + self.random.below(30_000);
        let request = format!("GET {page} HTTP/1.1");
        self.add(Request { at_ms, ip, request: &request, status, size, agent });
    }

    fn scraper(&mut self) {
        for minute in 0..MINUTES {
            for item in 0..40 {
                let at_ms = minute * MINUTE_MS + 20_000 + item * 100 + self.random.below(60);
                let request = format!("GET /item/{} HTTP/1.1", 100 + minute * 40 + item);
                let size = 4_000 + self.random.below(2_000);
                let (ip, agent) = ("203.0.113.66", "python-requests/2.32");
                self.add(Request { at_ms, ip, request: &request, status: 200, size, agent });
            }
        }
    }

    fn password_guesser(&mut self) {
        for guess in 0..180 {
            let at_ms = 2 * MINUTE_MS + guess * 2_000 + self.random.below(700);
            let request = "POST /login HTTP/1.1";
            let (ip, agent) = ("198.51.100.23", "Go-http-client/1.1");
            self.add(Request { at_ms, ip, request, status: 401, size: 187, agent });
        }
    }

    fn flash_sale(&mut self) {
        for _ in 0..420 {
            // The smaller of two: most come early in the minute.
            let after_ms = self.random.below(MINUTE_MS).min(self.random.below(MINUTE_MS));
            let ip = visitor(self.random.below(160));
            let agent = self.random.pick(&BROWSERS);
            let request = match self.random.below(4) {
                0 => "POST /cart HTTP/1.1",
                _ => "GET /sale HTTP/1.1",
            };
            let status = if self.random.below(12) == 0 { 503 } else { 200 };
            let size = 2_000 + self.random.below(9_000);
            self.add(Request { at_ms: SALE_MS + after_ms, ip: &ip, request, status, size, agent });
        }
    }

    fn oddities(&mut self) {
        for check in 0..2 * MINUTES {
            let (ip, agent) = ("192.0.2.250", "health \"probe\"");
            let at_ms = check * MINUTE_MS / 2;
            let request = "HEAD /health HTTP/1.0";
            self.add(Request { at_ms, ip, request, status: 200, size: 0, agent });
        }
        let crawler = Request {
            at_ms: 95_000,
            ip: "192.0.2.177",
            request: "GET /robots.txt",
            status: 200,
            size: 64,
            agent: "crawler/0.9",
        };
        self.add(crawler);
        let handshake = Request {
            at_ms: 412_000,
            ip: "2001:db8:bad::1",
            request: r"\x16\x03\x01\x02\x00",
            status: 400,
            size: 226,
            agent: "-",
        };
        self.add(handshake);
    }

    fn add(&mut self, r: Request<'_>) {
        let (minute, second) = (r.at_ms / MINUTE_MS, r.at_ms / 1_000 % 60);
        let agent = r.agent.replace('"', "\\\"");
        let text = format!(
            "{} - - [{DAY}:10:{minute:02}:{second:02} +0000] \"{}\" {} {} \"-\" \"{agent}\"",
            r.ip, r.request, r.status, r.size
        );
        let slow_ms = if self.random.below(20) == 0 { 2_500 } else { 150 };
        let done_ms = r.at_ms + self.random.below(slow_ms);
        self.lines.push(Line { done_ms, text });
    }

    fn into_text(mut self) -> String {
        self.lines.sort_by_key(|line| line.done_ms);
        self.lines.iter().fold(String::new(), |mut text, line| {
            let _ = writeln!(text, "{}", line.text); // writing to a string cannot fail
            text
        })
    }
}

/// Every fifth visitor comes from an IPv6 network.
fn visitor(number: u64) -> String {
    match number % 5 {
        4 => format!("2001:db8:{:x}::{:x}", 0x10 + number / 5, 1 + number * 37 % 0xfff),
        0 | 1 => format!("192.0.2.{}", 1 + number),
        _ => format!("203.0.113.{}", 70 + number),
    }
}

/// Xorshift: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % end
    }

    fn pick(&mut self, from: &[&'static str]) -> &'static str {
        from[self.below(from.len() as u64) as usize]
    }
}
