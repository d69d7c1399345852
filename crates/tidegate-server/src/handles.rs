//! File handles: as many as the system grants, for every connection takes one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What is open besides the connections of clients: listeners, the store, files.
const BESIDES: u64 = 64;

/// Raises the limit of this process to the most it may have, and says so in the log where that is less
/// than `connections` take.
pub(crate) fn raise(connections: u64) {
    let had = getrlimit(Resource::Nofile);
    // Where it is refused, what there is must do.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: had.maximum, maximum: had.maximum });
    let has = getrlimit(Resource::Nofile).current;
    let needs = connections + BESIDES;
    if let Some(has) = too_few(has, needs) {
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
