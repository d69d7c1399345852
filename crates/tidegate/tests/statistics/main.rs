//! Statistics: by example, under threads, and beside a naive model.

mod decided;
mod examples;
mod races;
mod walk;
