//! Calls beside and after each other: no state crosses them, each has its log lines, its slot and its deadline.
#![allow(clippy::unwrap_used, reason = "test code: the lint knows only functions marked as tests")]

mod support;

use guest_engine::{Cause, Limits};
use std::time::Duration;
use support::{
    Captured, DATA, EMPTY_ANSWER, FOREVER, call, echo, engine, error, foo, guest, limits, log, module,
};

#[tokio::test]
async fn no_state_crosses_calls() {
    // Counts calls in a global and in memory, and answers `retry` from the second on.
    let items = "(global $calls (mut i32) (i32.const 0))";
    let body = "(if (i32.or (global.get $calls) (i32.load (i32.const 40))) (then unreachable))
        (global.set $calls (i32.const 1)) (i32.store (i32.const 40) (i32.const 1)) (i32.const 16)";
    let guest = guest(items, body).await;
    for _ in 0..10 {
        assert_eq!(call(&guest).await.result, Ok(vec![]));
    }
}

#[tokio::test]
async fn the_same_input_gives_the_same_answer_and_burns_the_same_fuel() {
    let guest = guest("", &echo(0)).await;
    let first = call(&guest).await;
    for _ in 0..5 {
        let again = call(&guest).await;
        assert_eq!((&again.result, again.fuel), (&first.result, first.fuel));
    }
}

#[tokio::test]
async fn lines_of_the_log_carry_the_foo_and_are_clean() {
    let (captured, _guard) = Captured::start();
    let data = format!(r#"(data (i32.const {DATA}) "two\nlines\1b[2J")"#);
    let body: String = (0..4).map(|level| log(level, DATA, 13)).collect();
    let guest = guest(&data, &format!("{body}{EMPTY_ANSWER}")).await;
    call(&guest).await.result.unwrap();
    let text = captured.text();
    for level in ["DEBUG", " INFO", " WARN", "ERROR"] {
        let line = text.lines().find(|line| line.starts_with(level) && line.contains("two lines"));
        let line = line.unwrap_or_else(|| panic!("no {level} in {text}"));
        assert!(line.contains("guest: two lines [2J") && line.contains("default/example"), "{line}");
    }
}

#[tokio::test]
async fn a_flood_of_log_lines_is_cut_and_what_is_over_is_counted() {
    let (captured, _guard) = Captured::start();
    let fill = format!("(memory.fill (i32.const {DATA}) (i32.const 120) (i32.const 5000))");
    let lines = |count: usize| {
        format!(
            "(local $i i32) {fill} (loop $next {} (local.set $i (i32.add (local.get $i) (i32.const 1)))
             (br_if $next (i32.lt_u (local.get $i) (i32.const {count})))) (i32.const 16)",
            log(1, DATA, 5_000)
        )
    };
    // A line is cut at 4 KiB, and 16 of these fill the share of a call.
    let within = call(&guest("", &lines(16)).await).await;
    assert_eq!((within.result, within.log_dropped), (Ok(vec![]), 0));
    let longest = captured.text().lines().map(str::len).max().unwrap();
    assert!((4_096..4_400).contains(&longest), "{longest}");
    let beyond = call(&guest("", &lines(100)).await).await;
    assert_eq!((beyond.result, beyond.log_dropped), (Ok(vec![]), 84));
    assert!(captured.text().contains("dropped=84"), "what is over is counted in the log");
}

#[tokio::test]
async fn a_log_line_larger_than_an_answer_may_be_is_cut_and_one_of_more_than_4_mib_is_a_trap() {
    let body =
        |len: usize| format!("(drop (memory.grow (i32.const 80))) {} (i32.const 16)", log(1, 1 << 20, len));
    assert_eq!(call(&guest("", &body(4 << 20)).await).await.result, Ok(vec![]));
    assert_eq!(
        error(&guest("", &body((4 << 20) + 1)).await).await.to_string(),
        "the guest trapped: it passed more than 4194304 bytes to the host at once"
    );
}

#[tokio::test]
async fn a_log_line_that_is_no_utf8_is_a_trap() {
    let data = format!(r#"(data (i32.const {DATA}) "\ff")"#);
    let guest = guest(&data, &format!("{}{EMPTY_ANSWER}", log(1, DATA, 1))).await;
    let error = error(&guest).await;
    assert!(error.to_string().contains("utf-8"), "{error}");
}

#[tokio::test]
async fn case_26_and_51_callers_wait_for_a_slot_never_more_run_than_there_are_and_none_fails() {
    let engine = engine(Limits { max_concurrent_calls: 4, ..limits() });
    let guest = engine.load(module("", "", EMPTY_ANSWER)).await.unwrap();
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let guest = guest.clone();
            tokio::spawn(async move { guest.reconcile(&foo(), None).await.result })
        })
        .collect();
    // The pool has as many instances as there are slots: a fifth call at once would fail for want of one.
    for call in calls {
        assert_eq!(call.await.unwrap(), Ok(vec![]));
    }
    assert_eq!(engine.free_slots(), 4);
}

#[tokio::test]
async fn waiting_for_a_slot_does_not_count_in_the_deadline() {
    let limits =
        Limits { max_concurrent_calls: 1, fuel: u64::MAX, deadline: Duration::from_millis(100), ..limits() };
    let engine = engine(limits);
    let slow = engine.load(module("", "", FOREVER)).await.unwrap();
    let quick = engine.load(module("", "", EMPTY_ANSWER)).await.unwrap();
    let foo = foo();
    let (first, second, third) =
        tokio::join!(slow.reconcile(&foo, None), slow.reconcile(&foo, None), quick.reconcile(&foo, None));
    assert_eq!((first.cause(), second.cause()), (Cause::Deadline, Cause::Deadline));
    assert_eq!(third.result, Ok(vec![]));
}

#[tokio::test]
async fn a_dropped_call_gives_its_slot_back() {
    let engine = engine(Limits { max_concurrent_calls: 1, fuel: u64::MAX, ..limits() });
    let slow = engine.load(module("", "", FOREVER)).await.unwrap();
    let quick = engine.load(module("", "", EMPTY_ANSWER)).await.unwrap();
    let foo = foo();
    tokio::select! {
        biased;
        () = tokio::task::yield_now() => {}
        _ = slow.reconcile(&foo, None) => unreachable!("it never ends"),
    }
    assert_eq!(quick.reconcile(&foo, None).await.result, Ok(vec![]));
}

#[tokio::test]
async fn invariant_5_the_deadline_holds_when_the_engine_is_gone_and_the_guest_lives() {
    let engine = engine(Limits { fuel: u64::MAX, deadline: Duration::from_millis(20), ..limits() });
    let guest = engine.load(module("", "", FOREVER)).await.unwrap();
    drop(engine);
    assert_eq!(error(&guest).await.cause(), Cause::Deadline);
}
