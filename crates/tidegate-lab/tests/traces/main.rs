//! Traces: formats, cuts, the example log, random input.

mod callers;
mod cut;
mod events;
mod example;
mod formats;
mod page;
mod random;
