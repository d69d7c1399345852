//! Reloads of a file, without a server around them.

use std::fs;
use std::sync::Arc;

use tempfile::NamedTempFile;
use tidegate::config;

use super::{Candidate, Cause, ConfigOrigin, Configuration};
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

fn of(file: &NamedTempFile) -> (Arc<Limiters>, Configuration) {
    let text = rules(0);
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
    let (_limiters, configuration) = of(&file);
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
