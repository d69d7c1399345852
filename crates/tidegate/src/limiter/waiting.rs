//! Waiting for a limiter: the only one, that of a key, and that of a key under its plan.

mod keyed;
mod planned;
mod single;
