//! A part of the crate `tidegate`: requests, the rules that match them, keys, and clocks. Depend on `tidegate`, which
//! exports what a program needs of it. The API of this crate carries no promise: it may change in any version.
//!
//! A rule is as it is written, checked and found here; no store and no gate is known.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod clock;
pub mod inline_list;
pub mod key;
pub mod printable;
pub mod request;
pub mod rules;
pub mod secret_file;
pub mod settings;
#[cfg(feature = "shared")]
pub mod shared;
