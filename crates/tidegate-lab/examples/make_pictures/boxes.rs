//! Two diagrams: the way of a request to its answer, and the deadlines between Envoy and Redis.

use crate::drawing::Drawing;

/// A box with a name and a remark under it.
fn named(
    drawing: &mut Drawing,
    class: &str,
    at: (f64, f64),
    size: (f64, f64),
    name: &str,
    remark: &str,
) {
    drawing.rect(class, at, size);
    let middle = at.0 + size.0 / 2.0;
    let line = at.1 + size.1 / 2.0;
    let name_at = if remark.is_empty() { line + 5.0 } else { line - 4.0 };
    drawing.text("ink", 14, "middle", (middle, name_at), name);
    if !remark.is_empty() {
        drawing.remark(middle, line + 14.0, remark);
    }
}

pub(crate) fn architecture() -> String {
    let mut drawing = Drawing::new(760, 372, "Callers, listeners, the gate and its stores");
    let headings =
        [("Callers", 20.0), ("Listeners", 200.0), ("The gate", 382.0), ("Stores", 610.0)];
    for (heading, x) in headings {
        drawing.text("ink", 16, "start", (x, 30.0), heading);
    }
    let ways = [
        ("Your service", "", "HTTP", "8080"),
        ("Envoy", "", "gRPC", "8081"),
        ("Redis clients", "", "RESP", "6380"),
        ("Operators", "", "Admin", "8082"),
        ("A program in Rust", "library, tower layer", "", ""),
        ("An access log", "replay, compare", "", ""),
    ];
    let mut y = 46.0;
    for (caller, remark, listener, port) in ways {
        named(&mut drawing, "box", (20.0, y), (140.0, 42.0), caller, remark);
        let middle = y + 21.0;
        if listener.is_empty() {
            drawing.arrow(false, (160.0, middle), (382.0, middle));
        } else {
            named(&mut drawing, "box", (200.0, y), (140.0, 42.0), listener, port);
            drawing.arrow(false, (160.0, middle), (200.0, middle));
            drawing.arrow(false, (340.0, middle), (382.0, middle));
        }
        y += 53.0;
    }
    drawing.rect("core", (382.0, 46.0), (180.0, 307.0));
    let steps = [
        ("Rules", "which limits it matches"),
        ("Bans, idempotency keys", "answers without a decision"),
        ("One step, all or nothing", "the algorithms of its limits"),
        ("Waiting", "first come, first served"),
        ("Answer", "yes, no or never, and when"),
    ];
    let mut y = 88.0;
    for (name, remark) in steps {
        drawing.text("ink", 14, "middle", (472.0, y), name);
        drawing.remark(472.0, y + 17.0, remark);
        y += 58.0;
    }
    named(&mut drawing, "box", (610.0, 99.0), (130.0, 58.0), "Memory", "this process");
    named(&mut drawing, "box", (610.0, 205.0), (130.0, 58.0), "Redis, Valkey", "shared by nodes");
    drawing.arrow(true, (562.0, 128.0), (610.0, 128.0));
    drawing.arrow(true, (562.0, 234.0), (610.0, 234.0));
    for (y, text) in
        [(281.0, "by a deadline; else"), (297.0, "each rule's own"), (313.0, "on_store_error")]
    {
        drawing.remark(675.0, y, text);
    }
    drawing.end()
}

pub(crate) fn envoy_and_redis() -> String {
    let mut drawing = Drawing::new(760, 262, "From Envoy to Redis, and the deadline of each step");
    drawing.text("ink", 17, "start", (20.0, 30.0), "Deadlines, and what happens when they pass");
    let boxes = [
        (20.0, "Client", ""),
        (215.0, "Envoy", "rate limit filter"),
        (435.0, "Tidegate", "gRPC, 8081"),
        (640.0, "Redis", "or Valkey"),
    ];
    for (x, name, remark) in boxes {
        let class = if name == "Tidegate" { "core" } else { "box" };
        named(&mut drawing, class, (x, 66.0), (100.0, 56.0), name, remark);
    }
    for (from, to, above, below) in [
        (120.0, 215.0, "request", ""),
        (315.0, 435.0, "descriptors", "timeout 20 ms"),
        (535.0, 640.0, "one script", "timeout 10 ms"),
    ] {
        drawing.arrow(true, (from, 94.0), (to, 94.0));
        let middle = (from + to) / 2.0;
        drawing.remark(middle, 84.0, above);
        drawing.text("red", 12, "middle", (middle, 112.0), below);
    }
    for (x, line, lines) in [
        (
            215.0,
            375.0,
            [
                "Tidegate is silent for longer:",
                "Envoy lets the request through,",
                "or answers 500",
                "(failure_mode_deny: true)",
            ],
        ),
        (
            465.0,
            588.0,
            [
                "Redis is silent for longer: each rule",
                "decides by its on_store_error, local",
                "(this node's share), open or closed;",
                "the answer says that it is degraded",
            ],
        ),
    ] {
        drawing.line("limit", 1.0, "4 3", &[(line, 120.0), (line, 158.0)]);
        for (number, text) in lines.into_iter().enumerate() {
            drawing.text("ink", 13, "start", (x, 178.0 + 19.0 * number as f64), text);
        }
    }
    drawing.end()
}
