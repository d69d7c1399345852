//! Formats in both notations, and lines that they read.

use std::borrow::Cow;

use tidegate::ClientAddress;

use super::super::access_time::AccessTime;
use super::super::clients::ClientFinder;
use super::LogFormat;

const SECOND: u64 = 1_431_857_103_000_000;

/// The time after [`SECOND`], and the values of the entries.
fn read(format: &str, line: &str) -> Result<(u64, Vec<String>), String> {
    let LogFormat(template) = format.parse::<LogFormat>().map_err(|error| error.to_string())?;
    let logged = template.parse(line.as_bytes(), &mut AccessTime::default());
    let clients = ClientFinder(ClientAddress::x_forwarded_for(["10.0.0.0/8"]).unwrap());
    let event = logged.and_then(|logged| logged.into_event(&clients)).map_err(Cow::into_owned)?;
    let values = event.descriptor.iter().map(|(_, value)| value.to_owned());
    Ok((event.at_us - SECOND, values.collect()))
}

#[test]
fn lines_are_read_in_either_notation() {
    for (format, line, after_us, values) in [
        (
            r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent""#,
            r#"192.0.2.1 - ann lee [17/May/2015:10:05:03 +0000] "GET /a?b HTTP/1.1" 200 5 "-" "curl \"8\"""#,
            0,
            &["192.0.2.1", "GET", "/a", "200", "curl \"8\""][..],
        ),
        (
            "$request_time ${remote_addr} $msec $request_method $scheme://$host$request_uri $status",
            "0.004 [2001:db8::7]:80 1431857103.250 GET https://shop.example/a?b 200",
            250_000,
            &["2001:db8::/64", "GET", "/a", "200"],
        ),
        (
            r#"$http_x_forwarded_for ($remote_addr) $time_iso8601 "$request""#,
            r#"192.0.2.9, 10.0.0.7 (10.0.0.8) 2015-05-17T12:05:03+02:00 "GET / HTTP/2.0""#,
            0,
            &["192.0.2.9", "GET", "/"],
        ),
        (
            r#"{"ip":"$remote_addr","when":"$time_iso8601","price":"$5","what":"$request"}"#,
            r#"{"ip":"192.0.2.1","when":"2015-05-17T10:05:03Z","price":"$5","what":"GET / HTTP/1.1"}"#,
            0,
            &["192.0.2.1", "GET", "/"],
        ),
        (
            "$uri$is_args$args $remote_addr $msec",
            "/a?b 192.0.2.1 1431857103",
            0,
            &["192.0.2.1", "/a"],
        ),
        (
            r#"%h %l %u %t \"%r\" %>s %b"#,
            r#"192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a?b HTTP/1.1" 304 -"#,
            0,
            &["192.0.2.1", "GET", "/a", "304"],
        ),
        (
            r#"%{X-Forwarded-For}i %a %{%Y-%m-%d %T}t %m %U%q %H %>s %!200{Referer}i %{user-agent}i"#,
            r#"192.0.2.9 10.0.0.7 2015-05-17 10:05:03 GET /a?b HTTP/1.1 200 - curl/8"#,
            0,
            &["192.0.2.9", "GET", "/a", "200", "curl/8"],
        ),
        (
            r#"%{X-Forwarded-For}i %l %t \"%r\" %>s"#,
            r#"6.6.6.6, 192.0.2.9, 10.0.0.7 - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 45 "-""#,
            0,
            &["192.0.2.9", "GET", "/", "200"],
        ),
        (r"%h\t%{msec}t\t%D%%", "host.example\t1431857103007\t12%", 7_000, &["host.example"]),
    ] {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        assert_eq!(read(format, line), Ok((after_us, values)), "{format}");
    }
}

#[test]
fn a_whole_directive_is_taken_as_its_format() {
    let nginx = r#"$remote_addr "$request" [$time_local] it's $status"#;
    let apache = r#"%h \"%r\" %t it's %>s"#;
    for (directive, format) in [
        (
            "log_format main '$remote_addr \"$request\" '\n    '[$time_local] it\\'s $status';",
            nginx,
        ),
        (
            "  log_format  main escape=json '$remote_addr \"$request\" ' \"[$time_local] it's \" '$status';\n",
            nginx,
        ),
        (r#"log_format main "$remote_addr \"$request\" [$time_local] it's $status";"#, nginx),
        (r#"LogFormat "%h \"%r\" %t it's %>s" main"#, apache),
        (r#"LogFormat "%h \"%r\" %t it's %>s""#, apache),
    ] {
        assert_eq!(directive.parse::<LogFormat>(), format.parse::<LogFormat>(), "{directive}");
    }
    for broken in ["log_format main '$remote_addr [$time_local]", "LogFormat main", "log_format x;"]
    {
        let error = broken.parse::<LogFormat>().unwrap_err().to_string();
        assert!(error.contains("in quotes"), "{broken}: {error}");
    }
}

#[test]
fn a_format_that_can_not_be_replayed_says_why() {
    for (format, expected) in [
        ("", "has no variable"),
        ("combined", "has no variable"),
        ("$request [$time_local]", "has no client"),
        ("%r %t", "has no client"),
        ("$remote_addr $request", "has no time"),
        ("%h %r", "has no time"),
        ("$remote_addr$msec", "nothing is between $remote_addr and $msec"),
        ("%h%b %t", "nothing is between %h and %b"),
        ("%ci:%cp [%tr]", "\"%ci:%cp [%tr]\" begins with no directive"),
        ("%h %t %{Referer", "begins with no directive"),
        ("%h %t %", "begins with no directive"),
    ] {
        let error = format.parse::<LogFormat>().unwrap_err().to_string();
        match expected.contains("%ci") {
            // `%c` is no directive, and the message shows the rest.
            true => assert!(error.starts_with("\"%ci:%cp"), "{error}"),
            false => assert!(error.contains(expected), "{format}: {error}"),
        }
    }
}

#[test]
fn a_line_of_another_format_says_where_it_differs() {
    let format = r#"$remote_addr [$time_local] "$request" $status"#;
    for (line, expected) in [
        ("192.0.2.1", "$remote_addr does not end"),
        ("192.0.2.1 [17/May/2015:10:05:03 +0000] GET", "$time_local does not end"),
        ("192.0.2.1 [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1", "$request does not end"),
        (
            "192.0.2.1 [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\"200",
            "expected \"\\\" \" after $request",
        ),
        ("192.0.2.1 [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 2", "three digits"),
        ("stdout [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200", "the client is \"stdout\""),
        ("192.0.2.1 [yesterday] \"GET / HTTP/1.1\" 200", "the time is \"yesterday\""),
    ] {
        let reason = read(format, line).unwrap_err();
        assert!(reason.contains(expected), "{line}: {reason}");
    }
}
