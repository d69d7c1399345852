//! Changes of a rule's values in the scripts: plans, values of a request, limits that fall, and the order of two sets of
//! values.

mod from_request;
mod lowered;
mod revisions;
mod values;
