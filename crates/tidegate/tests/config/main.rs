//! Rules in TOML: what is right, what is wrong and what is told of it, and random files.
#![cfg(feature = "config")]

mod files;
mod pages;
mod random;
mod secrets;
