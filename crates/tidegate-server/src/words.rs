//! Words of a configuration, where what was read from it is told again.

use tidegate::{Anchor, Mode};

/// The mode of a rule.
pub(crate) const fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "enforce",
        Mode::Shadow => "shadow",
        Mode::Off => "off",
    }
}

/// Where a fixed window begins.
pub(crate) const fn anchor(anchor: Anchor) -> &'static str {
    match anchor {
        Anchor::Epoch => "epoch",
        Anchor::FirstRequest => "first_request",
    }
}
