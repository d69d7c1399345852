//! The standards that every store of Tidegate is tested against: naive models, case tables, seeded
//! traffic.
//!
//! - [`admissions`] finds the largest number of units that a history admits within an interval.
//! - [`model`] decides from the definitions, with the full history and exact arithmetic. It is slow
//!   on purpose and shares no code with the stores.
//! - [`cases`] reads the text tables in each algorithm's folder.
//! - [`store`] starts Redis servers.
//! - [`threads`] runs work on threads that start together.
//! - [`traffic`] makes random rules and traces; the same seed makes the same traffic for ever.
//!
//! ```
//! use testkit::model::{AlgorithmKind, Model, Policy};
//!
//! let mut model = Model::new(Policy::new(AlgorithmKind::SlidingLog, 2, 1_000_000));
//! assert!(model.step(100_000, 1).allowed);
//! assert!(model.step(400_000, 1).allowed);
//! assert_eq!(model.step(500_000, 1).retry_after_us, Some(600_000));
//! ```

pub mod admissions;
pub mod cases;
pub mod model;
pub mod store;
pub mod threads;
pub mod traffic;
