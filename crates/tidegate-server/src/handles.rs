//! File handles: as many as the system grants, for every connection takes one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What is open besides the connections of clients: listeners, the store, files.
const BESIDES: u64 = 64;
/// What a runtime takes to wait for its connections, and to be woken.
const OF_A_RUNTIME: u64 = 4;

/// Raises the limit of this process to the most it may have.
pub(crate) fn raise() {
    let had = getrlimit(Resource::Nofile);
    // Where it is refused, what there is must do.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: had.maximum, maximum: had.maximum });
}

/// Says so in the log where there are fewer than these connections and runtimes take.
pub(crate) fn warn_if_too_few(connections: u64, runtimes: usize) {
    let needs = connections + BESIDES + OF_A_RUNTIME * runtimes as u64;
    if let Some(has) = too_few(getrlimit(Resource::Nofile).current, needs) {
        tracing::warn!(
            file_handles = has,
            needs,
            "fewer file handles than the doors take connections: beyond them clients wait; raise the hard \
             limit (ulimit -Hn, LimitNOFILE), or take fewer connections (--max-connections)"
        );
    }
}

/// How many there are, where they are too few; without a limit they never are.
fn too_few(has: Option<u64>, needs: u64) -> Option<u64> {
    has.filter(|has| *has < needs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_too_few_below_what_is_needed() {
        assert_eq!(too_few(Some(7), 8), Some(7));
        assert_eq!((too_few(Some(8), 8), too_few(None, 8)), (None, None));
    }
}
