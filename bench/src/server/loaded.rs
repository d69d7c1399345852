//! A program under a load: its rate, its latency, and its cost.

use super::generators::Load;
use super::running::Running;
use crate::harness::{Asked, Sample};
use crate::host::Stolen;
use crate::process;
use crate::table::{Column, median_of, ratio_of, spread_of};
use std::net::SocketAddr;
use std::time::Duration;

/// The columns of programs that are compared by their rates.
pub const BY_RATE: &[Column] = &columns(ratio_of("per_s", "rate, of the base"));
/// The columns of programs that are compared by their CPU time.
pub const BY_CPU: &[Column] = &columns(ratio_of("cpu_us", "CPU, of the base"));

const fn columns(ratio: Column) -> [Column; 8] {
    [
        median_of("per_s", "per second", 0),
        median_of("cpu_us", "CPU us", 2),
        spread_of("cpu_us", "CPU us, least to most", 2),
        median_of("p50_us", "p50 us", 0),
        median_of("p99_us", "p99 us", 0),
        median_of("stolen", "stolen, %", 1),
        median_of("bytes", "bytes", 0),
        ratio,
    ]
}

/// Asks the program at an address for so long.
pub type Ask = Box<dyn FnMut(SocketAddr, Duration) -> Result<Load, String>>;
/// Sees that the program at an address decides.
pub type Check = Box<dyn Fn(SocketAddr) -> Result<(), String>>;

/// A program, and its load.
pub struct Loaded {
    pub running: Running,
    pub ask: Ask,
    check: Check,
}

impl Loaded {
    /// Checked, then asked for a second to warm up.
    ///
    /// # Errors
    /// When it does not answer as it should.
    pub fn begin(running: Running, mut ask: Ask, check: Check) -> Result<Self, String> {
        check(running.at)?;
        ask(running.at, Duration::from_secs(1))?;
        Ok(Self { running, ask, check })
    }
}

impl Asked for Loaded {
    fn sample(&mut self, length: Duration) -> Result<Sample, String> {
        let cpu_before = process::cpu(self.running.pid)?;
        let stolen_before = Stolen::now()?;
        let Load { decisions, per_s, p50_us, p99_us } = (self.ask)(self.running.at, length)?;
        let cpu = process::cpu(self.running.pid)?.saturating_sub(cpu_before);
        Ok(vec![
            ("per_s", per_s),
            ("cpu_us", cpu.as_secs_f64() * 1e6 / decisions as f64),
            ("p50_us", p50_us),
            ("p99_us", p99_us),
            ("stolen", stolen_before.percent_since()?),
        ])
    }

    /// A program that refuses in the end has done less than it was asked, and generators do not see it.
    fn finish(&mut self) -> Result<Sample, String> {
        (self.check)(self.running.at)?;
        Ok(vec![("bytes", process::peak_bytes(self.running.pid)? as f64)])
    }
}
