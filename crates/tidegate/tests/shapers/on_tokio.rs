//! A shaper on tokio, whose own clock is paused: slots are exact and nothing takes real time.

use std::cell::RefCell;
use std::time::Duration;

use tidegate::{AlgorithmKind, Shaper, Spec, TokioClock};
use tokio::time::{self, Instant};

fn ten_a_second() -> Shaper<u64, TokioClock> {
    let spec = Spec::new(AlgorithmKind::LeakyQueue, 10, Duration::from_secs(1));
    Shaper::with_clock(spec, TokioClock::new()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_spawned_worker_handles_each_item_in_its_slot() {
    let (shaper, began) = (ten_a_second(), Instant::now());
    let (sender, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let worker = tokio::spawn(shaper.clone().run(move |item| {
        let sent = sender.send((item, began.elapsed()));
        async move { sent.unwrap() }
    }));
    for item in 0..5 {
        shaper.push(item).unwrap();
    }
    time::sleep(Duration::from_millis(220)).await;
    shaper.push(5).unwrap();
    shaper.close();
    worker.await.unwrap();
    let mut all = Vec::new();
    heard.recv_many(&mut all, 10).await;
    assert_eq!(all, [0, 1, 2, 3, 4, 5].map(|item| (item, Duration::from_millis(100 * item))));
}

/// `select!` drops the branches that lose at each of their awaits.
#[tokio::test(start_paused = true)]
async fn a_receiver_that_loses_a_select_loses_no_item() {
    let shaper = ten_a_second();
    for item in 0..10 {
        shaper.push(item).unwrap();
    }
    shaper.close();
    let (out, mut lost) = (RefCell::new(Vec::new()), 0);
    loop {
        tokio::select! {
            item = shaper.next() => match item {
                Some(item) => out.borrow_mut().push(item),
                None => break,
            },
            () = time::sleep(Duration::from_millis(30)) => lost += 1,
        }
    }
    assert_eq!(out.take(), (0..10).collect::<Vec<_>>());
    assert_eq!(lost, 9 * 3);
}
