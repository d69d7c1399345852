//! Shapers: the queue, who receives, workers, tokio, walks next to a model.

mod amend;
#[cfg(feature = "tokio")]
mod on_tokio;
mod queue;
mod receive;
mod tasks;
mod walk;
mod workers;
