//! Bodies of `POST /v1/check`: every input is a question, a batch, or a problem that names the mistake.
#![no_main]
#![allow(dead_code, reason = "the server uses more of these files than a target does")]

#[path = "../../crates/tidegate-server/src/admits.rs"]
mod admits;
#[path = "../../crates/tidegate-server/src/limiters/life.rs"]
mod limiters;
#[path = "../../crates/tidegate-server/src/refusal.rs"]
mod refusal;
/// The files of the server that read a body, and what they stand on.
#[path = "../../crates/tidegate-server/src"]
mod server {
    pub(crate) mod http {
        pub(crate) mod invariants;
        mod message {
            pub(crate) type HttpResponse = hyper::Response<http_body_util::Full<hyper::body::Bytes>>;
        }
        mod problem;
        mod question;
    }
}

libfuzzer_sys::fuzz_target!(|body: &[u8]| server::http::invariants::judge(body));
