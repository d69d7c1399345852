//! A decision as JSON: the same bytes wherever one is written.

mod decision_line;
mod object;

pub use decision_line::DecisionLine;
pub use object::JsonObject;
