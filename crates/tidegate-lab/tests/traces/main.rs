//! Traces: formats, cuts, the example log, random input.

mod cut;
mod example;
mod formats;
mod random;
