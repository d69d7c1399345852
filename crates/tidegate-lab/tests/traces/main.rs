//! Traces: formats, cuts, the example log, random input.

mod cut;
mod events;
mod example;
mod formats;
mod random;
