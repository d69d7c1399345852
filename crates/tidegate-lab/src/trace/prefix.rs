//! Prefixes of lines: of container runtimes, syslog, docker compose and kubectl.
//!
//! They stand before the line of a server's log, and are removed before the line is read in its format.

use memchr::memchr;

use super::access_time::has_shape;
use super::bad_lines::BadLineReason;
use super::clients::is_address;

/// The maximum number of prefixes of one line, such as compose's before a time.
const NESTED: usize = 4;
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A prefix, and the line after it.
type FoundPrefix<'a> = (&'static str, &'a [u8]);

/// The line without its prefixes.
pub(super) fn strip(line: &[u8]) -> Result<&[u8], BadLineReason> {
    let mut rest = line;
    for _ in 0..NESTED {
        let Some((_, after)) = first(rest)? else { break };
        rest = after;
    }
    Ok(rest)
}

/// The names of the prefixes that [`strip`] removes.
pub(super) fn names(line: &[u8]) -> Vec<&'static str> {
    let mut rest = line;
    let mut names = Vec::new();
    while names.len() < NESTED
        && let Ok(Some((name, after))) = first(rest)
    {
        names.push(name);
        rest = after;
    }
    names
}

/// The first prefix. Most lines have none, and their first byte or two say so.
fn first(line: &[u8]) -> Result<Option<FoundPrefix<'_>>, BadLineReason> {
    Ok(match line.first() {
        Some(b'<') => priority(line),
        Some(b'[') => kubectl(line),
        Some(b'\x1b') => memchr(b'm', line).map(|end| ("colour", &line[end + 1..])),
        Some(b'0'..=b'9') if line.get(4) == Some(&b'-') && line.get(10) == Some(&b'T') => {
            return time(line);
        }
        // The names of months begin with A to S.
        Some(b'A'..=b'S') if let Some(rest) = after_old_time(line) => {
            Some(("syslog", after_time(rest)))
        }
        Some(_) => compose(line),
        None => None,
    })
}

/// `<134>` of syslog, in the new form with everything to the message.
fn priority(line: &[u8]) -> Option<FoundPrefix<'_>> {
    // A priority has three digits at most (RFC 5424, 6.2.1).
    let end = memchr(b'>', line.get(..5).unwrap_or(line))?;
    if end < 2 || !line[1..end].iter().all(u8::is_ascii_digit) {
        return None;
    }
    let rest = &line[end + 1..];
    // The only version of the new form; the old form has none.
    let Some(new) = rest.strip_prefix(b"1 ") else { return Some(("syslog", rest)) };
    let mut message = new;
    for _ in ["time", "host", "program", "process", "message id"] {
        message = word(message).1;
    }
    let message = after_structured_data(message)?;
    let message = message.strip_prefix(b" ").unwrap_or(message);
    Some(("syslog (RFC 5424)", message.strip_prefix(BYTE_ORDER_MARK).unwrap_or(message)))
}

/// The rest after `-`, or after elements such as `[id name="value"]`.
fn after_structured_data(data: &[u8]) -> Option<&[u8]> {
    if let Some(rest) = data.strip_prefix(b"-") {
        return Some(rest);
    }
    let mut rest = data;
    while let Some(element) = rest.strip_prefix(b"[") {
        // A bracket within quotes ends no element, and an escaped quote ends no quotes.
        let mut quoted = false;
        let mut escaped = false;
        let end = element.iter().position(|byte| {
            let ends = *byte == b']' && !quoted;
            quoted ^= *byte == b'"' && !escaped;
            escaped = *byte == b'\\' && !escaped;
            ends
        })?;
        rest = &element[end + 1..];
    }
    Some(rest)
}

/// `[pod/web-0/nginx] `.
fn kubectl(line: &[u8]) -> Option<FoundPrefix<'_>> {
    let pod = line.strip_prefix(b"[pod/")?;
    let end = memchr(b']', pod)?;
    Some(("kubectl", pod[end + 1..].trim_ascii_start()))
}

