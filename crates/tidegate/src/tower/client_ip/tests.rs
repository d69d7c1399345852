//! Tests of trusted addresses, and of the forms in which they are written.

use std::net::SocketAddr;

use http::request::Parts;
use proptest::prelude::*;

use super::{ClientIp, Extract};
use crate::tower::PeerAddr;

fn ask(peer: &str, fields: &[(&str, &str)]) -> Parts {
    let request =
        fields.iter().fold(http::Request::get("/"), |b, (name, value)| b.header(*name, *value));
    let (mut parts, ()) = request.body(()).unwrap().into_parts();
    parts.extensions.insert(PeerAddr(peer.parse::<SocketAddr>().unwrap()));
    parts
}

fn extracted(extractor: &ClientIp, parts: &Parts) -> String {
    extractor.extract(parts).unwrap()
}

fn behind() -> ClientIp {
    ClientIp::x_forwarded_for(["10.0.0.0/8", "fd00::/8"]).unwrap()
}

#[test]
fn x_forwarded_for_is_not_believed_from_anyone() {
    let parts = ask("192.0.2.1:9", &[("x-forwarded-for", "1.1.1.1"), ("forwarded", "for=1.1.1.1")]);
    for extractor in [ClientIp::peer(), behind(), ClientIp::forwarded(["10.0.0.0/8"]).unwrap()] {
        assert_eq!(extracted(&extractor, &parts), "192.0.2.1");
    }
}

#[test]
fn a_field_that_the_proxies_do_not_write_is_never_believed() {
    let parts = ask("10.0.0.1:9", &[("forwarded", "for=1.1.1.1"), ("x-real-ip", "1.1.1.1")]);
    assert_eq!(extracted(&behind(), &parts), "10.0.0.1");
}

#[test]
fn the_caller_is_the_last_that_is_no_proxy() {
    let cases = [
        ("192.0.2.1", "192.0.2.1"),
        ("1.1.1.1, 192.0.2.1", "192.0.2.1"),
        ("1.1.1.1, 192.0.2.1, 10.0.0.2, fd00::1", "192.0.2.1"),
        ("10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("192.0.2.1, unknown, 10.0.0.2", "10.0.0.2"),
        ("192.0.2.1, garbage", "10.0.0.1"),
        ("192.0.2.1:80, [::ffff:10.0.0.9]:1", "192.0.2.1"),
    ];
    for (field, expected) in cases {
        let parts = ask("10.0.0.1:9", &[("x-forwarded-for", field)]);
        assert_eq!(extracted(&behind(), &parts), expected, "{field}");
    }
    let forwarded = ClientIp::forwarded(["10.0.0.0/8"]).unwrap();
    let parts = ask("10.0.0.1:9", &[("forwarded", "for=1.1.1.1, for=\"192.0.2.1:5\";by=10.0.0.1")]);
    assert_eq!(extracted(&forwarded, &parts), "192.0.2.1");
}

#[test]
fn a_mapped_peer_is_the_ipv4_proxy_it_is() {
    let parts = ask("[::ffff:10.0.0.1]:9", &[("x-forwarded-for", "192.0.2.1")]);
    assert_eq!(extracted(&behind(), &parts), "192.0.2.1");
}

#[test]
fn ipv6_per_address_is_no_limit_so_it_is_by_network() {
    let of = |peer: &str, extractor: ClientIp| extracted(&extractor, &ask(peer, &[]));
    let one = of("[2001:db8:1:2:3::4]:9", ClientIp::peer());
    assert_eq!(one, "2001:db8:1:2::/64");
    assert_eq!(of("[2001:db8:1:2:ffff::1]:9", ClientIp::peer()), one);
    assert_ne!(of("[2001:db8:1:3::4]:9", ClientIp::peer()), one);
    assert_eq!(of("[2001:db8:1:2::4]:9", ClientIp::peer().ipv6_bits(48)), "2001:db8:1::/48");
    assert_eq!(of("[2001:db8::4]:9", ClientIp::peer().ipv6_bits(200)), "2001:db8::4/128");
    assert_eq!(of("[2001:db8::4]:9", ClientIp::peer().ipv6_bits(0)), "::/0");
}

#[test]
fn v4_mapped_ipv6_does_not_put_every_ipv4_caller_in_one_bucket() {
    let of = |peer: &str| extracted(&ClientIp::peer().ipv6_bits(56), &ask(peer, &[]));
    assert_eq!(of("[::ffff:192.0.2.1]:9"), "192.0.2.1");
    assert_ne!(of("[::ffff:192.0.2.1]:9"), of("[::ffff:192.0.2.2]:9"));
    assert_eq!(of("[::192.0.2.1]:9"), "::/56", "an address of IPv6");
}

#[test]
fn a_caller_without_an_address_has_no_value() {
    let mut parts = ask("10.0.0.1:9", &[("x-forwarded-for", "192.0.2.1")]);
    parts.extensions.clear();
    assert_eq!(behind().extract(&parts), None);
    assert_eq!(extracted(&behind().trust_unknown_peer(), &parts), "192.0.2.1");
}

proptest! {
    #[test]
    fn no_header_of_a_stranger_changes_who_it_is(field in "\\PC*", lines in 1_usize..4) {
        let fields = [("x-forwarded-for", field.as_str()), ("forwarded", field.as_str())].repeat(lines);
        prop_assume!(http::HeaderValue::from_str(&field).is_ok());
        let parts = ask("192.0.2.1:9", &fields);
        prop_assert_eq!(extracted(&behind(), &parts), "192.0.2.1");
        prop_assert_eq!(extracted(&ClientIp::forwarded(["10.0.0.0/8"]).unwrap(), &parts), "192.0.2.1");
    }

    #[test]
    fn nothing_left_of_what_a_proxy_wrote_changes_who_it_is(left in prop::collection::vec(32_u8..=255, 0..60)) {
        prop_assume!(!left.contains(&127));
        for (extractor, name, written) in [
            (behind(), "x-forwarded-for", ", 192.0.2.1, 10.9.9.9"),
            (ClientIp::forwarded(["10.0.0.0/8"]).unwrap(), "forwarded", ", for=192.0.2.1, for=\"10.9.9.9:1\""),
        ] {
            let field = [left.as_slice(), written.as_bytes()].concat();
            let mut parts = ask("10.0.0.1:9", &[]);
            parts.headers.insert(name, http::HeaderValue::from_bytes(&field).unwrap());
            prop_assert_eq!(extracted(&extractor, &parts), "192.0.2.1");
        }
    }
}
