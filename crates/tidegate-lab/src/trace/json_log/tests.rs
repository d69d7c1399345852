//! Objects as servers write them.

use tidegate::ClientAddress;

use super::super::clients::ClientFinder;
use super::*;

const SECOND: u64 = 1_431_857_103_000_000;

/// The time after [`SECOND`] and the values of the entries.
fn request(line: &str) -> Result<(u64, String), String> {
    let object = super::read(line.as_bytes()).map_err(Cow::into_owned)?;
    assert!(!object.is_event, "{line}");
    let clients = ClientFinder(ClientAddress::x_forwarded_for(["10.0.0.0/8"]).unwrap());
    let logged = object.finish(&mut AccessTime::default());
    let event = logged.and_then(|logged| logged.into_event(&clients)).map_err(Cow::into_owned)?;
    let values: Vec<_> = event.descriptor.iter().map(|(_, value)| value).collect();
    Ok((event.at_us - SECOND, values.join(" ")))
}

#[test]
fn names_of_every_server_are_known() {
    for case in [
        r#"{"level":"info","ts":1431857103.25,"msg":"handled request","request":{"remote_ip":"10.0.0.7",
           "client_ip":"192.0.2.1","method":"GET","uri":"/a?b","headers":{"User-Agent":["curl/8"]}},"status":200}
           => 250000 192.0.2.1 GET /a 200 curl/8"#,
        r#"{"request":{"remote_addr":"10.0.0.7:80","method":"GET","uri":"/","headers":
           {"X-Forwarded-For":["6.6.6.6","192.0.2.9"]}},"status":404,"ts":"2015-05-17T10:05:03Z"}
           => 0 192.0.2.9 GET / 404"#,
        r#"{"ClientAddr":"192.0.2.1:80","ClientHost":"192.0.2.1","DownstreamStatus":200,"RequestMethod":"GET",
           "RequestPath":"/a?b","StartUTC":"2015-05-17T10:05:03.5Z","time":"2015-05-17T10:05:09Z"}
           => 500000 192.0.2.1 GET /a 200"#,
        r#"{"time_local":"17/May/2015:10:05:03 +0000","remote_addr":"::ffff:192.0.2.1","request":
           "GET \/\"a\"?b HTTP/1.1","status":"200","http_user_agent":"x\\\"","http_x_forwarded_for":"-"}
           => 0 192.0.2.1 GET /"a" 200 x\""#,
        r#"{"msec":"1431857103.250","request_method":"GET","uri":"/b","request_uri":"/a","client_ip":"x",
           "remote_addr":"2001:db8::7","null":null,"many":[1,{"a":[]}],"deep":{"status":"500"},"on":true}
           => 250000 2001:db8::/64 GET /a"#,
        r#"{"timestamp":"2015-05-17T10:05:03Z","httpRequest":{"remoteIp":"192.0.2.1","requestMethod":"GET",
           "requestUrl":"https://shop.example/a?b","status":200,"userAgent":"curl/8"}}
           => 0 192.0.2.1 GET /a 200 curl/8"#,
        r#"{"ClientIP":"192.0.2.1","ClientRequestMethod":"GET","ClientRequestURI":"/a?b","EdgeResponseStatus":200,
           "ClientRequestUserAgent":"curl/8","EdgeStartTimestamp":1431857103250000000}
           => 250000 192.0.2.1 GET /a 200 curl/8"#,
        r#"{"level":30,"time":1431857103250,"req":{"method":"GET","url":"/a?b","headers":{"user-agent":"curl/8"},
           "remoteAddress":"::ffff:192.0.2.1","remotePort":5},"res":{"statusCode":200},"msg":"request completed"}
           => 250000 192.0.2.1 GET /a 200 curl/8"#,
        r#"{"time":"2015-05-17T10:05:03Z","properties":{"clientIP":"192.0.2.1","httpMethod":"GET","requestUri":"/a",
           "httpStatus":200,"userAgent":"curl/8"}}
           => 0 192.0.2.1 GET /a 200 curl/8"#,
        r#"{"ClientHost":"192.0.2.1","RequestMethod":"GET","RequestPath":"/a","StartLocal":
           "2015-05-17T12:05:03.5+02:00","time":"2015-05-17T10:05:09Z"}
           => 500000 192.0.2.1 GET /a"#,
        r#"{"timestamp":"2015-05-17T10:05:03+0000","client_ip":"192.0.2.1","request_method":"GET","url":"/a?b",
           "response_status":200,"request_user_agent":"curl/8"}
           => 0 192.0.2.1 GET /a 200 curl/8"#,
        r#"{"@timestamp":"2015-05-17T10:05:03Z","clientip":"192.0.2.1","verb":"GET","request":"\/a?b",
           "response":"200","agent":"curl/8"}
           => 0 192.0.2.1 GET /a 200 curl/8"#,
        r#"{"requestTime":"17/May/2015:10:05:03 +0000","requestTimeEpoch":1431857103250,"response":"ok","sourceIp":"192.0.2.1",
           "httpMethod":"GET","resourcePath":"/a/{id}","status":"200"}
           => 250000 192.0.2.1 GET /a/{id} 200"#,
        r#"{"timestamp":1431857103250,"action":"ALLOW","httpRequest":{"clientIp":"192.0.2.1","headers":
           [{"name":"User-Agent","value":"curl/8"}],"uri":"/a","httpMethod":"GET"}}
           => 250000 192.0.2.1 GET /a"#,
        r#"{"client_ip":"192.0.2.1","request":{"method":"GET","uri":"/a?b","headers":{"user-agent":"curl/8"}},
           "response":{"status":200,"time":7},"started_at":1431857103250}
           => 250000 192.0.2.1 GET /a 200 curl/8"#,
        r#"{"start_time":"2015-05-17T10:05:03.000Z","x_forwarded_for":"192.0.2.1","method":"GET","path":"/a",
           "response_code":200,"user_agent":null}
           => 0 192.0.2.1 GET /a 200"#,
    ] {
        let (line, expected) = case.split_once("=> ").unwrap();
        let (after_us, values) = expected.split_once(' ').unwrap();
        assert_eq!(request(line), Ok((after_us.parse().unwrap(), values.to_owned())), "{line}");
    }
}

