//! The key of a limiter in a store: unambiguous whatever domain and key contain.
//!
//! `{prefix}{domain}:{rule}:{part}:{part}`, with `%XX` for any byte that has another meaning. So no two
//! limiters share a key, and no caller can choose the slot that a key lives in. If a rule names an entry that
//! tags it, the key is `{prefix}{=value}` and the rest: rules that are tagged by the same entry then live in
//! one slot.

use std::fmt::Write;

use crc16::{State, XMODEM};
use sha2::{Digest, Sha256};

use crate::request::{Descriptor, RequestIdentity};
use crate::rules::{PolicyRule, RuleInternals as _};
use crate::script::ScriptLimiter;

/// Longer ones are replaced by a digest, in bytes.
const LONGEST: usize = 200;
/// The space for the parts of a key, so that most keys are written without growing.
const USUAL: usize = 48;

/// The key of the limiter of a descriptor that `rule` matches.
pub fn key_of(prefix: &str, rule: &PolicyRule, descriptor: &Descriptor<'_>) -> Vec<u8> {
    let known = prefix.len() + rule.domain().len() + rule.name().len();
    let mut key = String::with_capacity(known + USUAL);
    key.push_str(prefix);
    if let Some(name) = &rule.spec().hash_tag {
        key.push_str("{=");
        let begins = key.len();
        escape(rule.value(descriptor, name).unwrap_or_default(), &mut key);
        shorten(&mut key, begins, "#");
        key.push('}');
    }
    // Domain and rule stay readable: only what comes after them is ever shortened.
    escape(rule.domain(), &mut key);
    key.push(':');
    key.push_str(rule.name());
    let begins = key.len();
    for part in rule.key(descriptor) {
        key.push(':');
        escape(part, &mut key);
    }
    shorten(&mut key, begins, ":#");
    key.into_bytes()
}

/// The key of the limiter of `key` in a namespace outside of all rules:
/// `{prefix}#{namespace}:{key}`, since no domain begins with `#`.
pub(crate) fn key_in(prefix: &str, namespace: &str, key: &[u8]) -> Vec<u8> {
    let mut written = format!("{prefix}#{namespace}:");
    let begins = written.len();
    for chunk in key.utf8_chunks() {
        escape(chunk.valid(), &mut written);
        chunk.invalid().iter().for_each(|byte| escape_byte(*byte, &mut written));
    }
    shorten(&mut written, begins, "#");
    written.into_bytes()
}

/// The key of data about all limiters of a rule, after the prefix: `?{what}:{domain}:{rule}`. It
/// differs from every limiter's key.
pub(crate) fn key_of_rule(rule: &PolicyRule, what: &str) -> String {
    let mut key = format!("?{what}:");
    escape(rule.domain(), &mut key);
    key + ":" + rule.name()
}

/// The key of the remembered answer to a request with an id: `{prefix}{tag}?digest`, with the tag
/// of the limiter whose key is least, in whatever order they are given. It differs from every
/// limiter's key.
pub(crate) fn answer_key(
    prefix: &str,
    id: RequestIdentity<'_>,
    limiters: &[ScriptLimiter<'_>],
) -> Vec<u8> {
    let mut limiters = limiters.to_vec();
    limiters.sort_by_key(|one| one.identity().0);
    let first = limiters.first().map_or(&[][..], |first| first.identity().0);
    let mut key = prefix.as_bytes().to_vec();
    match first.iter().position(|byte| *byte == b'{') {
        Some(begins) => {
            let tag = first[begins..].split_inclusive(|byte| *byte == b'}').next();
            key.extend_from_slice(tag.unwrap_or_default());
        }
        // The whole key chooses its slot.
        None => key.extend([b"{", first, b"}"].concat()),
    }
    let digest = request_digest(id, &limiters);
    key.extend(format!("?{:032x}", digest).into_bytes());
    key
}

/// The key of the record of a limiter's leases, in the slot of the limiter's key: that key with `?leases`. It differs from
/// every limiter's key.
pub(crate) fn lease_key(prefix: &str, key: &[u8]) -> Vec<u8> {
    if key.contains(&b'{') {
        return [key, b"?leases"].concat();
    }
    // The whole key chooses its slot.
    [prefix.as_bytes(), b"{", key, b"}?leases"].concat()
}

/// The key of the record of a reservation: `{prefix}{digest}?reserved`, with the digest of its name, in a slot of its own.
/// It differs from every limiter's key, and reveals the name to no reader of keys.
pub(crate) fn record_key(prefix: &str, name: &[u8]) -> Vec<u8> {
    format!("{prefix}{{{:x}}}?reserved", Sha256::digest(name)).into_bytes()
}

/// The digest of the identity of a request: its id and verb, and each limiter's key, cost and values.
fn request_digest(id: RequestIdentity<'_>, limiters: &[ScriptLimiter<'_>]) -> u128 {
    let mut digest = Sha256::new();
    add_part(&mut digest, id.id.as_bytes());
    add_part(&mut digest, &[id.reserves.into()]);
    for (key, cost, head) in limiters.iter().map(ScriptLimiter::identity) {
        add_part(&mut digest, key);
        add_part(&mut digest, &cost.to_le_bytes());
        add_part(&mut digest, &head.unwrap_or_default());
    }
    let digest = digest.finalize();
    digest.iter().take(16).fold(0, |all, byte| all << 8 | u128::from(*byte))
}

