//! Messages of Envoy's rate limit service: every input is a question about just these descriptors, or a status that
//! names the mistake.
#![no_main]
#![allow(dead_code, reason = "the server uses more of these files than a target does")]

#[path = "../../crates/tidegate-server/src/admits.rs"]
mod admits;
#[path = "../../crates/tidegate-server/src/refusal.rs"]
mod refusal;
/// The files of the server that read a message.
#[path = "../../crates/tidegate-server/src"]
mod server {
    pub(crate) mod grpc {
        pub(crate) mod invariants;
        pub(crate) mod messages;
        mod own_limits;
        mod question;
        mod unit;
    }
}

libfuzzer_sys::fuzz_target!(|sent: &[u8]| server::grpc::invariants::judge(sent));
