//! The kinds of subjects, by the names of their tests.

#[cfg(feature = "redis")]
use super::stores::{Cluster, Redis};
use super::{InProcess, Keyed, Planned, Single, Supplied};

pub(crate) const fn limiter() -> Single {
    Single
}

pub(crate) const fn keyed_packed() -> Keyed {
    Keyed::Packed
}

pub(crate) const fn keyed_sharded() -> Keyed {
    Keyed::Sharded
}

pub(crate) const fn planned() -> Planned {
    Planned
}

pub(crate) const fn supplied() -> Supplied {
    Supplied
}

pub(crate) const fn gate_packed() -> InProcess {
    InProcess::Packed
}

pub(crate) const fn gate_sharded() -> InProcess {
    InProcess::Sharded
}

pub(crate) const fn packed() -> InProcess {
    InProcess::Packed
}

pub(crate) const fn sharded() -> InProcess {
    InProcess::Sharded
}

#[cfg(feature = "redis")]
pub(crate) fn redis() -> Redis {
    Redis::start()
}

#[cfg(feature = "redis")]
pub(crate) fn cluster() -> Cluster {
    Cluster::start()
}
