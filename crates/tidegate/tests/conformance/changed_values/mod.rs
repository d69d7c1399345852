//! Changes of a rule's values, over any store: rules that are amended, and policies that are replaced.

mod amended;
mod replaced;
mod replaced_while_asked;
