//! The media type of a body: which spellings count as JSON, for the fast path and for `body.rs` alike.

const JSON: &str = "application/json";

/// `application/json`, with no parameter but `charset=utf-8`.
pub(super) fn is_json(media_type: &str) -> bool {
    // Nearly every client uses this form.
    media_type == JSON || is_json_with_parameters(media_type)
}

/// The type in upper or lower case, with or without parameters.
fn is_json_with_parameters(media_type: &str) -> bool {
    let mut parts = media_type.split(';').map(str::trim);
    let json = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(JSON));
    json && parts.all(|parameter| {
        let parameter = parameter.to_ascii_lowercase();
        ["", "charset=utf-8", "charset=\"utf-8\""].contains(&parameter.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_json_in_utf_8_is_json() {
        let yes = ["application/json", "Application/JSON ; Charset=UTF-8", "application/json;"];
        let no = ["text/json", "application/json; charset=latin1", "application/jsonp", ""];
        assert!(yes.into_iter().all(is_json));
        assert!(!no.into_iter().any(is_json));
    }
}
