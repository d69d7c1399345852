//! Tests of behaviours: each over every kind of subject that has it, under every algorithm.

use std::thread;

use tidegate::AlgorithmKind;

use crate::subjects::Case;

/// Runs a behaviour under these algorithms; a failure names the algorithm.
pub(crate) fn under_each<K: ?Sized>(
    kind: &K,
    algorithms: Vec<AlgorithmKind>,
    behaviour: impl Fn(&Case<'_, K>),
) {
    for algorithm in algorithms {
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

/// Tests of behaviours: a module with the name of each, and in it a test with the name of each kind that makes it. Kinds
/// after the semicolon are over real stores. A behaviour that names algorithms, or a filter of them, is run under these
/// alone.
macro_rules! kit {
    ($ability:ident $kinds:tt $only:tt => $($behaviour:ident),+ $(,)?) => {
        $($crate::kit::kit! { @module $behaviour $ability $kinds $only })+
    };
    ($ability:ident $kinds:tt $($behaviour:ident),+ $(,)?) => {
        $($crate::kit::kit! { @module $behaviour $ability $kinds [] })+
    };
    (@module $behaviour:ident $ability:ident [$($kind:ident)+ $(; $($store:ident)+)?] $only:tt) => {
        mod $behaviour {
            $($crate::kit::kit! { @test $behaviour $ability $kind $only })+
            $($(
                #[cfg(feature = "redis")]
                $crate::kit::kit! { @test $behaviour $ability $store $only }
            )+)?
        }
    };
    (@test $behaviour:ident $ability:ident $kind:ident $only:tt) => {
        #[test]
        fn $kind() {
            let kind = $crate::subjects::kinds::$kind();
            let kind: &dyn $crate::subjects::$ability = &kind;
            let algorithms = $crate::kit::kit! { @algorithms kind $only };
            $crate::kit::under_each(kind, algorithms, super::$behaviour);
        }
    };
    (@algorithms $kind:ident []) => { $kind.algorithms() };
    (@algorithms $kind:ident [$($only:ident)+]) => { vec![$(tidegate::AlgorithmKind::$only),+] };
    (@algorithms $kind:ident { $is_under:expr }) => {
        $kind.algorithms().into_iter().filter($is_under).collect()
    };
}

/// Behaviours of everything that limits.
macro_rules! every_subject {
    ($($behaviours:tt)+) => {
        $crate::kit::kit! {
            Kind [limiter keyed_packed keyed_sharded planned gate_packed gate_sharded; redis cluster]
            $($behaviours)+
        }
    };
}

/// Behaviours of everything that can bound its keys: not of a limiter without a key, and not of a cluster, where each
/// node has room for its own part.
macro_rules! every_capped_subject {
    ($($behaviours:tt)+) => {
        $crate::kit::kit! {
            Capped [keyed_packed keyed_sharded planned gate_packed gate_sharded; redis] $($behaviours)+
        }
    };
}

/// Behaviours of every gate, over any store.
macro_rules! every_gate {
    ($($behaviours:tt)+) => {
        $crate::kit::kit! { Store [packed sharded; redis cluster] $($behaviours)+ }
    };
}

/// Behaviours of gates that decide all limiters of a request in one step: not of those over a cluster, which go from
/// slot to slot, remember no answers, and bound the keys of each node.
macro_rules! every_gate_of_one_step {
    ($($behaviours:tt)+) => {
        $crate::kit::kit! { Store [packed sharded; redis] $($behaviours)+ }
    };
}

/// Behaviours of gates with reported usage, under every algorithm except queues and permits, for which usage cannot be reported.
macro_rules! every_gate_that_is_reported_to {
    ($($behaviours:tt)+) => {
        $crate::kit::kit! {
            Store [packed sharded; redis]
            { |algorithm| !algorithm.is_queue() && !algorithm.holds_permits() } =>
            $($behaviours)+
        }
    };
}

/// Behaviours in time, of everything with a clock that a test can move.
macro_rules! every_subject_in_memory {
    ($($behaviours:tt)+) => {
        $crate::kit::kit! {
            InMemory [limiter keyed_packed keyed_sharded planned supplied gate_packed gate_sharded] $($behaviours)+
        }
    };
}

pub(crate) use {
    every_capped_subject, every_gate, every_gate_of_one_step, every_gate_that_is_reported_to,
    every_subject, every_subject_in_memory, kit,
};