#[test]
fn what_an_object_lacks_is_said() {
    for (line, expected) in [
        ("{}", "no client"),
        (r#"{"level":"info","msg":"started"}"#, "no client"),
        (r#"{"remote_addr":"192.0.2.1","request":"GET /"}"#, "no time"),
        (r#"{"remote_addr":"stdout","ts":1431857103,"path":"/"}"#, "the client is \"stdout\""),
        (r#"{"remote_addr":"192.0.2.1","ts":1431857103,"path":"/","status":0.5}"#, "three digits"),
        (r#"{"remote_addr":"192.0.2.1","ts":"soon","path":"/"}"#, "the time is \"soon\""),
        (r#"{"ts":1431857103,"msg":"ann logged in","ip":"192.0.2.1"}"#, "no request"),
        (
            r#"{"ts":1431857103,"logger":"http.log.error.log0","msg":"connection refused",
               "request":{"remote_ip":"192.0.2.1","method":"GET","uri":"/"},"status":502}"#,
            "a line of its own",
        ),
        (r#"{"remote_addr":"192.0.2.1" "#, "EOF"),
        ("{", "expected a whole object on one line"),
        (r#"{"remote_addr":"\x22"}"#, "invalid escape"),
        (r#"{} {}"#, "trailing characters"),
    ] {
        let reason = request(line).unwrap_err();
        assert!(reason.contains(expected), "{line}: {reason}");
    }
}

/// A server may log all header fields of a request, and a caller chooses their names.
#[test]
fn a_header_field_names_neither_the_client_nor_the_request() {
    for place in ["request", "req"] {
        let line = format!(
            r#"{{"{place}":{{"headers":{{"client_ip":"6.6.6.6","request_uri":"/x","requestmethod":"PUT",
               "ts":"1","status":"500","x_forwarded_for":"6.6.6.6","user_agent":"x","X-Forwarded-For":"192.0.2.9"}},
               "remoteAddress":"10.0.0.7","method":"GET","url":"/a"}},"time":1431857103000}}"#
        );
        assert_eq!(request(&line), Ok((0, "192.0.2.9 GET /a".to_owned())), "{line}");
    }
}

#[test]
fn lines_within_json_and_events_are_distinguished() {
    let read = |line| super::read(line).unwrap();
    assert_eq!(read(br#"{"log":"a\n","stream":"stdout"}"#).wrapped.as_deref(), Some("a\n"));
    assert_eq!(read(br#"{"textPayload":"a"}"#).wrapped.as_deref(), Some("a"));
    assert!(read(br#"{"request":{"log":"a"}}"#).wrapped.is_none());
    assert!(read(br#"{"at_us":1}"#).is_event && read(br#"{"descriptor":{}}"#).is_event);
    assert!(!read(br#"{"message":"GET","remote_addr":"::1"}"#).is_request());
    assert!(read(br#"{"path":"/","remote_addr":"::1"}"#).is_request());
}
