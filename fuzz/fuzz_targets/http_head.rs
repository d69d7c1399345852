//! The first bytes of a connection: a request that is answered without looking further is a check, and has its
//! announced length.
#![no_main]
#![allow(dead_code, reason = "the server uses more of these files than a target does")]

/// The files of the server that look at a head, and what they stand on.
#[path = "../../crates/tidegate-server/src"]
mod server {
    pub(crate) mod http {
        mod media_type;

        pub(crate) mod fast_path {
            mod head;
            pub(crate) mod invariants;
        }
    }

    pub(crate) mod listener {
        mod secret;

        pub(crate) use secret::{ListenerSecret, bearer};
    }
}

/// A server whose tokens grant no verbs: nothing of a head says which are wanted.
mod verbs {
    use subtle::{Choice, ConditionallySelectable};

    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct PublicVerbs;

    impl PublicVerbs {
        pub(crate) fn parse(_: &str) -> Result<Self, String> {
            Ok(Self)
        }

        pub(crate) const fn and(self, _: Self) -> Self {
            self
        }
    }

    impl ConditionallySelectable for PublicVerbs {
        fn conditional_select(one: &Self, _: &Self, _: Choice) -> Self {
            *one
        }
    }
}

/// The server's files name each other from the root of its crate.
use server::{http, listener};

/// A server that sends no spans, so that the field of a trace is like any other.
mod otlp {
    pub(crate) const TRACEPARENT: &str = "traceparent";

    pub(crate) const fn is_on() -> bool {
        false
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    server::http::fast_path::invariants::judge(bytes);
});
