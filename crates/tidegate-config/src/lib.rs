//! A part of the crate `tidegate`: its module `config`, rules from TOML. Depend on `tidegate`, which describes and exports
//! it. The API of this crate by itself carries no promise: it may change in any version.
//!
//! A file becomes a [`Policy`](tidegate_rules::rules::Policy), or a list of every error in it with its position.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod accept;
mod diagnostic;
mod document;
mod excess;
mod hints;
mod kind;
mod lease;
mod limits;
mod load;
mod on_no_rule;
mod parse;
mod parts;
mod positions;
mod rule;
mod secret_fields;
mod section;
mod size;
mod source;
mod store;
mod syntax;
mod table;
mod value;
mod vocabulary;

pub use diagnostic::{ConfigError, ConfigErrors};
#[doc(hidden)]
pub use hints::nearest_word;
#[doc(hidden)]
pub use kind::{FieldKinds, ValueKind};
pub use load::{load, load_with, read_text};
pub use parse::{parse, parse_with};
pub use section::{Section, SectionKind, SectionValues};
pub use size::parse_size;
pub use tidegate_core::ValueError;
#[doc(hidden)]
pub use tidegate_core::text::{HIDDEN, shown, without_credentials};
pub use tidegate_core::text::{parse_duration, parse_rate};

/// The fields and sections of a file, without a section of the program, and the kind of value that each expects.
#[doc(hidden)]
#[must_use]
pub fn kinds() -> FieldKinds {
    document::kinds()
}
