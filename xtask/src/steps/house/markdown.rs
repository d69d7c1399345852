//! The parts of Markdown that rules about documents need: headings, code blocks, links.

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Document<'a> {
    /// The level and the text of each heading, in order.
    pub(super) headings: Vec<(usize, &'a str)>,
    /// The fenced code blocks, in order.
    pub(super) blocks: Vec<Block<'a>>,
    /// All other text, with the headings: line number from 1, text.
    pub(super) prose: Vec<(usize, &'a str)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block<'a> {
    /// The line of its fence, from 1.
    pub(super) line: usize,
    /// The language after the fence; empty if none is given.
    pub(super) language: &'a str,
    pub(super) lines: Vec<&'a str>,
}

pub(super) fn read(text: &str) -> Document<'_> {
    let mut document = Document::default();
    let mut fence: Option<&str> = None;
    for (at, line) in text.lines().enumerate() {
        match fence {
            Some(open) if closes(line, open) => fence = None,
            Some(_) => document.blocks.last_mut().into_iter().for_each(|b| b.lines.push(line)),
            None => fence = document.outside(at + 1, line),
        }
    }
    document
}

impl<'a> Document<'a> {
    /// Reads a line outside of a block; returns the fence, if it opens one.
    fn outside(&mut self, line: usize, text: &'a str) -> Option<&'a str> {
        if let Some((fence, language)) = fence(text) {
            self.blocks.push(Block { line, language, lines: Vec::new() });
            return Some(fence);
        }
        self.headings.extend(heading(text));
        self.prose.push((line, text));
        None
    }
}

fn fence(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|c| ['`', '~'].contains(c))?;
    let language = line.trim_start_matches(mark);
    let fence = line.strip_suffix(language)?;
    (fence.len() >= 3 && !language.contains('`')).then(|| (fence, language.trim()))
}

fn closes(line: &str, open: &str) -> bool {
    fence(line).is_some_and(|(fence, rest)| rest.is_empty() && fence.starts_with(open))
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    let is_heading = (1..=6).contains(&level) && text.starts_with([' ', '\t']);
    is_heading.then(|| (level, text.trim()))
}

/// The anchors of the headings, as sites that show Markdown make them.
pub(super) fn anchors(document: &Document<'_>) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (_, text) in &document.headings {
        let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let anchor: String =
            kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect();
        let numbered = (1..).map(|number| format!("{anchor}-{number}"));
        let free =
            std::iter::once(anchor.clone()).chain(numbered).find(|one| !anchors.contains(one));
        anchors.extend(free);
    }
    anchors
}

/// The targets of the links, pictures and reference definitions in a line of prose.
pub(super) fn targets(line: &str) -> Vec<String> {
    let line = without_code(line);
    let after = |mark: &'static str, end: &'static [char]| {
        line.split(mark).skip(1).filter_map(move |rest| rest.split(end).next())
    };
    let inline = after("](", &[')']);
    let html = after("src=\"", &['"']).chain(after("href=\"", &['"']));
    let definition = line.starts_with('[').then(|| line.split_once("]: ")).flatten();
    let found = inline.chain(html).chain(definition.map(|(_, target)| target));
    found.filter_map(bare).collect()
}

/// The address alone, without a title after it and angle brackets around it.
fn bare(target: &str) -> Option<String> {
    let target = target.trim();
    let target = match target.strip_prefix('<') {
        Some(inner) => inner.split('>').next()?,
        None => target.split_whitespace().next()?,
    };
    Some(target.to_owned())
}

/// The line without its inline code, which contains no links.
fn without_code(line: &str) -> String {
    let pieces: Vec<&str> = line.split('`').collect();
    if pieces.len().is_multiple_of(2) {
        return line.to_owned();
    }
    pieces.into_iter().step_by(2).collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_and_blocks_are_distinguished() {
        let text = "# One\ntext\n```sh\n# not a heading\n```\n## Two\n#not one\n";
        let document = read(text);
        assert_eq!(document.headings, [(1, "One"), (2, "Two")]);
        let block = Block { line: 3, language: "sh", lines: vec!["# not a heading"] };
        assert_eq!(document.blocks, [block]);
        assert_eq!(document.prose.last(), Some(&(7, "#not one")));
    }

    #[test]
    fn anchors_are_those_of_the_sites_that_show_pages() {
        let document = read("# `[store]`\n# TG.CHECK and TG.PEEK\n## One\n## One\n# 时间：毫秒\n");
        let expected = ["store", "tgcheck-and-tgpeek", "one", "one-1", "时间毫秒"];
        assert_eq!(anchors(&document), expected);
    }

    #[test]
    fn a_longer_fence_holds_a_shorter_one() {
        let document = read("````md\n```sh\nls\n```\n````\nafter\n");
        assert_eq!(document.blocks.len(), 1);
        assert_eq!(document.blocks[0].lines, ["```sh", "ls", "```"]);
        assert_eq!(document.prose, [(6, "after")]);
    }

    #[test]
    fn links_of_every_kind_are_found() {
        let line = r#"[a](b.md) ![c](<d e.png>) [f](g.md "Title") <img src="h.svg"> `[x](y)`"#;
        assert_eq!(targets(line), ["b.md", "d e.png", "g.md", "h.svg"]);
        assert_eq!(targets("[name]: docs/SPEC.md"), ["docs/SPEC.md"]);
        assert!(targets("see array[0] (or not)").is_empty());
    }

    #[test]
    fn a_picture_inside_a_link_counts_twice() {
        assert_eq!(targets("[![alt](plot.svg)](plots.md)"), ["plot.svg", "plots.md"]);
    }
}