/// `2024-05-17T10:05:03.123Z stdout F `, or such a time alone or before a host and a program.
fn time(line: &[u8]) -> Result<Option<FoundPrefix<'_>>, BadLineReason> {
    let (time, rest) = word(line);
    // The shortest such time is `2024-05-17T10:05:03Z`.
    if time.len() < 20 || time.get(13) != Some(&b':') || rest.is_empty() {
        return Ok(None);
    }
    let (stream, after) = word(rest);
    if matches!(stream, b"stdout" | b"stderr") {
        let (tag, after) = word(after);
        return match tag {
            b"F" => Ok(Some(("container runtime", after))),
            b"P" => Err("the container runtime cut this line in parts (P): join them first".into()),
            _ => Ok(None),
        };
    }
    let message = after_time(rest);
    let name = if message.len() == rest.len() { "time" } else { "syslog" };
    Ok(Some((name, message)))
}

/// The rest after `May 17 10:05:03 ` or `May 17 10:05:03.123456 `.
fn after_old_time(line: &[u8]) -> Option<&[u8]> {
    let (time, rest) = line.split_first_chunk::<15>()?;
    let is_time =
        // A day of one digit has a space before it (RFC 3164, 4.1.2).
        has_shape(time, b"aaa _0 00:00:00") && MONTHS.iter().any(|month| time.starts_with(*month));
    let (fraction, rest) = rest.split_at(memchr(b' ', rest)?);
    let is_fraction = match fraction {
        [] => true,
        [b'.', digits @ ..] => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    (is_time && is_fraction).then_some(&rest[1..])
}

/// The message after `host program[7]: `, `program: ` or `host `; unchanged if it begins with a
/// client already.
fn after_time(rest: &[u8]) -> &[u8] {
    let rest = rest.trim_ascii_start();
    let (first, after) = word(rest);
    if is_program(first) {
        return after.trim_ascii_start();
    }
    let (second, message) = word(after);
    if is_program(second) {
        return message.trim_ascii_start();
    }
    // A host without a program. A word that cannot be a host begins the message, and so does a client before its `-`.
    let is_message = is_address(first) || matches!(first.first(), Some(b'{' | b'[' | b'"' | b'<'));
    if is_message || second == b"-" || second.is_empty() { rest } else { after }
}

fn is_program(word: &[u8]) -> bool {
    let is_name = word.first().is_some_and(u8::is_ascii_alphanumeric);
    is_name && word.ends_with(b":") && !is_address(word)
}

/// `web-1  | ` of docker compose and `web.1.x7f@node  | ` of a swarm.
fn compose(line: &[u8]) -> Option<FoundPrefix<'_>> {
    // Few lines have a bar, and to find that out takes less than to read a name.
    let (before, message) = line.split_at(memchr(b'|', line)?);
    let name = before.trim_ascii_end();
    let of_name = name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-.@/".contains(byte));
    let is_name = of_name && !name.is_empty() && name.len() < before.len();
    let message = message.strip_prefix(b"|").filter(|_| is_name)?;
    Some(("docker compose", message.strip_prefix(b" ").unwrap_or(message)))
}

