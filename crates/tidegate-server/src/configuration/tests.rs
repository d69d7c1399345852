//! Reloads of a file, without a server around them.

use std::fs;
use std::sync::Arc;

use tempfile::NamedTempFile;
use tidegate::{Request, config};

use super::{Candidate, Cause, ConfigOrigin, Configuration, Proposal, PutRefused};
use crate::limiters::Limiters;
use crate::logging::{LevelSwitch, LogLevel};
use crate::policy::Wrong;

fn rules(number: usize) -> String {
    format!(
        "[[rule]]\nname = \"kept\"\nkey = [\"user\"]\nalgorithm = \"token_bucket\"\nrate = \"{}/1s\"\n\
         [[rule]]\nname = \"only-{number}\"\nalgorithm = \"fixed_window\"\nrate = \"1/1ms\"\n",
        number + 1
    )
}

fn of(file: &NamedTempFile, text: String) -> (Arc<Limiters>, Configuration) {
    fs::write(file.path(), &text).unwrap();
    let limiters = Arc::new(Limiters::of(config::parse("test", &text).unwrap()).unwrap());
    let read = |name: &str, text: &str| {
        let policy = config::parse(name, text).map_err(Wrong::Text)?;
        Ok(Candidate { policy, server: Vec::new(), level: LogLevel::Info })
    };
    let file = Some(file.path().to_owned());
    let origin = ConfigOrigin { file, text, server: Vec::new(), read: Box::new(read) };
    let configuration = Configuration::new(Arc::clone(&limiters), origin, LevelSwitch::default());
    (limiters, configuration)
}

#[test]
fn the_watch_tries_each_content_once_and_a_signal_tries_it_again() {
    let file = NamedTempFile::new().unwrap();
    let (_limiters, configuration) = of(&file, rules(0));
    let counts = |causes: &[Cause]| {
        causes.iter().for_each(|cause| configuration.reload(*cause));
        configuration.reloads().counts().map(|(_, count)| count)
    };
    assert_eq!(counts(&[Cause::Watch, Cause::Watch]), [0, 0, 0], "it is in force already");
    fs::write(file.path(), "[[rule]]").unwrap();
    assert_eq!(counts(&[Cause::Watch, Cause::Watch]), [0, 1, 0]);
    assert_eq!(counts(&[Cause::Signal, Cause::Watch]), [0, 2, 0]);
    assert!(configuration.reloads().error().is_some() && configuration.reloads().last_us() > None);
    fs::write(file.path(), rules(7)).unwrap();
    assert_eq!(counts(&[Cause::Watch, Cause::Watch]), [1, 2, 0]);
    assert_eq!(configuration.reloads().error(), None);
    fs::remove_file(file.path()).unwrap();
    assert_eq!(counts(&[Cause::Watch, Cause::Watch]), [1, 3, 0]);
}

#[tokio::test]
async fn a_file_gets_its_content_back_if_its_rules_cannot_be_put_in_force() {
    let log = |most: &str| {
        "[[rule]]\nname = \"log\"\nkey = [\"user\"]\nalgorithm = \"sliding_log\"\nrate = \"1000/1h\"\n".to_owned()
            + &format!("max_memory = \"{most}\"\n")
    };
    let file = NamedTempFile::new().unwrap();
    let (limiters, configuration) = of(&file, log("1MiB"));
    for number in 0..4_000 {
        let user = (number % 20).to_string();
        assert!(limiters.check(&Request::from(&[("user", &*user)])).await.is_allowed());
    }
    let before = configuration.etag();
    let proposal = Proposal {
        text: log("64KiB"),
        expected: Some(before.clone()),
        is_dry_run: false,
        who: "a test".to_owned(),
    };
    let refused = configuration.put(proposal);
    assert!(matches!(&refused, Err(PutRefused::Wrong(_))), "{refused:?}");
    assert_eq!(fs::read_to_string(file.path()).unwrap(), log("1MiB"));
    assert_eq!(configuration.etag(), before);
}
