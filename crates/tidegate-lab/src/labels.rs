//! The names of settings in a configuration, for output.
//!
//! Reports, differences and pages of the server show them.

use tidegate::{Anchor, Layout, Mode, OnFull, OnNoRule, OnStoreError, Usage};

/// The effect of a rule's decision.
#[must_use]
pub const fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "enforce",
        Mode::Shadow => "shadow",
        Mode::Off => "off",
    }
}

/// The treatment of a key without room.
#[must_use]
pub const fn on_full(on_full: OnFull) -> &'static str {
    match on_full {
        OnFull::Share => "share",
        OnFull::Refuse => "refuse",
    }
}

/// The decision on a request that no rule matches.
#[must_use]
pub const fn on_no_rule(on_no_rule: OnNoRule) -> &'static str {
    match on_no_rule {
        OnNoRule::Admit => "admit",
        OnNoRule::Refuse => "refuse",
    }
}

/// The source of a request's usage.
#[must_use]
pub const fn usage(usage: Usage) -> &'static str {
    match usage {
        Usage::Requested => "requested",
        Usage::Reported => "reported",
    }
}

/// The decision of a rule while a shared store is unavailable.
#[must_use]
pub const fn on_store_error(on_store_error: OnStoreError) -> &'static str {
    match on_store_error {
        OnStoreError::Open => "open",
        OnStoreError::Closed => "closed",
        OnStoreError::Local => "local",
    }
}

/// Where a fixed window begins.
#[must_use]
pub const fn anchor(anchor: Anchor) -> &'static str {
    match anchor {
        Anchor::Epoch => "epoch",
        Anchor::FirstRequest => "first_request",
    }
}

/// The form in which a store keeps a log.
#[must_use]
pub const fn layout(layout: Layout) -> &'static str {
    match layout {
        Layout::String => "string",
        Layout::SortedSet => "sorted_set",
    }
}
