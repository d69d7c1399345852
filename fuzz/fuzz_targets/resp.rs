//! Bytes of Redis clients: every input is the same commands however it is cut, and each command is a question within
//! its bounds or a reported mistake.
#![no_main]
#![allow(dead_code, reason = "the server uses more of these files than a target does")]

#[path = "../../crates/tidegate-server/src/admits.rs"]
mod admits;
#[path = "../../crates/tidegate-server/src/limiters/life.rs"]
mod limiters;
#[path = "../../crates/tidegate-server/src/refusal.rs"]
mod refusal;
/// The files of the server that read commands, and what they stand on.
#[path = "../../crates/tidegate-server/src"]
mod server {
    pub(crate) mod resp {
        mod args;
        mod throttle_call;
        mod inline;
        pub(crate) mod invariants;
        mod bounds;
        mod parse;
        mod question;
    }
}

libfuzzer_sys::fuzz_target!(|sent: &[u8]| server::resp::invariants::judge(sent));
