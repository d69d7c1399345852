//! Traces: formats, cuts, the example log, random input.

mod bytes;
mod callers;
mod cut;
mod events;
mod example;
mod formats;
mod page;
mod random;
mod recorded;
