//! A decision that is taken for somebody who may be gone when it comes.

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::KeyMet;
use super::step::{Asked, Store};
use crate::store::redis::StoreError;
use crate::store::redis::script::{Decided, Step};

/// What was decided, until somebody has it. Dropped before, what was taken is given back.
struct Taken {
    store: Store,
    met: Vec<KeyMet>,
    /// `None` once somebody has it.
    told: Option<Result<Decided, StoreError>>,
    /// Whether it stays taken in any case: its answer is remembered, and the same may be asked again.
    stays: bool,
}

impl Store {
    /// Decides and takes, whether this is waited for to its end or not; but what nobody waited for is
    /// given back, unless it has an id and may be asked again.
    pub(super) async fn take(
        &self,
        met: &[KeyMet],
        id: Option<&str>,
    ) -> Result<Decided, StoreError> {
        let (tell, told) = oneshot::channel();
        let (store, met, id) = (self.clone(), met.to_vec(), id.map(str::to_owned));
        tokio::spawn(async move {
            let told = store.step(&met, Asked::new(Step::Ask, id.as_deref())).await;
            let stays = store.answer_key(&met, id.as_deref()).is_some();
            // Where nobody listens any more, it is dropped.
            let _ = tell.send(Taken { store, met, told: Some(told), stays });
        });
        let taken = told.await.ok().and_then(|mut taken| taken.told.take());
        taken.unwrap_or(Err(StoreError::Away))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let Some(Ok(done)) = self.told.take().filter(|_| !self.stays) else { return };
        if !done.allowed {
            return;
        }
        let all = std::mem::take(&mut self.met).into_iter().zip(done.decisions);
        let taken = all.filter(|(met, decision)| met.cost > 0 && decision.is_allowed());
        let (met, store): (Vec<_>, _) = (taken.map(|(met, _)| met).collect(), self.store.clone());
        // Outside of a runtime there is nobody who could, and its connections are gone as well.
        if let Ok(runtime) = Handle::try_current()
            && !met.is_empty()
        {
            runtime.spawn(async move { store.step(&met, Asked::settle(&[])).await });
        }
    }
}
