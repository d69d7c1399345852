//! Pictures: the document, its axes and bins, random input, and the file they go to.

mod axes;
mod bins;
mod document;
mod file;
mod random;
