//! Statistics: by example, under threads, and beside a naive model.

mod examples;
mod races;
mod walk;
