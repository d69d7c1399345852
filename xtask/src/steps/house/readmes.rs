//! The rule of READMEs: the English and the Chinese one have the same parts and commands.

use std::path::Path;

use super::markdown::{self, Block};
use super::{Findings, House};

const ENGLISH: &str = "README.md";
const CHINESE: &str = "README.zh-CN.md";

/// Compares the two files at the root.
pub(super) fn check(house: &House<'_>) -> Findings {
    let text = |name: &str| {
        let file = house.files.iter().find(|file| file.path == Path::new(name));
        file.map(|file| file.text.as_str())
    };
    match (text(ENGLISH), text(CHINESE)) {
        (Some(english), Some(chinese)) => compare(english, chinese).into(),
        (english, chinese) => {
            let missing = [(ENGLISH, english), (CHINESE, chinese)].into_iter();
            let missing = missing.filter(|(_, text)| text.is_none());
            missing.map(|(name, _)| format!("{name} is missing")).collect::<Vec<_>>().into()
        }
    }
}

fn compare(english: &str, chinese: &str) -> Vec<String> {
    let (english, chinese) = (markdown::read(english), markdown::read(chinese));
    let mut complaints = Vec::new();
    if english.headings != chinese.headings {
        complaints.push(format!(
            "the headings differ (levels {:?} in {ENGLISH}, {:?} in {CHINESE}): \
             translate the parts that are missing",
            english.headings, chinese.headings
        ));
    }
    let (many, few) = (english.blocks.len(), chinese.blocks.len());
    if many != few {
        complaints.push(format!("{many} code blocks in {ENGLISH}, {few} in {CHINESE}"));
    }
    let pairs = english.blocks.iter().zip(&chinese.blocks);
    complaints.extend(pairs.filter(|(one, other)| code(one) != code(other)).map(differ));
    complaints
}

fn differ((english, chinese): (&Block<'_>, &Block<'_>)) -> String {
    format!(
        "{ENGLISH}:{} and {CHINESE}:{}: the code differs; only comments may be translated",
        english.line, chinese.line
    )
}

/// The commands and output in the block, without comments and empty lines.
fn code<'a>(block: &Block<'a>) -> Vec<&'a str> {
    let mark = match block.language {
        "rust" | "lua" | "json" | "js" | "proto" | "go" => "//",
        "text" | "" => return block.lines.clone(),
        _ => "#",
    };
    let lines = block.lines.iter().map(|line| without_comment(line, mark).trim_end());
    std::iter::once(block.language).chain(lines.filter(|line| !line.is_empty())).collect()
}

/// A comment begins at the start of the line or after a blank: `http://` contains none.
fn without_comment<'a>(line: &'a str, mark: &str) -> &'a str {
    let begins = |at: &usize| line[..*at].chars().next_back().is_none_or(char::is_whitespace);
    let comment = line.match_indices(mark).map(|(at, _)| at).find(begins);
    comment.map_or(line, |at| &line[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_translation_passes_also_with_its_comments_translated() {
        let english = "# Start\n```sh\ntidegate serve # begins\n# then\ncurl http://x/#y\n```\n";
        let chinese = "# 开始\n```sh\ntidegate serve  # 启动\ncurl http://x/#y\n```\n";
        assert!(compare(english, chinese).is_empty());
    }

    #[test]
    fn another_command_is_found_where_it_is() {
        let complaints = compare("# A\n```sh\nls\n```\n", "# 一\n\n```sh\nls -l\n```\n");
        assert_eq!(complaints.len(), 1);
        assert!(complaints[0].starts_with("README.md:2 and README.zh-CN.md:3"), "{complaints:?}");
    }

    #[test]
    fn a_missing_part_is_found() {
        let complaints = compare("# A\n## B\n```sh\nls\n```\n", "# 一\n");
        assert_eq!(complaints.len(), 2, "{complaints:?}");
    }

    #[test]
    fn output_has_no_comments() {
        assert_eq!(compare("```text\na # 1\n```\n", "```text\na # 2\n```\n").len(), 1);
    }
}
