//! Values and errors of a gate over a shared store: how its settings and rules fit together.

mod gate_error;
mod share;
mod store_error;

pub use gate_error::SharedGateError;
pub use share::{Share, is_local};
pub use store_error::{StoreError, is_of_server};
