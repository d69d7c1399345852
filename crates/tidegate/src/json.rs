//! A decision as JSON, with the same bytes wherever it is written.

mod decision_line;
mod object;

pub use decision_line::DecisionLine;
pub use object::JsonObject;
