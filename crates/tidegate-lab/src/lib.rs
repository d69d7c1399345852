//! What a policy would have done: traces, replay, comparison and pictures.
//!
//! A recorded trace ([`trace`]) is decided by the same engine that decides live requests
//! ([`replay`]), counted for a person ([`report`]), compared across algorithms ([`compare`]) and
//! drawn ([`plot`]).

pub mod compare;
mod picture_file;
pub mod plot;
pub mod replay;
pub mod report;
pub mod trace;

pub use picture_file::{PictureError, PictureFile};
