//! Words of a configuration, where what was read from it is told again.

use tidegate::{Anchor, Layout, Mode, OnFull, OnStoreError, Usage};

/// The mode of a rule.
pub(crate) const fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "enforce",
        Mode::Shadow => "shadow",
        Mode::Off => "off",
    }
}

/// What becomes of a key for which there is no room.
pub(crate) const fn on_full(on_full: OnFull) -> &'static str {
    match on_full {
        OnFull::Share => "share",
        OnFull::Refuse => "refuse",
    }
}

/// How a rule learns what a request uses.
pub(crate) const fn usage(usage: Usage) -> &'static str {
    match usage {
        Usage::Requested => "requested",
        Usage::Reported => "reported",
    }
}

/// What a rule does while a shared store is away.
pub(crate) const fn on_store_error(on_store_error: OnStoreError) -> &'static str {
    match on_store_error {
        OnStoreError::Open => "open",
        OnStoreError::Closed => "closed",
        OnStoreError::Local => "local",
    }
}

/// Where a fixed window begins.
pub(crate) const fn anchor(anchor: Anchor) -> &'static str {
    match anchor {
        Anchor::Epoch => "epoch",
        Anchor::FirstRequest => "first_request",
    }
}

/// How a store keeps a log.
pub(crate) const fn layout(layout: Layout) -> &'static str {
    match layout {
        Layout::String => "string",
        Layout::SortedSet => "sorted_set",
    }
}
