//! Errors of a server that did not run a script, and the node to send it to instead.

use redis::{ServerError, ServerErrorKind};

use super::flush::Sent;
use super::slots::node_of;
use crate::link::NodeAddress;

/// Why a server did not run a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// The server does not have a script of this digest.
    NoScript,
    /// The slot lives on another node.
    Moved { slot: u16, node: NodeAddress },
    /// The slot is moving to another node, and the key is there already.
    Ask(NodeAddress),
    /// Only some of the keys are on another node already; or the node became a replica.
    Soon,
}

/// A call to be sent to another node.
pub(super) struct Redirected {
    pub(super) call: Sent,
    pub(super) redirect: Redirect,
}

impl Redirect {
    /// The redirection that an error of the node `by` asks for, if any. Only nodes of a cluster
    /// redirect.
    pub(super) fn of(error: &ServerError, by: Option<&NodeAddress>) -> Option<Self> {
        match (error.kind()?, by) {
            (ServerErrorKind::NoScript, _) => Some(Self::NoScript),
            (ServerErrorKind::Moved, Some(by)) => {
                named(error, by).map(|(slot, node)| Self::Moved { slot, node })
            }
            (ServerErrorKind::Ask, Some(by)) => named(error, by).map(|(_, node)| Self::Ask(node)),
            (ServerErrorKind::TryAgain | ServerErrorKind::ReadOnly, Some(_)) => Some(Self::Soon),
            _ => None,
        }
    }
}

/// The slot and the node in an error.
fn named(error: &ServerError, by: &NodeAddress) -> Option<(u16, NodeAddress)> {
    let (slot, node) = error.details()?.split_once(' ')?;
    Some((slot.parse().ok()?, node_of(node, by)?))
}