/// Adds a part with its length, so that the bytes of one part never pass for bytes of the next.
fn add_part(digest: &mut Sha256, part: &[u8]) {
    digest.update((part.len() as u64).to_le_bytes());
    digest.update(part);
}

/// The slot of a cluster that a key belongs to, chosen by the text between its first braces, if
/// there is any, else by all of it.
pub fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let behind = key.get(open + 1..)?;
        // Empty braces are no tag: the whole key chooses the slot.
        let length = behind.iter().position(|byte| *byte == b'}').filter(|length| *length > 0)?;
        behind.get(..length)
    });
    State::<XMODEM>::calculate(tag.unwrap_or(key)) % 16_384
}

/// Replaces the text from `begins` on by `mark` and its digest, if it is longer than [`LONGEST`]. No escaped text
/// contains the mark.
fn shorten(text: &mut String, begins: usize, mark: &str) {
    if text.len() - begins > LONGEST {
        let digest = Sha256::digest(&text[begins..]);
        text.truncate(begins);
        // Writing to a string does not fail.
        let _ = write!(text, "{mark}{digest:x}");
    }
}

/// Writes `%XX` for each byte that has a meaning here or is not visible.
fn escape(text: &str, to: &mut String) {
    if text.bytes().all(|byte| byte.is_ascii_graphic() && !is_special(byte.into())) {
        return to.push_str(text);
    }
    for c in text.chars() {
        if c.is_control() || c == ' ' || is_special(c) {
            let mut bytes = [0; 4];
            c.encode_utf8(&mut bytes).bytes().for_each(|byte| escape_byte(byte, to));
        } else {
            to.push(c);
        }
    }
}

const fn is_special(c: char) -> bool {
    matches!(c, ':' | '{' | '}' | '%' | '#' | '?')
}

