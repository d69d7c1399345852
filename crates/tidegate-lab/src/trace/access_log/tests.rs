//! Tables of good and bad lines.

use std::borrow::Cow;

use tidegate::ClientAddress;

use super::super::clients::ClientFinder;
use super::*;

const TIME: &str = "[17/May/2015:10:05:03 +0000]";

fn read(line: &[u8]) -> Result<Vec<String>, String> {
    let logged = parse(line, &mut AccessTime::default());
    let clients = ClientFinder(ClientAddress::peer());
    let event = logged.and_then(|logged| logged.into_event(&clients)).map_err(Cow::into_owned)?;
    assert_eq!((event.at_us, event.cost), (1_431_857_103_000_000, 1));
    assert_eq!(event.domain, "default");
    let names: Vec<&str> = event.descriptor.iter().map(|(name, _)| name).collect();
    let expected = ["ip", "method", "path", "status", "user_agent"];
    assert_eq!(names, expected[..names.len()]);
    Ok(event.descriptor.iter().map(|(_, value)| value.to_owned()).collect())
}

fn common(request: &str) -> Vec<String> {
    read(format!("192.0.2.1 - - {TIME} \"{request}\" 200 5").as_bytes()).unwrap()
}

#[test]
fn good_lines() {
    for (line, expected) in [
        (
            r#"192.0.2.1 - - [17/May/2015:12:05:03.000 +0200] "GET / HTTP/1.1" 200 5"#,
            "192.0.2.1|GET|/|200",
        ),
        (r#"192.0.2.1 - - [17/May/2015 10:05:03] "GET / HTTP/1.1" 200 -"#, "192.0.2.1|GET|/|200"),
        (r#"192.0.2.1 shop.example - @ "GET / HTTP/1.1" 200 5"#, "192.0.2.1|GET|/|200"),
        (r#"192.0.2.1 -  -  @ "GET / HTTP/1.1" 200 5"#, "192.0.2.1|GET|/|200"),
        (r#"shop.example:80 192.0.2.1 - - @ "GET / HTTP/1.1" 200 5"#, "192.0.2.1|GET|/|200"),
        (r#"shop:80 192.0.2.1 - a b @ "GET / HTTP/1.1" 200 5"#, "192.0.2.1|GET|/|200"),
        (r#"_ host.example - - @ "GET / HTTP/1.1" 200 5"#, "host.example|GET|/|200"),
        (r#"localhost - - @ "GET / HTTP/1.1" 200 5"#, "localhost|GET|/|200"),
        (r#"[::ffff:192.0.2.1]:80 id ann @ "GET / HTTP/1.1" 200 5"#, "192.0.2.1|GET|/|200"),
        (r#"192.0.2.1 - - @ "GET / HTTP/1.1" 200 5"#, "192.0.2.1|GET|/|200"),
        (r#"192.0.2.1 - ann @ "GET / HTTP/1.1" 304 -"#, "192.0.2.1|GET|/|304"),
        (
            r#"192.0.2.1 - - @ "POST /a HTTP/2.0" 200 5 "-" "curl/8""#,
            "192.0.2.1|POST|/a|200|curl/8",
        ),
        (
            r#"2001:db8::1 - - @ "GET / HTTP/1.1" 200 5 "http://a/?b" "-""#,
            "2001:db8::/64|GET|/|200|-",
        ),
        (r#"host.example - - @ "GET / HTTP/1.1" - - "" """#, "host.example|GET|/|-|"),
        (r#"192.0.2.1 - ann [x] lee @ "GET / HTTP/1.1" 200 5"#, "192.0.2.1|GET|/|200"),
        (
            r#"192.0.2.1 - - @ "GET / HTTP/1.1" 200 5 "-" "a \"b\" \\" "more" 0.004"#,
            "192.0.2.1|GET|/|200|a \"b\" \\\\",
        ),
        (r#"192.0.2.1 - - @ "GET / HTTP/1.1" 200 5 "a\"b \" c" "x""#, "192.0.2.1|GET|/|200|x"),
        (r#"192.0.2.1 - - @ "GET / HTTP/1.1" 200 5 "#, "192.0.2.1|GET|/|200"),
        (
            r#"192.0.2.1 - - @ "GET /\xe4 HTTP/1.1" 200 5 "-" "\\" x\x22""#,
            "192.0.2.1|GET|/\\xe4|200|\\\\",
        ),
    ] {
        let line = line.replace('@', TIME);
        assert_eq!(read(line.as_bytes()).unwrap().join("|"), expected, "{line}");
    }
}

#[test]
fn requests_of_every_kind() {
    let cases = [
        ("GET /a/b?c=d&e HTTP/1.1", "GET", "/a/b"),
        ("GET /a", "GET", "/a"),
        ("GET /a?b", "GET", "/a"),
        ("GET ?b HTTP/1.0", "GET", ""),
        ("GET /a b c HTTP/1.1", "GET", "/a b c"),
        ("GET /a HTTP/1.1 x", "GET", "/a HTTP/1.1 x"),
        ("GET http://shop.example/a?b HTTP/1.1", "GET", "/a"),
        ("GET https://shop.example?b HTTP/1.1", "GET", "/"),
        ("OPTIONS * HTTP/1.0", "OPTIONS", "*"),
        ("CONNECT shop.example:443 HTTP/1.1", "CONNECT", "shop.example:443"),
        ("PROPFIND / HTTP/1.1", "PROPFIND", "/"),
        ("M-SEARCH * HTTP/1.1", "M-SEARCH", "*"),
        ("get / HTTP/1.1", "get", "/"),
        ("PRI * HTTP/2.0", "PRI", "*"),
        ("-", "-", "-"),
        ("", "-", ""),
        ("quit", "-", "quit"),
        (r"\x16\x03\x01\x02", "-", r"\x16\x03\x01\x02"),
        (r"\x16\x03 \x01?\x02", "-", r"\x16\x03 \x01"),
        (r#"GET /\"a\" HTTP/1.1"#, "GET", "/\"a\""),
        ("GET /caf\u{e9} HTTP/1.1", "GET", "/caf\u{e9}"),
        ("GET  / HTTP/1.1", "GET", " /"),
        ("GET /x HTTP/1.1 ", "GET", "/x HTTP/1.1 "),
    ];
    for (request, method, path) in cases {
        assert_eq!(common(request)[1..3], [method, path], "{request}");
    }
}

#[test]
fn bytes_that_are_not_utf8_are_escaped_and_stay_apart() {
    let line = |byte: u8| {
        let mut line = format!("192.0.2.1 - - {TIME} \"GET /").into_bytes();
        line.push(byte);
        line.extend_from_slice(b"\\\" HTTP/1.1\" 200 5 \"-\" \"");
        line.push(byte);
        line.push(b'"');
        read(&line).unwrap()
    };
    assert_eq!(line(0xff)[2..], ["/\\xff\"", "200", "\\xff"]);
    assert_ne!(line(0xff), line(0xfe));
}

#[test]
fn bad_lines_say_what_was_expected() {
    let cases = [
        ("", "no time found"),
        ("hello", "no time found"),
        (r#"192.0.2.1 - - "GET / HTTP/1.1" 200 5"#, "no time found"),
        (r#"192.0.2.1 - - [17/May/2015] "GET / HTTP/1.1" 200 5"#, "no time found"),
        (r#"192.0.2.1 - - [17/May/2015:10:05:03 +0000"#, "no time found"),
        (r#"192.0.2.1 - - [32/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5"#, "calendar"),
        (r#"192.0.2.1 - @ "GET / HTTP/1.1" 200 5"#, "the client, its identity and its user"),
        (r#" - - @ "GET / HTTP/1.1" 200 5"#, "the client, its identity and its user"),
        (
            r#"192.0.2.9 192.0.2.1 - - @ "GET / HTTP/1.1" 200 5"#,
            "two addresses are before the time",
        ),
        (r#"192.0.2.9 - 10.0.0.1 @ "GET / HTTP/1.1" 200 5"#, "two addresses are before the time"),
        (r#"192.0.2.9 - 10.0.0.1 - - @ "GET / HTTP/1.1" 200 5"#, "two addresses are before"),
        (
            r#"shop.example 192.0.2.9 - 10.0.0.1 @ "GET / HTTP/1.1" 200 5"#,
            "two addresses are before the time",
        ),
        (r#"stdout 192.0.2.1 - - @ "GET / HTTP/1.1" 200 5"#, "begins with \"stdout\""),
        (r#"stdout - - @ "GET / HTTP/1.1" 200 5"#, "the client is \"stdout\""),
        (r#"access.log:192.0.2.1 - - @ "GET / HTTP/1.1" 200 5"#, "the client is"),
        (r#"192.0.2.1, 10.0.0.1 - - @ "GET / HTTP/1.1" 200 5"#, "begins with \"192.0.2.1,\""),
        (r#"- - - @ "GET / HTTP/1.1" 200 5"#, "the line has no client"),
        ("192.0.2.1 - - @", "the request in double quotes"),
        ("192.0.2.1 - - @ GET / HTTP/1.1 200 5", "the request in double quotes"),
        (r#"192.0.2.1 - - @ "GET / HTTP/1.1 200 5"#, "the request has no closing quote"),
        (r#"192.0.2.1 - - @ "GET / HTTP/1.1\" 200 5"#, "the request has no closing quote"),
        (r#"192.0.2.1 - - @ "GET / HTTP/1.1\"#, "the request has no closing quote"),
        (r#"192.0.2.1 - - @ "GET / HTTP/1.1""#, "a status of three digits"),
        (r#"192.0.2.1 - - @ "GET / HTTP/1.1" 20 5"#, "a status of three digits"),
        (r#"192.0.2.1 - - @ "GET / HTTP/1.1" 2000 5"#, "a status of three digits"),
        (r#"192.0.2.1 - - @ "GET / HTTP/1.1" 200"#, "the size of the answer"),
        (r#"192.0.2.1 - - @ "GET / HTTP/1.1" 200 5k"#, "the size of the answer"),
        (r#"192.0.2.1 - - @ "GET / HTTP/1.1" 200 5 0.04"#, "the referer in double quotes"),
        (r#"192.0.2.1 - - @ "GET / HTTP/1.1" 200 5 "-"#, "the referer has no closing quote"),
        (r#"192.0.2.1 - - @ "GET / HTTP/1.1" 200 5 "-""#, "the user agent in double quotes"),
        (r#"192.0.2.1 - - @ "GET / HTTP/1.1" 200 5 "-" "curl"#, "user agent has no closing quote"),
    ];
    for (line, expected) in cases {
        let line = line.replace('@', TIME);
        let reason = read(line.as_bytes()).unwrap_err();
        assert!(reason.contains(expected), "{line}: {reason}");
    }
}
