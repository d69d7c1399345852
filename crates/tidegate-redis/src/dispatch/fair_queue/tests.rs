//! Examples of the order of turns.

use super::*;

fn keys(keys: &[u64]) -> KeyHashes {
    keys.iter().copied().collect()
}

fn all<T>(queue: &mut FairQueue<T>, most: usize) -> Option<Vec<T>> {
    let (items, taken) = queue.take(most, |_, _| true)?;
    queue.answered(&taken);
    Some(items)
}

#[test]
fn requests_about_one_key_go_together_in_the_order_in_which_they_came() {
    let mut queue = FairQueue::new();
    (0..5).for_each(|number| queue.push(keys(&[7]), 0, number));
    assert_eq!(all(&mut queue, 3), Some(vec![0, 1, 2]));
    assert_eq!(all(&mut queue, 3), Some(vec![3, 4]));
    assert_eq!(all(&mut queue, 3), None);
    assert!(queue.keys.is_empty() || queue.keys.values().all(KeyQueue::is_idle));
}

#[test]
fn a_busy_key_holds_up_no_other() {
    let mut queue = FairQueue::new();
    (0..1_000).for_each(|_| queue.push(keys(&[1]), 1, "busy"));
    for _ in 0..3 {
        assert_eq!(all(&mut queue, 10), Some(vec!["busy"; 10]));
        queue.push(keys(&[2]), 2, "polite");
        assert_eq!(all(&mut queue, 10), Some(vec!["polite"]));
    }
}

#[test]
fn requests_wait_under_the_key_that_most_of_them_name() {
    let mut queue = FairQueue::new();
    (0..40).for_each(|user| queue.push(keys(&[1_000 + user, 1]), user, user));
    // The first call did not know that it is busy.
    let mut sizes = Vec::new();
    while let Some(taken) = all(&mut queue, 100) {
        sizes.push(taken.len());
    }
    sizes.sort_unstable();
    assert_eq!(sizes, [1, 39]);
}

#[test]
fn of_many_keys_the_one_whose_source_was_served_least_comes_first() {
    let mut queue = FairQueue::new();
    let mut number = 1_000;
    let mut push = |queue: &mut FairQueue<u64>, source: u64| {
        number += 1;
        queue.push(keys(&[number]), source, source);
    };
    // Sources that ask again as soon as they are answered, with as many requests in the queue as
    // ten calls hold.
    (0..100).for_each(|number| push(&mut queue, 1 + number % 10));
    for _ in 0..1_000 {
        let source = all(&mut queue, 1).unwrap()[0];
        push(&mut queue, source);
    }
    push(&mut queue, 99);
    assert!((0..2).any(|_| all(&mut queue, 1).unwrap() == [99]), "it waits for 100 others");
}

#[test]
fn a_source_that_asks_seldom_comes_before_those_that_always_wait() {
    let (mut queue, busy) = (FairQueue::new(), 1..=40);
    for turn in 0..16 {
        busy.clone().for_each(|source| queue.push(keys(&[1, 100 + source]), source, source));
        let served = (turn > 4).then(|| all(&mut queue, 40));
        assert!(served.is_none_or(|served| served.unwrap().len() == 40));
    }
    // Ten of the busy sources had their next turn.
    assert_eq!(all(&mut queue, 10).unwrap().len(), 10);
    queue.push(keys(&[1, 99]), 99, 99);
    assert!(all(&mut queue, 4).unwrap().contains(&99), "it waits for 30 others");
    // Its next requests get no more than its part.
    (0..4).for_each(|_| queue.push(keys(&[1, 99]), 99, 99));
    let taken = all(&mut queue, 40).unwrap();
    assert!(taken.iter().filter(|source| **source == 99).count() <= 2, "{taken:?}");
}

#[test]
fn new_keys_without_end_keep_none_from_its_next_turn() {
    let mut queue = FairQueue::new();
    (0..100).for_each(|key| queue.push(keys(&[key]), 1, key));
    assert_eq!(all(&mut queue, 1), Some(vec![0]));
    queue.push(keys(&[0]), 1, 0);
    let served = (100..400).any(|key| {
        queue.push(keys(&[key]), 1, key);
        all(&mut queue, 1).unwrap() == [0]
    });
    assert!(served, "it waits for ever");
}

#[test]
fn a_source_that_asks_seldom_does_not_wait_behind_new_keys_without_end() {
    let (mut queue, mut key) = (FairQueue::new(), 1_000);
    let mut ask = |queue: &mut FairQueue<u64>| {
        key += 1;
        queue.push(keys(&[key]), key % 50 + 1, key);
    };
    (0..900).for_each(|_| ask(&mut queue));
    (0..100).for_each(|_| drop(all(&mut queue, 1)));
    for _ in 0..10 {
        queue.push(keys(&[9]), 99, 9);
        assert!((0..2).any(|_| all(&mut queue, 1).unwrap() == [9]), "it waits for 800 others");
        // Many other requests are served before it asks again.
        for _ in 0..900 {
            ask(&mut queue);
            assert_ne!(all(&mut queue, 1).unwrap(), [9]);
        }
    }
}

#[test]
fn within_a_key_each_source_gets_its_part() {
    let mut queue = FairQueue::new();
    (0..90).for_each(|_| queue.push(keys(&[1]), 1, 1));
    (0..3).for_each(|_| queue.push(keys(&[1]), 2, 2));
    let taken = all(&mut queue, 6).unwrap();
    assert_eq!(taken.iter().filter(|source| **source == 2).count(), 3, "{taken:?}");
}

#[test]
fn at_most_two_calls_of_a_key_are_under_way() {
    let mut queue = FairQueue::new();
    (0..3).for_each(|number| queue.push(keys(&[1]), 0, number));
    let first = queue.take(1, |_, _| true).unwrap();
    let _second = queue.take(1, |_, _| true).unwrap();
    assert!(!queue.is_ready() && queue.take(1, |_, _| true).is_none());
    queue.answered(&first.1);
    assert_eq!(queue.take(1, |_, _| true).unwrap().0, [2]);
}

#[test]
fn what_does_not_fit_stays_and_comes_first_the_next_time() {
    let mut queue = FairQueue::new();
    (0..4).for_each(|number| queue.push(keys(&[1]), 0, number));
    let (items, taken) = queue.take(10, |item, _| *item < 2).unwrap();
    assert_eq!(items, [0, 1]);
    queue.answered(&taken);
    assert_eq!(all(&mut queue, 10), Some(vec![2, 3]));
}

#[test]
fn requests_that_need_no_answer_take_no_memory_for_long() {
    let mut queue = FairQueue::new();
    for number in 0..10_000_u64 {
        queue.push(keys(&[number]), number % 7, number);
        if number >= 10 {
            queue.drop_one(|dropped| *dropped + 10 <= number);
        }
        assert!(queue.waiting <= 200, "{}", queue.waiting);
        assert_eq!(queue.len(), 10.min(number as usize + 1));
    }
    assert!(queue.clear().len() <= 200);
    assert_eq!((queue.len(), queue.is_ready()), (0, false));
    assert!(queue.keys.is_empty());
}
