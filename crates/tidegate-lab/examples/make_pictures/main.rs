//! Makes the pictures of the documents that no command of `tidegate` draws.
//!
//! `cargo xtask pictures` writes them. Without the word `write` this program compares the files in
//! `docs/img` with what it would write, so that a picture never shows an earlier build.
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "a program for developers")]

mod bars;
mod boxes;
mod drawing;
mod edge;

use std::error::Error;
use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let values = fs::read_to_string(root.join("bench/results/performance.md"))?;
    let pictures = [
        ("minute-edge", edge::picture()?),
        ("architecture", boxes::architecture()),
        ("envoy-redis", boxes::envoy_and_redis()),
        ("figures", bars::picture(&values)?),
    ];
    let writes = env::args().nth(1).is_some_and(|word| word == "write");
    for (name, picture) in pictures {
        let file = root.join("docs/img").join(name).with_extension("svg");
        if writes {
            fs::write(&file, picture)?;
        } else if fs::read_to_string(&file)? != picture {
            return Err(
                format!("{} is not of this build: cargo xtask pictures", file.display()).into()
            );
        }
        println!("{name}.svg");
    }
    Ok(())
}
