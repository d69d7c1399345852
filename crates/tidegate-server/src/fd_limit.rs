//! File handles: as many as the system grants, and a share of them for the connections of each listener.
//! `cli/serve.rs` asks at the start: a process that runs out of handles can accept no operator either.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Handles that do not belong to clients' connections: listeners, the store, files.
const BESIDES: u64 = 64;
/// Handles that a runtime needs to wait for its connections, to be woken, and for its connection to the store.
const OF_A_RUNTIME: u64 = 6;
/// Connections reserved for operators if there are few handles.
const OF_OPERATORS: u64 = 8;

/// Raises the limit of this process to its maximum.
pub(crate) fn raise() {
    let had = getrlimit(Resource::Nofile);
    // If it is refused, the present limit stays.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: had.maximum, maximum: had.maximum });
}

/// The largest number of connections of each listener such that all together leave handles for the
/// rest of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// For each listener for clients.
    pub(crate) clients: u32,
    /// For the listener for operators.
    pub(crate) operators: u32,
}

impl Shares {
    /// The shares of `clients` listeners for clients, and of one for operators if `operators` is
    /// true; each has at most `most` connections.
    pub(crate) fn of(most: u32, clients: usize, operators: bool, runtimes: usize) -> Self {
        let besides = BESIDES + OF_A_RUNTIME * runtimes as u64;
        let has = getrlimit(Resource::Nofile).current;
        let shares =
            Self::divided(has.map(|has| has.saturating_sub(besides)), most, clients, operators);
        if shares.clients < most {
            tracing::info!(
                file_handles = has,
                connections = shares.clients,
                of_operators = shares.operators,
                "fewer file handles than connections: each listener takes a share, and more clients wait; raise \
                 the hard limit (ulimit -Hn, LimitNOFILE), or ask for fewer connections (--max-connections)"
            );
        }
        shares
    }

    /// The shares of a limit on handles; without a limit there are always enough. Every listener
    /// has at least one.
    fn divided(has: Option<u64>, most: u32, clients: usize, operators: bool) -> Self {
        let clients = clients.max(1) as u64;
        let each = u64::from(most);
        let Some(has) = has.filter(|has| *has < each * (clients + u64::from(operators))) else {
            return Self { clients: most, operators: most };
        };
        // A sixteenth, but enough for a few tools, and never more than clients have together.
        let reserve = (has / 16).max(OF_OPERATORS).min(has / 2).min(each);
        // Without their listener the share of operators belongs to the clients.
        let reserve = if operators { reserve } else { 0 };
        let [clients, operators] = [(has - reserve) / clients, reserve]
            .map(|handles| u32::try_from(handles).unwrap_or(most).clamp(1, most));
        Self { clients, operators }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_all_listeners_fit_and_operators_keep_some() {
        for (has, clients, operators, expected) in [
            (None, 3, true, (10_000, 10_000)),
            (Some(40_000), 3, true, (10_000, 10_000)),
            (Some(39_999), 3, true, (10_000, 2_499)),
            (Some(1_000), 3, true, (312, 62)),
            (Some(100), 3, true, (30, 8)),
            (Some(1_000), 2, false, (500, 1)),
            (Some(6), 3, true, (1, 3)),
            (Some(0), 3, true, (1, 1)),
        ] {
            let shares = Shares::divided(has, 10_000, clients, operators);
            assert_eq!((shares.clients, shares.operators), expected, "{has:?}");
        }
    }
}
