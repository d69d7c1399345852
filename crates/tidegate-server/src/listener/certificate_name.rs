//! The name in a client's certificate: its one common name, else its one DNS name, else none. Settings grant roles
//! and verbs to such a name ([`access`](super::access), [`clients`](super::clients)), so a certificate that could be
//! read in two ways has no name.

use std::fmt;

use rustls::pki_types::CertificateDer;
use tidegate::printable;
use webpki::EndEntityCert;
use x509_cert::Certificate;
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode, Reader, SliceReader, Tag, Tagged};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::name::RelativeDistinguishedName;

/// `id-at-commonName` of RFC 5280.
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// The prefix of a name that is a DNS name, which no common name may have.
const DNS: &str = "dns:";

/// The name of a certificate in settings and in the log. Two certificates with the same name are one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CertificateName {
    /// The common name, or `dns:` and the DNS name.
    Of(String),
    /// The subject has several common names, or one that is not plain text, or there is no name at all.
    None,
}

impl CertificateName {
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Self {
        let Ok(parsed) = EndEntityCert::try_from(certificate) else { return Self::None };
        let name = match common_names(parsed.subject()).as_deref() {
            Some([]) => dns_name(certificate, &parsed).map(|name| format!("{DNS}{name}")),
            // A common name with this prefix could pass for the DNS name of another certificate.
            Some([value]) => text(value).filter(|name| !name.starts_with(DNS)),
            Some(_) | None => None,
        };
        name.filter(|name| !name.is_empty()).map_or(Self::None, Self::Of)
    }

    pub(super) fn is(&self, name: &str) -> bool {
        matches!(self, Self::Of(own) if own == name)
    }
}

impl fmt::Display for CertificateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The name is quoted, so that the text after it in the log is not taken for a part of it.
            Self::Of(name) if name.contains([',', '"']) => write!(f, "certificate of {name:?}"),
            Self::Of(name) => write!(f, "certificate of {}", printable::line(name)),
            Self::None => f.write_str("certificate without a name"),
        }
    }
}

/// The only DNS name of a certificate; none if it has others, valid or not.
fn dns_name(certificate: &CertificateDer<'_>, parsed: &EndEntityCert<'_>) -> Option<String> {
    let whole = Certificate::from_der(certificate).ok()?;
    let (_, SubjectAltName(names)) = whole.tbs_certificate().get_extension().ok()??;
    // Counted before validity is checked, because an invalid name next to a valid name makes it ambiguous, too.
    only(names.iter().filter(|name| matches!(name, GeneralName::DnsName(_))))?;
    only(parsed.valid_dns_names()).map(str::to_owned)
}

/// The only item.
fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    items.next().filter(|_| items.next().is_none())
}

/// The common names of a subject, which is the content of its sequence; `None` if it cannot be read.
fn common_names(subject: &[u8]) -> Option<Vec<AttributeTypeAndValue>> {
    let mut reader = SliceReader::new(subject).ok()?;
    let mut names = Vec::new();
    while !reader.is_finished() {
        let part = RelativeDistinguishedName::decode(&mut reader).ok()?;
        names.extend(part.iter().filter(|attribute| attribute.oid == COMMON_NAME).cloned());
    }
    Some(names)
}

/// A value as text; `None` for a kind of text whose characters are not certain.
fn text(attribute: &AttributeTypeAndValue) -> Option<String> {
    let bytes = attribute.value.value();
    match attribute.value.tag() {
        Tag::Utf8String => String::from_utf8(bytes.to_vec()).ok(),
        // Readers differ in the characters that a TeletexString has beyond ASCII.
        Tag::PrintableString | Tag::Ia5String | Tag::TeletexString if bytes.is_ascii() => {
            String::from_utf8(bytes.to_vec()).ok()
        }
        Tag::BmpString => {
            let (units, []) = bytes.as_chunks::<2>() else { return None };
            String::from_utf16(
                &units.iter().map(|unit| u16::from_be_bytes(*unit)).collect::<Vec<_>>(),
            )
            .ok()
        }
        _ => None,
    }
}

#[cfg(test)]
impl CertificateName {
    pub(super) fn named(name: &str) -> Self {
        Self::Of(name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;

    /// An element of DER, shorter than 128 bytes.
    fn element(tag: u8, content: &[u8]) -> Vec<u8> {
        [&[tag, u8::try_from(content.len()).unwrap()], content].concat()
    }

    /// An attribute whose identifier ends so: 3 is the common name, 10 the organisation.
    fn attribute(last: u8, tag: u8, text: &[u8]) -> Vec<u8> {
        element(0x30, &[element(6, &[85, 4, last]), element(tag, text)].concat())
    }

    fn part(attributes: &[Vec<u8>]) -> Vec<u8> {
        element(0x31, &attributes.concat())
    }

    /// The text of the only common name.
    fn name(subject: &[u8]) -> Option<String> {
        match common_names(subject)?.as_slice() {
            [value] => text(value),
            _ => None,
        }
    }

    const UTF8: u8 = 12;
    const BMP: u8 = 30;

    #[test]
    fn bytes_of_a_common_name_in_an_organisation_are_none() {
        let ann = attribute(3, UTF8, b"ann");
        let inside = part(&[attribute(10, UTF8, &ann[2..])]);
        let bob = part(&[attribute(3, UTF8, b"bob")]);
        assert_eq!(name(&[inside.clone(), bob].concat()).as_deref(), Some("bob"));
        assert_eq!(common_names(&inside).unwrap(), []);
    }

    #[test]
    fn each_kind_of_text_is_read_as_what_it_is() {
        for (tag, bytes, expected) in [
            (UTF8, "jürgen".as_bytes(), Some("jürgen")),
            (UTF8, b"\xff", None),
            (19, b"ann", Some("ann")),
            (20, b"ann", Some("ann")),
            (20, b"j\xfc", None),
            (BMP, b"\0a\0n\0n", Some("ann")),
            (BMP, b"\0a\0n\0", None),
            (BMP, b"\xd8\0", None),
            (4, b"ann", None),
        ] {
            let found = name(&part(&[attribute(3, tag, bytes)]));
            assert_eq!(found.as_deref(), expected, "{tag}: {}", bytes.escape_ascii());
        }
    }

    #[test]
    fn two_common_names_are_none_and_neither_is_a_broken_subject() {
        let (ann, bob) = (attribute(3, UTF8, b"ann"), attribute(3, UTF8, b"bob"));
        let two = [part(from_ref(&ann)), part(from_ref(&bob))].concat();
        assert_eq!((common_names(&two).unwrap().len(), name(&two)), (2, None));
        assert_eq!(name(&part(&[ann.clone(), bob])), None);
        let whole = part(&[ann]);
        for end in 1..whole.len() {
            assert_eq!(common_names(&whole[..end]), None);
        }
    }

    #[test]
    fn a_name_can_not_pretend_what_follows_it_in_the_log() {
        let shown = |name: &str| CertificateName::named(name).to_string();
        assert_eq!(shown("ann"), "certificate of ann");
        assert_eq!(shown("ann, role change"), "certificate of \"ann, role change\"");
        assert_eq!(shown("ann\n\u{202e}"), r"certificate of ann\n\u{202e}");
        assert_eq!(CertificateName::None.to_string(), "certificate without a name");
    }
}
