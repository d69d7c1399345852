//! Traces of requests, and the decisions that a policy would have made over them: replay,
//! comparison and pictures.
//!
//! The engine that decides live requests decides a recorded trace ([`trace`], [`replay`]). The
//! results are counted for a person ([`report`]), compared across algorithms ([`compare`]) and
//! drawn ([`plot`]). The change from one policy to another is described in words ([`diff`]).

pub mod compare;
pub mod diff;
pub mod labels;
mod picture_file;
pub mod plot;
pub mod replay;
pub mod report;
pub mod space_saving;
pub mod trace;

pub use picture_file::{PictureError, PictureFile};
