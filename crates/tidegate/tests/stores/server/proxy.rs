//! A proxy in front of a server that is slow, or loses what it carries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The proxy's treatment of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// All data passes immediately.
    Open,
    /// Replies pass after this delay.
    Slow(Duration),
    /// Commands arrive and run; replies are lost.
    Lossy,
    /// Connections end, and new connections fail.
    Cut,
    /// The first digit of `redis_version` is replaced by 0.
    Aged,
    /// Replies of a server that is [no longer named](Proxy::name) wait until the proxy is turned.
    Held,
    /// Replies of such a server pass, and its connections end with the next command.
    Ends,
    /// All replies wait until the proxy is turned.
    HoldsAll,
    /// The next reply to a script is lost, with its connection. Then all data passes.
    LosesOne,
}

/// A listener on a port of its own, in front of a server; ends with the test.
pub struct Proxy {
    pub port: u16,
    server: watch::Sender<u16>,
    traffic: Arc<Traffic>,
    listening: JoinHandle<()>,
}

/// The treatment of data, and the scripts that passed.
struct Traffic {
    way: watch::Sender<Way>,
    /// The scripts over limiters that were sent to the server.
    scripts: AtomicUsize,
    /// Commands wait once so many scripts were sent.
    most: watch::Sender<usize>,
}

impl Proxy {
    pub async fn before(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (way, most) = (watch::Sender::new(Way::Open), watch::Sender::new(usize::MAX));
        let traffic = Arc::new(Traffic { way, scripts: AtomicUsize::new(0), most });
        let server = watch::Sender::new(server);
        let named = server.subscribe();
        let own = Arc::clone(&traffic);
        let listening = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *own.way.borrow() != Way::Cut {
                    tokio::spawn(carry(client, named.clone(), Arc::clone(&own)));
                }
            }
        });
        Self { port, server, traffic, listening }
    }

    /// Names another server, to which connections go from now on.
    pub fn name(&self, server: u16) {
        self.server.send_replace(server);
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Changes the treatment from now on. Connections that lost data, or may lose some, end.
    pub fn turn(&self, way: Way) {
        self.traffic.way.send_replace(way);
    }

    /// The number of scripts that were sent to the server.
    pub fn scripts(&self) -> usize {
        self.traffic.scripts.load(SeqCst)
    }

    /// Lets commands pass until so many scripts were sent.
    pub fn stop_at(&self, most: usize) {
        self.traffic.most.send_replace(most);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// Carries both directions of one connection, until it ends or must.
async fn carry(client: TcpStream, named: watch::Receiver<u16>, traffic: Arc<Traffic>) {
    let port = *named.borrow();
    let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (asked, answers) = client.into_split();
    let (answered, asks) = server.into_split();
    let is_old = || *named.borrow() != port;
    // True if the last commands ran scripts over limiters.
    let is_script = AtomicBool::new(false);
    let mut turns = traffic.way.subscribe();
    let ends = async {
        let mut was = *turns.borrow_and_update();
        while turns.changed().await.is_ok() {
            let is = *turns.borrow_and_update();
            if is == Way::Cut || was == Way::Lossy {
                return;
            }
            was = is;
        }
    };
    tokio::select! {
        _ = forth(asked, asks, &traffic, &is_script, is_old) => {}
        _ = back(answered, answers, &traffic.way, &is_script, is_old) => {}
        () = ends => {}
    }
}

async fn forth(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    traffic: &Traffic,
    is_script: &AtomicBool,
    is_old: impl Fn() -> bool,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 || *traffic.way.borrow() == Way::Ends && is_old() {
            return Ok(());
        }
        // The checks of the store are scripts too, without a key or over a key of their own.
        let text = String::from_utf8_lossy(&buffer[..read]);
        let of_limiters = |one: &&str| one.contains("tidegate:") && !one.contains("tidegate:?");
        // A script may arrive together with the next command.
        let scripts = text.split("\r\n*").filter(|one| one.contains("EVAL"));
        let scripts = scripts.filter(of_limiters).count();
        is_script.store(scripts > 0, SeqCst);
        let may_pass = |most: &usize| traffic.scripts.load(SeqCst) < *most;
        let _ = traffic.most.subscribe().wait_for(may_pass).await;
        to.write_all(&buffer[..read]).await?;
        traffic.scripts.fetch_add(scripts, SeqCst);
    }
}

async fn back(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    way: &watch::Sender<Way>,
    is_script: &AtomicBool,
    is_old: impl Fn() -> bool,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        let bytes = &mut buffer[..read];
        let now = *way.borrow();
        match now {
            Way::Slow(by) => tokio::time::sleep(by).await,
            Way::Lossy => continue,
            Way::Aged => age(bytes),
            Way::LosesOne if is_script.load(SeqCst) => {
                way.send_replace(Way::Open);
                return Ok(());
            }
            Way::Held if is_old() => drop(way.subscribe().wait_for(|way| *way != now).await),
            Way::HoldsAll => drop(way.subscribe().wait_for(|way| *way != now).await),
            Way::Open | Way::Cut | Way::Held | Way::Ends | Way::LosesOne => {}
        }
        to.write_all(bytes).await?;
    }
}

fn age(bytes: &mut [u8]) {
    let field = b"redis_version:";
    if let Some(begins) = bytes.windows(field.len()).position(|window| window == field)
        && let Some(digit) = bytes.get_mut(begins + field.len())
    {
        *digit = b'0';
    }
}