fn escape_byte(byte: u8, to: &mut String) {
    // Writing to a string does not fail.
    let _ = write!(to, "%{byte:02X}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Policy, RuleSpec};
    use proptest::prelude::*;
    use std::time::Duration;
    use tidegate_core::{AlgorithmKind, Spec};

    fn spec() -> Spec {
        Spec::new(AlgorithmKind::TokenBucket, 1, Duration::from_secs(1))
    }

    /// The key of a rule of `domain` for entries `a` and `b`.
    fn key(rule: RuleSpec, a: &str, b: &str) -> String {
        let policy = Policy::new(vec![rule]).unwrap();
        let entries = [("a", a), ("b", b)];
        let key = key_of("t:", &policy.rules()[0], &Descriptor::new(&entries));
        String::from_utf8(key).unwrap()
    }

    fn pair(domain: &str) -> RuleSpec {
        RuleSpec::new("r", spec()).in_domain(domain).key(["a", "b"])
    }

    #[test]
    fn a_key_can_be_read() {
        assert_eq!(key(pair("pay"), "ada", "10.0.0.1"), "t:pay:r:ada:10.0.0.1");
        assert_eq!(key(RuleSpec::new("all", spec()), "", ""), "t:default:all");
        assert_eq!(key(pair("é"), "a:b", "{c}"), "t:é:r:a%3Ab:%7Bc%7D");
    }

    #[test]
    fn key_parts_joined_without_escaping_do_not_collide() {
        assert_ne!(key(pair("d"), "a:b", "c"), key(pair("d"), "a", "b:c"));
        assert_ne!(key(pair("d"), "", "a"), key(pair("d"), "a", ""));
        assert_ne!(key(pair("d:r"), "", "a"), key(pair("d"), "r:", "a"));
    }

    #[test]
    fn a_namespace_is_apart_from_every_rule_whatever_its_keys_hold() {
        let of = |key: &[u8]| String::from_utf8(key_in("t:", "n", key)).unwrap();
        assert_eq!(of(b"ada"), "t:#n:ada");
        assert_eq!(of(b"a:b{\xff\xc3"), "t:#n:a%3Ab%7B%FF%C3");
        assert_eq!(of("\u{80}".as_bytes()), "t:#n:%C2%80");
        assert_ne!(of(b"ada"), key(pair("#n"), "ada", ""));
        assert!(of(&[b'x'; 10_000]).len() < 100);
    }

    #[test]
    fn long_keys_are_short_and_differ() {
        let (long, longer) = ("x".repeat(10_000), "x".repeat(10_001));
        let short = key(pair("d"), &long, "");
        assert!(short.len() < 100, "{short}");
        assert_ne!(short, key(pair("d"), &longer, ""));
        assert_ne!(short, key(pair("d"), short.strip_prefix("t:d:r:").unwrap(), ""));
    }

    #[test]
    fn only_a_rule_that_says_so_chooses_the_slot() {
        assert!(!key(pair("d"), "{a}", "}{").contains(['{', '}']));
        let tagged = |name: &str| {
            let rule = RuleSpec::new(name, spec()).key(["a"]).hash_tag("a");
            let key = key(rule, "}x{", "");
            let tag = key.split_once('{').unwrap().1.split_once('}').unwrap().0;
            tag.to_owned()
        };
        assert_eq!(tagged("one"), tagged("two"));
        assert_eq!(tagged("one"), "=%7Dx%7B");
    }

    #[test]
    fn an_answer_lives_in_the_slot_of_the_least_key_and_is_that_requests_alone() {
        let of = |limit| Spec::new(AlgorithmKind::TokenBucket, limit, Duration::from_secs(1));
        let rule = |limit| tidegate_core::Rule::new(of(limit)).unwrap();
        let (ten, nine) = (rule(10), rule(9));
        let key_of = |id: RequestIdentity<'_>, key: &[u8], rule, cost| {
            let limiters: Vec<_> = ScriptLimiter::new(key, rule, cost).into_iter().collect();
            String::from_utf8(answer_key("t:", id, &limiters)).unwrap()
        };
        let check = |id| RequestIdentity { id, reserves: false, reservation: None };
        let key = |id, key: &[u8], rule, cost| key_of(check(id), key, rule, cost);
        let plain = key("a", b"t:d:r:ada", &ten, 1);
        assert!(plain.starts_with("t:{t:d:r:ada}?"), "{plain}");
        let tagged = key("a", b"t:{=ada}d:r:ada", &ten, 1);
        assert!(tagged.starts_with("t:{=ada}?"), "{tagged}");
        let others = [
            tagged,
            key("b", b"t:d:r:ada", &ten, 1),
            key("a", b"t:d:r:bob", &ten, 1),
            key("a", b"t:d:r:ada", &ten, 2),
            key("a", b"t:d:r:ada", &nine, 1),
            key_of(RequestIdentity { reserves: true, ..check("a") }, b"t:d:r:ada", &ten, 1),
        ];
        assert!(!others.contains(&plain));
        assert_eq!(plain, key("a", b"t:d:r:ada", &ten, 1));
        let of_two = |keys: [&[u8]; 2]| {
            let limiters = keys.into_iter().filter_map(|key| ScriptLimiter::new(key, &ten, 1));
            String::from_utf8(answer_key("t:", check("a"), &limiters.collect::<Vec<_>>())).unwrap()
        };
        let two = of_two([b"t:d:r:bob", b"t:d:r:ada"]);
        assert!(two.starts_with("t:{t:d:r:ada}?"), "{two}");
        assert_eq!(two, of_two([b"t:d:r:ada", b"t:d:r:bob"]));
    }

    #[test]
    fn a_slot_is_chosen_by_the_tag_if_there_is_one() {
        assert_eq!(slot_of(b"123456789"), 0x31C3);
        assert_eq!(slot_of(b"t:{123456789}d:r:x"), 0x31C3);
        assert_ne!(slot_of(b"{}123456789"), 0x31C3);
        assert_eq!(slot_of(b"a{b"), State::<XMODEM>::calculate(b"a{b") % 16_384);
    }

    proptest! {
        #[test]
        fn equal_keys_have_equal_parts(
            a in "[a:%{}#?é ]{0,4}", b in "[a:%{}#?é ]{0,4}",
            c in "[a:%{}#?é ]{0,4}", d in "[a:%{}#?é ]{0,4}",
        ) {
            prop_assert_eq!(
                key(pair("d"), &a, &b) == key(pair("d"), &c, &d),
                (&a, &b) == (&c, &d)
            );
        }
    }
}
