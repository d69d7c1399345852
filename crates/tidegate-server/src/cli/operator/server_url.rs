//! The address of a server, as a URL in a flag of the commands of operators.

use std::fmt;

use hyper::Uri;

/// `http://HOST:PORT`, or https.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerUrl {
    pub(super) is_tls: bool,
    /// A name or an IP address, without brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

/// Reads a URL, or returns the expected form.
pub(super) fn parse(text: &str) -> Result<ServerUrl, String> {
    let expected = "expected a URL such as http://127.0.0.1:8082 or https://limits.example:8082";
    if !text.contains("://") {
        return Err(format!("the scheme is missing: {expected}"));
    }
    let uri: Uri = text.parse().map_err(|error| format!("{error}: {expected}"))?;
    let (is_tls, port) = match uri.scheme_str() {
        Some("http") => (false, 80),
        Some("https") => (true, 443),
        _ => return Err(format!("the scheme is neither http nor https: {expected}")),
    };
    // Every user of the machine can read a command line.
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err("a URL carries no password: expected the token by --token-file".to_owned());
    }
    if !["", "/"].contains(&uri.path()) || uri.query().is_some() {
        return Err(format!("it has a path: {expected}"));
    }
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    if host.is_empty() {
        return Err(format!("the host is missing: {expected}"));
    }
    // A port that is out of range is none to the library, and would be left out.
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let port = match authority.get(uri.host().unwrap_or_default().len()..) {
        None | Some("") => port,
        Some(given) => given.trim_start_matches(':').parse().map_err(|_| {
            format!("\"{given}\" is no port, which is a number from 0 to 65535: {expected}")
        })?,
    };
    Ok(ServerUrl { is_tls, host: host.to_owned(), port })
}

impl ServerUrl {
    /// The host and the port, as in a header field.
    pub(super) fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_as_it_was_read_with_its_port() {
        for (text, shown) in [
            ("http://127.0.0.1:8082", "http://127.0.0.1:8082"),
            ("http://127.0.0.1:8082/", "http://127.0.0.1:8082"),
            ("http://[::1]:8082", "http://[::1]:8082"),
            ("http://limits", "http://limits:80"),
            ("https://limits.example", "https://limits.example:443"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn a_mistake_is_named() {
        for (text, mistake) in [
            ("127.0.0.1:8082", "the scheme is missing"),
            ("redis://127.0.0.1", "neither http nor https"),
            ("http://:8082", "expected a URL"),
            ("http://a:secret@limits", "carries no password"),
            ("http://limits/v1/rules", "it has a path"),
            ("http://limits:99999", "expected a URL"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.contains(mistake) && !said.contains("secret"), "{text}: {said}");
        }
    }
}
