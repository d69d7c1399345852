//! Bars of what was measured: bytes per key, and the time of a decision, from the table of goals.

use std::error::Error;

use crate::drawing::Drawing;

const LEFT: f64 = 236.0;
const WIDTH: f64 = 420.0;

/// A name, a value, and the class of the bar.
type Bar = (&'static str, f64, &'static str);

/// The two numbers of the row that begins with these words.
fn row(page: &str, begins: &str) -> Result<(f64, f64), Box<dyn Error>> {
    let found = page.lines().find(|line| line.starts_with(&format!("| {begins}")));
    let found = found.ok_or_else(|| format!("no row of the page begins with {begins}"))?;
    let cells: Vec<_> = found.split('|').map(str::trim).collect();
    let [_, _, _, got, _, last, ..] = cells[..] else {
        return Err(format!("too few cells: {found}").into());
    };
    Ok(match last.split_once(" / ") {
        Some((own, other)) => (own.parse()?, other.parse()?),
        // The row of bytes has ours as what was got, and the other as a remark.
        None => (got.parse()?, last.rsplit(' ').next().unwrap_or_default().parse()?),
    })
}

pub(crate) fn picture(page: &str) -> Result<String, Box<dyn Error>> {
    let (few, few_other) = row(page, "1 key, text / `governor/String`")?;
    let (many, many_other) = row(page, "1,000,000 keys, text / `governor/String`")?;
    let (batch, _) = row(page, "1,000,000 keys, text, `check_many`")?;
    let (bytes, bytes_other) = row(page, "bytes per key, `token_bucket`")?;
    let mut drawing =
        Drawing::new(760, 344, "Time of a decision and bytes per key, next to governor");
    drawing.text(
        "ink",
        17,
        "start",
        (20.0, 30.0),
        "A decision of a token bucket per key, and the memory of a key",
    );
    drawing.text(
        "grey",
        13,
        "start",
        (20.0, 52.0),
        "Measured; machine, method and commands are in docs/PERFORMANCE.md. Shorter is better.",
    );
    let groups: [(&str, &str, &[Bar]); 3] = [
        (
            "ns of CPU time, one key",
            "ns",
            &[("Tidegate", few, "bar"), ("governor", few_other, "other")],
        ),
        (
            "ns of CPU time, a million keys",
            "ns",
            &[
                ("Tidegate", many, "bar"),
                ("check_many", batch, "bar"),
                ("governor", many_other, "other"),
            ],
        ),
        (
            "bytes per key, a million keys",
            "bytes",
            &[("Tidegate", bytes, "bar"), ("governor", bytes_other, "other")],
        ),
    ];
    let mut y = 80.0;
    for (heading, unit, bars) in groups {
        let most = bars.iter().map(|(_, value, _)| *value).fold(1.0, f64::max);
        drawing.text("ink", 14, "start", (20.0, y + 14.0), heading);
        for (name, value, class) in bars {
            drawing.text("grey", 12, "end", (LEFT + 76.0, y + 14.0), name);
            let length = (WIDTH - 76.0) * value / most;
            drawing.rect(class, (LEFT + 84.0, y), (length, 20.0));
            drawing.text(
                "ink",
                12,
                "start",
                (LEFT + 90.0 + length, y + 14.0),
                format!("{value} {unit}"),
            );
            y += 28.0;
        }
        y += 22.0;
    }
    Ok(drawing.end())
}
