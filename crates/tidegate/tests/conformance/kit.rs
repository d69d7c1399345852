//! Tests of behaviours: each over every kind of subject that has it, under every algorithm.

use std::thread;

use tidegate::AlgorithmKind;

use crate::subjects::Case;

/// Runs a behaviour under every algorithm of a kind; a failure names the algorithm.
pub(crate) fn under_every_algorithm<K: ?Sized>(
    kind: &K,
    algorithms: &[AlgorithmKind],
    behaviour: impl Fn(&Case<'_, K>),
) {
    for algorithm in algorithms.iter().copied() {
        let _reported = IfItFails(algorithm);
        behaviour(&Case { kind, algorithm });
    }
}

/// Prints the algorithm under which a test failed.
struct IfItFails(AlgorithmKind);

impl Drop for IfItFails {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("it failed under {}", self.0);
        }
    }
}

/// Tests of behaviours, one for each kind: a module with the name of the behaviour and in it a test for each kind.
macro_rules! kit {
    ($ability:ident: [$($(#[$only:meta])? $kind:ident: $make:expr),* $(,)?] $behaviour:ident) => {
        mod $behaviour {
            $($(#[$only])?
            #[test]
            fn $kind() {
                use $crate::kit::under_every_algorithm;
                use $crate::subjects::$ability;
                let kind = $make;
                let algorithms = (&kind as &dyn $ability).algorithms();
                under_every_algorithm::<dyn $ability>(&kind, &algorithms, super::$behaviour);
            })*
        }
    };
}

/// Like [`kit`], for behaviours that name an algorithm.
macro_rules! kit_of_one {
    ($ability:ident, $algorithm:expr, [$($(#[$only:meta])? $kind:ident: $make:expr),* $(,)?]
     $behaviour:ident) => {
        mod $behaviour {
            use $crate::kit::under_every_algorithm;
                use $crate::subjects::$ability;
            use tidegate::AlgorithmKind;

            $($(#[$only])?
            #[test]
            fn $kind() {
                under_every_algorithm::<dyn $ability>(&$make, &[$algorithm], super::$behaviour);
            })*
        }
    };
}

/// Behaviours of everything that limits.
macro_rules! every_subject {
    ($($behaviour:ident),* $(,)?) => {
        $($crate::kit::kit! {
            Kind: [
                limiter: $crate::subjects::Single,
                keyed_packed: $crate::subjects::Keyed::Packed,
                keyed_sharded: $crate::subjects::Keyed::Sharded,
                planned: $crate::subjects::Planned,
                gate_packed: $crate::subjects::InProcess::Packed,
                gate_sharded: $crate::subjects::InProcess::Sharded,
                #[cfg(feature = "redis")]
                redis: $crate::subjects::stores::Redis::start(),
                #[cfg(feature = "redis")]
                cluster: $crate::subjects::stores::Cluster::start(),
            ]
            $behaviour
        })*
    };
}

/// Behaviours of everything that can bound its keys: not of a limiter without a key, and not of a cluster, where each
/// node has room for its own part.
macro_rules! every_capped_subject {
    ($($behaviour:ident),* $(,)?) => {
        $($crate::kit::kit! {
            Capped: [
                keyed_packed: $crate::subjects::Keyed::Packed,
                keyed_sharded: $crate::subjects::Keyed::Sharded,
                planned: $crate::subjects::Planned,
                gate_packed: $crate::subjects::InProcess::Packed,
                gate_sharded: $crate::subjects::InProcess::Sharded,
                #[cfg(feature = "redis")]
                redis: $crate::subjects::stores::Redis::start(),
            ]
            $behaviour
        })*
    };
}

/// Behaviours of every gate, over any store.
macro_rules! every_gate {
    ($($behaviour:ident),* $(,)?) => {
        $($crate::kit::kit! {
            Store: [
                packed: $crate::subjects::InProcess::Packed,
                sharded: $crate::subjects::InProcess::Sharded,
                #[cfg(feature = "redis")]
                redis: $crate::subjects::stores::Redis::start(),
                #[cfg(feature = "redis")]
                cluster: $crate::subjects::stores::Cluster::start(),
            ]
            $behaviour
        })*
    };
}

/// Behaviours of gates that decide all limiters of a request in one step: not of those over a cluster, which go from
/// slot to slot, remember no answers, and bound the keys of each node.
macro_rules! every_gate_of_one_step {
    ($($behaviour:ident),* $(,)?) => {
        $($crate::kit::kit! {
            Store: [
                packed: $crate::subjects::InProcess::Packed,
                sharded: $crate::subjects::InProcess::Sharded,
                #[cfg(feature = "redis")]
                redis: $crate::subjects::stores::Redis::start(),
            ]
            $behaviour
        })*
    };
}

/// Behaviours of gates with reported usage, under every algorithm except the queue, for which usage cannot be reported.
macro_rules! every_gate_that_is_reported_to {
    ($($behaviour:ident),* $(,)?) => {
        $($crate::kit::kit! {
            Store: [
                packed: $crate::subjects::gates::Reported($crate::subjects::InProcess::Packed),
                sharded: $crate::subjects::gates::Reported($crate::subjects::InProcess::Sharded),
                #[cfg(feature = "redis")]
                redis: $crate::subjects::gates::Reported($crate::subjects::stores::Redis::start()),
            ]
            $behaviour
        })*
    };
}

/// Behaviours in time, of everything with a clock that a test can move.
macro_rules! every_subject_in_memory {
    ($algorithm:path => $($behaviour:ident),* $(,)?) => {
        $($crate::kit::kit_of_one! {
            InMemory, $algorithm, [
                limiter: $crate::subjects::Single,
                keyed_packed: $crate::subjects::Keyed::Packed,
                keyed_sharded: $crate::subjects::Keyed::Sharded,
                planned: $crate::subjects::Planned,
                gate_packed: $crate::subjects::InProcess::Packed,
                gate_sharded: $crate::subjects::InProcess::Sharded,
            ]
            $behaviour
        })*
    };
    ($($behaviour:ident),* $(,)?) => {
        $($crate::kit::kit! {
            InMemory: [
                limiter: $crate::subjects::Single,
                keyed_packed: $crate::subjects::Keyed::Packed,
                keyed_sharded: $crate::subjects::Keyed::Sharded,
                planned: $crate::subjects::Planned,
                gate_packed: $crate::subjects::InProcess::Packed,
                gate_sharded: $crate::subjects::InProcess::Sharded,
            ]
            $behaviour
        })*
    };
}

pub(crate) use {
    every_capped_subject, every_gate, every_gate_of_one_step, every_gate_that_is_reported_to,
    every_subject, every_subject_in_memory, kit, kit_of_one,
};
