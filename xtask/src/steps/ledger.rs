//! The ledger step: no count is above its ceiling.

use anyhow::Result;

use crate::context::Context;
use crate::count;
use crate::step::Outcome;

/// Compares today's figures with `xtask/ledger.toml`.
pub(super) fn run(context: &mut Context) -> Result<Outcome> {
    let complaints = count::compare(context.root())?;
    for complaint in &complaints {
        println!("- {complaint}");
    }
    if complaints.is_empty() {
        return Ok(Outcome::passed());
    }
    Ok(Outcome::Failed(format!("{} complaints, listed above", complaints.len())))
}
