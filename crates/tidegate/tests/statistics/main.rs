//! Statistics: by example, under threads, and next to a naive model.

mod decided;
mod examples;
mod races;
mod walk;
