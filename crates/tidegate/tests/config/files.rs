//! Files of rules, right and wrong: the policy of each, or every mistake with its place.

use std::fs;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate::{
    AlgorithmKind, Anchor, Layout, LeaseSpec, Limit, Mode, OnExcess, OnFull, OnStoreError,
    OverrideSpec, RuleSpec, Spec, config,
};

/// Every `.toml` file of a folder next to this file, with its name and text.
fn files(folder: &str) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config").join(folder);
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

fn mistakes(path: &Path, text: &str) -> String {
    let name = path.file_name().unwrap().to_string_lossy();
    match config::parse(&name, text) {
        Ok(_) => panic!("nothing is wrong with {name}"),
        Err(errors) => format!("{errors}\n"),
    }
}

/// The table of mistakes: each `wrong/*.toml` has its messages next to it, as `.txt`. After an intended change,
/// `TIDEGATE_BLESS=1` writes those files again; read the difference.
#[test]
fn every_mistake_is_reported_with_its_place_and_a_hint() {
    let bless = std::env::var_os("TIDEGATE_BLESS").is_some();
    let (mut different, mut marks) = (Vec::new(), 0);
    // Without the feature one mistake more is reported for every `[store]`.
    let files = files("wrong").into_iter();
    let with_store = |path: &Path| path.to_string_lossy().contains("store");
    for (path, text) in files.filter(|(path, _)| cfg!(feature = "redis") || !with_store(path)) {
        let (message, expected) = (mistakes(&path, &text), path.with_extension("txt"));
        if bless {
            fs::write(&expected, &message).unwrap();
        }
        let expected = fs::read_to_string(&expected).unwrap_or_default();
        marks += message.lines().filter(|line| line.ends_with('^')).count();
        if message != expected {
            different.push(format!("--- expected\n{expected}--- found\n{message}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert!(marks > 100, "the table holds {marks} mistakes only");
}

fn spec(algorithm: AlgorithmKind, limit: u64, window: &str) -> Spec {
    Spec::new(algorithm, limit, config::parse_duration(window).unwrap())
}

fn override_on(entries: &[(&str, &str)], change: impl FnOnce(&mut OverrideSpec)) -> OverrideSpec {
    let mut other = OverrideSpec::default();
    other.entries = entries.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    change(&mut other);
    other
}

/// The content of `right/full.toml`, in code.
fn full() -> Vec<RuleSpec> {
    let mut log = spec(AlgorithmKind::SlidingLog, 100, "1s");
    log.resolution = Some(Duration::from_micros(250));
    log.max_memory = Some(64 << 10);
    log.layout = Some(Layout::SortedSet);
    let mut windows = spec(AlgorithmKind::SlidingWindow, 7, "250ms");
    (windows.buckets, windows.strict) = (Some(5), Some(true));
    windows.max_memory = Some(1 << 20);
    let mut first = spec(AlgorithmKind::FixedWindow, 1, "1d");
    first.anchor = Some(Anchor::FirstRequest);
    let mut bucket = spec(AlgorithmKind::TokenBucket, 100, "1s");
    (bucket.capacity, bucket.initial) = (Some(20), Some(0));
    let mut shut = spec(AlgorithmKind::LeakyQueue, 0, "1s");
    shut.window = None;
    vec![
        RuleSpec::new("pay-channel", log)
            .in_domain("pay")
            .when("path", "api/*")
            .when("biz_type", "transfer")
            .key(["channel", "account"])
            .mode(Mode::Shadow)
            .exact()
            .max_keys(50_000, OnFull::Refuse)
            .with_override(override_on(&[("channel", "alipay"), ("account", "7")], |other| {
                other.limit = Some(Limit::Units(500));
            }))
            .with_override(override_on(&[("channel", "alipay")], |other| {
                other.limit = Some(Limit::Units(40));
                other.window = Some(Duration::from_secs(2));
            })),
        RuleSpec::new("windows", windows)
            .lease(LeaseSpec { max_percent: 5, life: Duration::from_millis(100) }),
        RuleSpec::new("first", first).mode(Mode::Off).split(),
        RuleSpec::new("split", spec(AlgorithmKind::FixedWindow, 1, "1d")).split(),
        RuleSpec::new("bucket", bucket)
            .on_excess(OnExcess::Wait { wait: Duration::from_secs(2), max_waiters: 100 })
            .on_store_error(OnStoreError::Local),
        RuleSpec::new("drip", spec(AlgorithmKind::LeakyBucket, 60, "60s"))
            .key(["user"])
            .hash_tag("user")
            .dedupe(Duration::from_millis(1_500))
            .max_life(Duration::from_secs(3_600))
            .across_slots()
            .limit_from_request()
            .near("0.8".parse().unwrap())
            .hide_keys()
            .on_store_error(OnStoreError::Closed)
            .when("tenant", "acme")
            .when("*", "*")
            .with_override(override_on(&[("user", "ann")], |other| {
                other.window = Some(Duration::from_secs(3_600));
                other.capacity = Some(9);
            })),
        RuleSpec::new("open", Spec::unlimited(AlgorithmKind::TokenBucket)),
        RuleSpec::new("shut", shut),
    ]
}

#[test]
fn a_file_with_every_field_becomes_the_rules_it_says() {
    let (path, text) =
        files("right").into_iter().find(|(path, _)| path.ends_with("full.toml")).unwrap();
    let policy = config::parse("full.toml", &text).unwrap_or_else(|errors| panic!("{errors}"));
    let specs: Vec<_> = policy.rules().iter().map(|rule| rule.spec().clone()).collect();
    assert_eq!(specs, full());
    assert_eq!(policy.max_keys().map(NonZeroUsize::get), Some(2_000_000));
    assert_eq!(policy.revision().map(NonZeroU32::get), Some(20_261_123));
    let loaded = config::load(&path).unwrap();
    assert_eq!(loaded.rules().len(), specs.len());
}

#[test]
fn a_rule_written_in_one_line_is_the_same_rule() {
    let text = r#"rule = [{ name = "a", algorithm = "sliding_log", rate = "1/s" }]"#;
    let policy = config::parse("f", text).unwrap();
    assert_eq!(
        policy.rules()[0].spec(),
        &RuleSpec::new("a", spec(AlgorithmKind::SlidingLog, 1, "1s"))
    );
}

#[test]
fn a_rate_alone_is_a_token_bucket_as_it_is_in_rust() {
    let policy = config::parse("f", "[[rule]]\nname = \"a\"\nrate = \"60/m\"\n").unwrap();
    assert_eq!(policy.rules()[0].spec(), &RuleSpec::new("a", "60/m"));
}

/// A `main` that returns a boxed error prints it with `Debug`.
#[test]
fn an_error_that_ends_main_shows_the_line_and_the_mark() {
    let errors = config::parse("rules.toml", "[[rule]]\nnam = \"a\"\n").unwrap_err();
    let error: Box<dyn std::error::Error> = errors.clone().into();
    let shown = format!("{error:?}");
    assert_eq!(shown, errors.to_string());
    assert!(shown.contains("rules.toml:2:1") && shown.contains("^^^"), "{shown}");
}

/// A byte-order mark and carriage returns, as some editors write them, change neither what is read nor
/// where a mistake is.
#[test]
fn a_file_as_other_editors_write_it_is_read_the_same() {
    let of = |rate: &str| {
        format!(
            "\u{feff}[[rule]]\r\nname = \"a\"\r\nalgorithm = \"sliding_log\"\r\nrate = \"{rate}\"\r\n"
        )
    };
    assert!(config::parse("f", &of("1/s")).is_ok());
    let errors = config::parse("f", &of("1")).unwrap_err();
    let message = errors.to_string();
    assert!(message.starts_with("f:4:8: `rate`: \"1\" is not a rate"), "{message}");
    assert!(message.ends_with("\n  4 | rate = \"1\"\n    |        ^^^"), "{message}");
    let first = config::parse("f", "\u{feff}[rule]\r\n").unwrap_err();
    assert_eq!(first.iter().next().map(|error| (error.line, error.column)), Some((1, 1)));
}

/// A named pitfall: a typo that switches limiting off without a word.
#[test]
fn a_typo_that_would_switch_limiting_off_is_an_error() {
    let rule = "name = \"a\"\nalgorithm = \"sliding_log\"\nrate = \"1/s\"\n";
    for text in [
        String::new(),
        format!("[[rules]]\n{rule}"),
        format!("[[Rule]]\n{rule}"),
        format!("[rule]\n{rule}"),
        format!("[[rule]]\n{rule}mode = \"Off\"\n"),
        format!("# [[rule]]\n{}", rule.replace('\n', "\n# ")),
        format!("[[rule]]\n{rule}limitt = 5\n"),
        format!("[[rule]]\n{rule}[[rule.overide]]\nmatch = {{ a = \"b\" }}\nlimit = 1\n"),
    ] {
        assert!(config::parse("f", &text).is_err(), "{text}");
    }
}

fn in_file(name: &str, bytes: &[u8]) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, bytes).unwrap();
    let message = config::load(&path).unwrap_err().to_string();
    message.replace(&path.display().to_string(), name)
}

#[test]
fn a_file_that_can_not_be_read_is_reported_by_its_name() {
    let missing = config::load(Path::new("no/such/file.toml")).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "no/such/file.toml: no such file: expected a TOML file of rules"
    );
    let folder = config::load(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap_err();
    assert_eq!(folder.iter().map(|error| (error.line, error.column)).collect::<Vec<_>>(), [(0, 0)]);
}

#[test]
fn a_file_that_is_not_text_is_reported_with_the_byte() {
    assert_eq!(
        in_file("latin1.toml", b"[[rule]]\nname = \"caf\xe9\"\n"),
        "latin1.toml:2:12: byte 20 of the file is 0xe9, which is not UTF-8 there: expected TOML, saved \
         as UTF-8\n  2 | name = \"caf\u{fffd}\"\n    |            ^"
    );
}

#[test]
fn a_file_in_utf_16_is_reported_as_such_and_a_byte_order_mark_of_utf_8_is_none() {
    for bytes in [b"\xff\xfe[\0", b"\xfe\xff\0["] {
        let message = in_file("wide.toml", bytes);
        assert!(message.starts_with("wide.toml: is UTF-16, as some programs"), "{message}");
    }
    let rule = "[[rule]]\nname = \"r\"\nalgorithm = \"token_bucket\"\nrate = \"1/s\"\n";
    assert!(config::parse("marked.toml", &format!("\u{feff}{rule}")).is_ok());
}

#[test]
fn a_file_that_is_too_large_is_not_read_to_its_end() {
    let answer = in_file("large.toml", &vec![b'#'; (16 << 20) + 1]);
    assert_eq!(answer, "large.toml: larger than 16 MiB: expected a file of rules");
}

#[cfg(feature = "redis")]
#[test]
fn a_store_is_what_its_section_says_and_its_password_is_never_shown() {
    let text = r#"
        [[rule]]
        name = "r"
        algorithm = "token_bucket"
        rate = "1/s"

        [store]
        url = "rediss+sentinel://:secret@a,b:7/main/3"
        username = "tide"
        password_file = "/run/secrets/redis"
        sentinel_username = "ann"
        sentinel_password_env = "SENTINEL"
        tls_roots = "roots.pem"
        tls_cert = "cert.pem"
        tls_key = "key.pem"
        timeout = "25ms"
        key_prefix = "t:"
        max_in_flight = 9
        nodes = 3
        denial_memory = true
    "#;
    let policy = config::parse("f", text).unwrap_or_else(|errors| panic!("{errors}"));
    let mut expected =
        tidegate::StoreSettings::new("rediss+sentinel://:secret@a,b:7/main/3".parse().unwrap());
    expected.username = Some("tide".into());
    expected.password = Some(tidegate::Secret::File("/run/secrets/redis".into()));
    expected.sentinel_username = Some("ann".into());
    expected.sentinel_password = Some(tidegate::Secret::Env("SENTINEL".into()));
    expected.tls_roots = Some("roots.pem".into());
    (expected.tls_cert, expected.tls_key) = (Some("cert.pem".into()), Some("key.pem".into()));
    (expected.timeout, expected.nodes) = (Duration::from_millis(25), Some(3));
    (expected.key_prefix, expected.max_in_flight) = ("t:".into(), 9);
    expected.denial_memory = true;
    assert_eq!(policy.store(), Some(&expected));
    assert!(!format!("{policy:?}").contains("secret@"));
}

#[cfg(not(feature = "redis"))]
#[test]
fn a_store_that_this_build_can_not_reach_is_not_passed_over() {
    let text = "[store]\nurl = \"redis://a\"\n[[rule]]\nname = \"r\"\n\
                algorithm = \"token_bucket\"\nrate = \"1/s\"\n";
    let message = config::parse("f", text).unwrap_err().to_string();
    assert!(message.contains("feature `redis`"), "{message}");
}
