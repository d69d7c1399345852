//! Bodies of `POST /v1/check`: whatever comes is a question, a batch, or a problem that says what is wrong.
#![no_main]
#![allow(dead_code, reason = "the server uses more of these files than a target does")]

/// The files of the server that read a body, and what they stand on.
mod http {
    pub(crate) type Response = hyper::Response<http_body_util::Full<hyper::body::Bytes>>;

    #[path = "../../../crates/tidegate-server/src/http/judged.rs"]
    pub(crate) mod judged;
    #[path = "../../../crates/tidegate-server/src/http/problem.rs"]
    mod problem;
    #[path = "../../../crates/tidegate-server/src/http/question.rs"]
    mod question;
}

libfuzzer_sys::fuzz_target!(|body: &[u8]| http::judged::judge(body));
