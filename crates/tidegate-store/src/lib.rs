//! A part of the crate `tidegate`: the steps of a store of limiters, their replies, and the contract of a store. Depend on
//! `tidegate`, which exports what a program needs of it. The API of this crate carries no promise: it may change in any
//! version.
//!
//! A store decides about limiters. It knows no layer over it, and no gate.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "shared")]
pub mod contract;
pub mod counters;
pub mod step;

#[cfg(feature = "shared")]
use tidegate_rules::{clock, request};
use tidegate_rules::{inline_list, key, rules};
