//! `docs/migrate/nginx.md`: a real nginx and a limiter admit the same requests.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tidegate::{AlgorithmKind, KeyedLimiter, ManualClock, Spec};

/// An nginx of one worker, which ends with its value.
struct Nginx {
    process: Child,
    port: u16,
    _folder: TempDir,
}

impl Nginx {
    /// Starts one with this line of `limit_req`, at one request a minute for each address.
    fn with(limit_req: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let path = folder.path().join("nginx.conf");
        fs::write(&path, configuration(folder.path(), port, limit_req)).unwrap();
        let mut command = Command::new("nginx");
        command.arg("-p").arg(folder.path()).arg("-c").arg(&path).arg("-e").arg("stderr");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().expect("nginx, of the package nginx-light");
        let nginx = Self { process, port, _folder: folder };
        let patience = Instant::now() + Duration::from_secs(30);
        while nginx.connect().is_err() {
            assert!(Instant::now() < patience, "nginx does not listen");
            thread::sleep(Duration::from_millis(10));
        }
        nginx
    }

    fn connect(&self) -> std::io::Result<TcpStream> {
        TcpStream::connect(("127.0.0.1", self.port))
    }

    fn ask(&self) -> TcpStream {
        let mut stream = self.connect().unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        stream
    }

    /// The statuses of requests, one after the other.
    fn statuses(&self, requests: usize) -> Vec<u16> {
        (0..requests).map(|_| status(&mut self.ask())).collect()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn configuration(folder: &Path, port: u16, limit_req: &str) -> String {
    let folder = folder.display();
    format!(
        "daemon off; master_process off; pid {folder}/pid; error_log stderr;
events {{ worker_connections 100; }}
http {{
  access_log off;
  client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
  uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
  limit_req_zone $binary_remote_addr zone=one:1m rate=1r/m;
  server {{
    listen 127.0.0.1:{port};
    location / {{ {limit_req} try_files /nothing @hello; }}
    location @hello {{ return 204; }}
  }}
}}
"
    )
}

/// The status in the first line of an answer.
fn status(stream: &mut TcpStream) -> u16 {
    let mut line = [0; 12];
    stream.read_exact(&mut line).unwrap();
    std::str::from_utf8(&line[9..]).unwrap().parse().unwrap()
}

fn limiter(algorithm: AlgorithmKind, capacity: u64) -> KeyedLimiter<ManualClock> {
    let spec = Spec::per_minute(1).algorithm(algorithm).burst(capacity);
    KeyedLimiter::with_clock(spec, ManualClock::new()).unwrap()
}

fn admitted(statuses: &[u16]) -> usize {
    statuses.iter().filter(|status| **status == 204).count()
}

#[test]
fn without_a_burst_a_request_must_come_a_whole_interval_after_the_one_before() {
    let theirs = Nginx::with("limit_req zone=one;").statuses(4);
    assert_eq!(theirs, [204, 503, 503, 503]);
    let ours = limiter(AlgorithmKind::LeakyBucket, 1);
    assert_eq!([(); 4].map(|()| ours.admits("ip", 1)), [true, false, false, false]);
}

#[test]
fn a_burst_of_twenty_without_delay_is_a_capacity_of_twenty_one() {
    let theirs = Nginx::with("limit_req zone=one burst=20 nodelay; limit_req_status 429;");
    let theirs = theirs.statuses(25);
    assert_eq!(theirs[24], 429);
    let ours = limiter(AlgorithmKind::LeakyBucket, 21);
    let ours: Vec<bool> = (0..25).map(|_| ours.admits("ip", 1)).collect();
    assert_eq!(ours.iter().filter(|admitted| **admitted).count(), admitted(&theirs));
    assert_eq!(ours[20..], theirs[20..].iter().map(|status| *status == 204).collect::<Vec<_>>());
}

#[test]
fn a_burst_that_is_delayed_is_a_queue_of_the_same_capacity() {
    let nginx = Nginx::with("limit_req zone=one burst=3;");
    let mut asked: Vec<TcpStream> = (0..7).map(|_| nginx.ask()).collect();
    let mut answered = Vec::new();
    let patience = Instant::now() + Duration::from_secs(30);
    // One leaves at once and three are refused; three wait for minutes.
    while answered.len() < 4 && Instant::now() < patience {
        asked.retain_mut(|stream| {
            stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
            match stream.peek(&mut [0]) {
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    true
                }
                _ => {
                    answered.push(status(stream));
                    false
                }
            }
        });
    }
    answered.sort_unstable();
    assert_eq!((answered, asked.len()), (vec![204, 503, 503, 503], 3));
    let queue = limiter(AlgorithmKind::LeakyQueue, 3);
    let delays = [(); 7].map(|()| {
        let decision = queue.check("ip", 1);
        decision.is_allowed().then(|| decision.delay().as_secs())
    });
    assert_eq!(delays, [Some(0), Some(60), Some(120), Some(180), None, None, None]);
}

#[test]
fn a_dry_run_refuses_nobody() {
    let theirs = Nginx::with("limit_req zone=one; limit_req_dry_run on;").statuses(4);
    assert_eq!(theirs, [204; 4]);
}