/// The text up to the next space, and the rest after that space.
fn word(from: &[u8]) -> (&[u8], &[u8]) {
    match memchr(b' ', from) {
        Some(end) => (&from[..end], &from[end + 1..]),
        None => (from, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 5";

    #[test]
    fn prefixes_are_dropped_and_named() {
        for (prefix, expected) in [
            ("", &[][..]),
            ("2024-05-17T10:05:03.123456789Z stdout F ", &["container runtime"]),
            ("2024-05-17T10:05:03.123456789+02:00 stderr F ", &["container runtime"]),
            ("2024-05-17T10:05:03.123456789Z ", &["time"]),
            ("May 17 10:05:03 web1 nginx[812]: ", &["syslog"]),
            ("May  7 10:05:03 web1 nginx: ", &["syslog"]),
            ("May 17 10:05:03 nginx: ", &["syslog"]),
            ("May 17 10:05:03.123456 web1 nginx[812]: ", &["syslog"]),
            ("May 17 10:05:03.123 web1 ", &["syslog"]),
            ("May 17 10:05:03 web1 ", &["syslog"]),
            ("May 17 10:05:03 10.0.0.5 nginx: ", &["syslog"]),
            ("<190>May 17 10:05:03 web1 nginx: ", &["syslog", "syslog"]),
            ("2024-05-17T10:05:03.123456+00:00 web1 nginx[812]: ", &["syslog"]),
            ("2024-05-17T10:05:03.123456+00:00 app[web.1]: ", &["syslog"]),
            ("<134>1 2024-05-17T10:05:03Z web1 nginx 812 - - ", &["syslog (RFC 5424)"]),
            (
                "<134>1 2024-05-17T10:05:03Z web1 nginx - ID7 [a@1 b=\"]\\\"]\"][c@1] \u{feff}",
                &["syslog (RFC 5424)"],
            ),
            ("web-1  | ", &["docker compose"]),
            ("nginx | ", &["docker compose"]),
            ("web.1.x7f@node1    | ", &["docker compose"]),
            ("\u{1b}[36mweb-1  | \u{1b}[0m", &["colour", "docker compose", "colour"]),
            ("web-1  | 2024-05-17T10:05:03.123456789Z ", &["docker compose", "time"]),
            ("[pod/web-0/nginx] ", &["kubectl"]),
            ("[pod/web-0/nginx] 2024-05-17T10:05:03.123456789Z ", &["kubectl", "time"]),
        ] {
            let line = format!("{prefix}{LOG}");
            assert_eq!(strip(line.as_bytes()), Ok(LOG.as_bytes()), "{prefix}");
            assert_eq!(names(line.as_bytes()), expected, "{prefix}");
        }
    }

    #[test]
    fn what_follows_a_prefix_may_be_json_or_begin_with_a_bracket() {
        for prefix in ["May 17 10:05:03 web1 ", "2024-05-17T10:05:03Z ", "web-1 | "] {
            for message in ["{\"ts\": 1}", "[2024-05-17T10:05:03.123Z] \"GET / HTTP/1.1\" 200"] {
                let line = format!("{prefix}{message}");
                assert_eq!(strip(line.as_bytes()), Ok(message.as_bytes()), "{line}");
            }
        }
    }

    #[test]
    fn a_line_that_begins_nearly_so_keeps_all_its_words() {
        for line in [
            "May 17 10:05 web1",
            "May",
            "May 17 10:05:03. web1 x",
            "May 17 10:05:03.12x web1 x",
            "May 17 10:05:03.123456",
            "<134",
            "<a>b",
            "<134>1 x",
            "2024-05-17T10:05:03Z",
            "2024-05-17T10 stdout F x",
            "2024-05-17T10:05:03Z stdout X x",
            "web-1| x",
            "| x",
            "[pod/x",
            "a|b",
            "2001:db8::7 | x",
            "\u{1b}[36",
            "May 17 10:05:03 web1",
        ] {
            let rest = strip(line.as_bytes()).unwrap();
            assert!(line.as_bytes().ends_with(rest), "{line}");
        }
        let kept = "2024-05-17 10:05:03 W3SVC1 GET / - 80 - 192.0.2.1";
        assert_eq!(strip(kept.as_bytes()), Ok(kept.as_bytes()));
    }

    #[test]
    fn a_part_of_a_cut_line_is_said() {
        let line = "2024-05-17T10:05:03.123Z stdout P 192.0.2.1 - - [17";
        assert!(strip(line.as_bytes()).unwrap_err().contains("cut this line in parts"));
    }
}
