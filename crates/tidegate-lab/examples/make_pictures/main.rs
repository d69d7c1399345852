//! Makes the pictures of the documents that no command of `tidegate` draws, and the Chinese pictures.
//!
//! `cargo xtask pictures` writes them. Without the word `write` this program compares the files in
//! `docs/img` and `docs/zh/img` with what it would write, so that a picture never shows an earlier build.
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "a program for developers")]

mod bars;
mod boxes;
mod drawing;
mod edge;

use std::error::Error;
use std::{env, fs};

/// The Chinese words of pictures: the names of some pictures, and after them lines of English and Chinese, which are
/// replaced in this order. A text comes before its own parts.
const CHINESE: &str = include_str!("chinese.txt");

fn main() -> Result<(), Box<dyn Error>> {
    env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))?;
    let values = fs::read_to_string("bench/results/performance.md")?;
    for (name, picture) in [
        ("minute-edge", edge::picture()?),
        ("architecture", boxes::architecture()),
        ("envoy-redis", boxes::envoy_and_redis()),
        ("figures", bars::picture(&values)?),
    ] {
        keep(&format!("docs/img/{name}.svg"), &picture)?;
    }
    for part in CHINESE.split("\n\n") {
        let (names, words) = part.split_once('\n').ok_or("a part of chinese.txt has no words")?;
        let words = words.lines().filter_map(|line| line.split_once('='));
        let mut all = String::new();
        for name in names.split(' ') {
            let english = fs::read_to_string(format!("docs/img/{name}.svg"))?;
            all += &english;
            let chinese = words.clone().fold(english, |svg, (from, to)| svg.replace(from, to));
            keep(&format!("docs/zh/img/{name}.svg"), &chinese)?;
        }
        for (from, _) in words {
            assert!(all.contains(from), "chinese.txt: no picture of {names} has the text {from:?}");
        }
    }
    Ok(())
}

/// Writes a picture, or compares it with its file.
fn keep(file: &str, picture: &str) -> Result<(), Box<dyn Error>> {
    if env::args().any(|word| word == "write") {
        fs::write(file, picture)?;
    } else if fs::read_to_string(file)? != picture {
        return Err(format!("{file} is not of this build: cargo xtask pictures").into());
    }
    println!("{file}");
    Ok(())
}
