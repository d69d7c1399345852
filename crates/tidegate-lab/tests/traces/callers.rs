//! Callers of a replay and of the layer: the same lines and requests make the same callers.

#![allow(clippy::unwrap_used)] // helpers of tests stop the test

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};

use http::request::Parts;
use tidegate::ClientAddress;
use tidegate::tower::{ClientIp, Extract, PeerAddr};
use tidegate_lab::trace::{self, Options, Source};

use crate::events::all;

/// The values of `ip` of lines with these clients, and this field of proxies.
fn replayed(clients: &[String], field: &str, options: Options<'_>) -> Vec<String> {
    let line = |client: &String| {
        format!(
            "{client} - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"-\" \"{field}\"\n"
        )
    };
    let log: String = clients.iter().map(line).collect();
    let sorted = trace::read(Source::from_reader("log", io::Cursor::new(log)), options).unwrap();
    assert_eq!(sorted.bad_lines().count, 0);
    all(sorted).unwrap().into_iter().map(|event| event.descriptor[0].1.clone()).collect()
}

/// The value of `ip` of a request from this peer, with this field of proxies.
fn layered(peer: &str, field: &str, extractor: &ClientIp) -> String {
    let request = http::Request::get("/").header("x-forwarded-for", field);
    let (mut parts, ()): (Parts, ()) = request.body(()).unwrap().into_parts();
    let socket = peer.parse().unwrap_or_else(|_| {
        let ip: IpAddr = peer.trim_matches(['[', ']']).parse().unwrap();
        SocketAddr::new(ip, 4711)
    });
    parts.extensions.insert(PeerAddr(socket));
    extractor.extract(&parts).unwrap()
}

fn peers() -> Vec<String> {
    (0..10)
        .flat_map(|i| {
            [
                format!("2001:db8:1:2::{i:x}"),
                format!("2001:DB8:1:2:{i}:0:0:1"),
                format!("[2001:db8:1:2:ffff::{i}]:4711"),
                format!("2001:0db8:0001:0002:0000:0000:aaaa:{i:04x}"),
            ]
        })
        .collect()
}

#[test]
fn forty_addresses_of_one_network_are_one_caller_in_replay_and_in_the_layer() {
    let peers = peers();
    assert_eq!(peers.iter().collect::<BTreeSet<_>>().len(), 40);
    let replayed = replayed(&peers, "-", Options::new());
    let layered: Vec<_> = peers.iter().map(|peer| layered(peer, "-", &ClientIp::peer())).collect();
    assert_eq!(replayed, layered);
    assert_eq!(BTreeSet::from_iter(replayed), BTreeSet::from(["2001:db8:1:2::/64".to_owned()]));
}

#[test]
fn clients_are_found_as_the_layer_finds_them() {
    let networks = ["10.0.0.0/8", "fd00::/8"];
    let peers = ["192.0.2.1", "[::ffff:192.0.2.1]:80", "10.0.0.1", "10.0.0.1:80", "fd00::1"];
    let peers = peers.map(str::to_owned);
    for field in [
        "192.0.2.9",
        "6.6.6.6, 2001:db8::9, 10.0.0.2",
        "unknown",
        "192.0.2.9, garbage",
        "-",
        "[2001:db8::9]:80",
        "::ffff:192.0.2.9",
        "10.0.0.3, 10.0.0.2",
        "",
        " , ",
    ] {
        for bits in [0, 48, 64, 128] {
            let address = ClientAddress::x_forwarded_for(networks).unwrap().ipv6_bits(bits);
            let extractor = ClientIp::x_forwarded_for(networks).unwrap().ipv6_bits(bits);
            let layered: Vec<_> =
                peers.iter().map(|peer| layered(peer, field, &extractor)).collect();
            let replayed = replayed(&peers, field, Options::new().client(address));
            assert_eq!(replayed, layered, "{field} /{bits}");
        }
    }
}
