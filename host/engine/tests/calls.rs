//! What a guest may cost and how each failure reads: obeyed and violated, pair by pair.
#![allow(clippy::unwrap_used, reason = "test code: the lint knows only functions marked as tests")]

mod support;

use contract::{Action, Condition, ConditionStatus, ConditionUpdate, Event, EventType, Foo, StatusUpdate};
use guest_engine::{CallError, Cause, Limits};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use support::{
    Captured, DATA, EMPTY_ANSWER, FOREVER, call, deployment, echo, engine, error, foo, guest, limits, log,
    module,
};

/// An answer of one string: `ok` with a single `apply-deployment` of `len` bytes at `at`.
fn one_manifest(at: usize, len: usize) -> String {
    format!(
        "(i32.store (i32.const 20) (i32.const 512)) (i32.store (i32.const 24) (i32.const 1))
         (i32.store (i32.const 516) (i32.const {at})) (i32.store (i32.const 520) (i32.const {len}))
         (i32.const 16)"
    )
}

/// `ok` with `count` actions `delete-deployment` that all lie in zeroed memory (an action has 24 bytes).
fn deletes(count: usize) -> String {
    format!(
        "(memory.fill (i32.const 2048) (i32.const 1) (i32.const 0))
         (local.set $i (i32.const 0))
         (loop $next
            (i32.store8 (i32.add (i32.const 2048) (i32.mul (local.get $i) (i32.const 24))) (i32.const 1))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $next (i32.lt_u (local.get $i) (i32.const {count}))))
         (i32.store (i32.const 20) (i32.const 2048)) (i32.store (i32.const 24) (i32.const {count}))
         (i32.const 16)"
    )
}

/// `err` of case `case` (0 retry, 1 permanent) with the text at [`DATA`].
fn guest_error(case: u8, len: usize) -> String {
    format!(
        "(i32.store8 (i32.const 16) (i32.const 1)) (i32.store8 (i32.const 20) (i32.const {case}))
         (i32.store (i32.const 24) (i32.const {DATA})) (i32.store (i32.const 28) (i32.const {len}))
         (i32.const 16)"
    )
}

#[tokio::test]
async fn a_guest_that_has_nothing_to_do_answers_with_an_empty_list() {
    let call = call(&guest("", EMPTY_ANSWER).await).await;
    assert_eq!(call.result, Ok(vec![]));
    assert_eq!(call.cause(), Cause::Ok);
    assert!(call.fuel > 0 && call.fuel < 10_000, "{}", call.fuel);
    assert_eq!(call.memory_peak, 1 << 20);
    assert!(call.duration > Duration::ZERO);
}

#[tokio::test]
async fn retry_and_permanent_carry_the_guests_text_as_one_clean_line() {
    let data = format!(r#"(data (i32.const {DATA}) "no\nquota\1b[31m")"#);
    let retry = guest(&data, &guest_error(0, 13)).await;
    let retry = error(&retry).await;
    assert_eq!(retry, CallError::Retry("no quota [31m".to_owned()));
    assert_eq!(retry.to_string(), "the guest asks to retry: no quota [31m");
    let permanent = error(&guest(&data, &guest_error(1, 8)).await).await;
    assert_eq!(permanent.to_string(), "the guest gave up: no quota");
    assert_eq!((retry.cause(), permanent.cause()), (Cause::Retry, Cause::Permanent));
}

#[tokio::test]
async fn a_guests_text_is_cut_to_1024_bytes() {
    let fill = format!("(memory.fill (i32.const {DATA}) (i32.const 120) (i32.const 5000))");
    let guest = guest("", &format!("{fill}{}", guest_error(0, 5_000))).await;
    assert_eq!(error(&guest).await, CallError::Retry("x".repeat(1_024)));
}

#[tokio::test]
async fn a_loop_within_the_fuel_ends_and_one_beyond_it_is_stopped_by_fuel() {
    let count = "(local $i i32) (loop $next (local.set $i (i32.add (local.get $i) (i32.const 1)))
                 (br_if $next (i32.lt_u (local.get $i) (i32.const 1000)))) (i32.const 16)";
    let engine = engine(Limits { fuel: 20_000, ..limits() });
    let within = engine.load(module("", "", count)).await.unwrap();
    assert_eq!(call(&within).await.result, Ok(vec![]));
    let beyond = engine.load(module("", "", FOREVER)).await.unwrap();
    let call = call(&beyond).await;
    let error = call.result.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the guest used up its fuel of 20000 units: it may loop, or needs a higher limit"
    );
    assert_eq!((error.cause(), call.fuel), (Cause::Fuel, 20_000));
}

#[tokio::test]
async fn case_46_a_loop_beyond_the_deadline_is_stopped_within_it() {
    let engine = engine(Limits { fuel: u64::MAX, deadline: Duration::from_millis(50), ..limits() });
    let guest = engine.load(module("", "", FOREVER)).await.unwrap();
    let call = call(&guest).await;
    let error = call.result.unwrap_err();
    assert_eq!(error, CallError::Deadline { limit: Duration::from_millis(50) });
    assert_eq!(error.to_string(), "the guest ran longer than 0.05 s");
    assert_eq!(error.cause(), Cause::Deadline);
    assert!(call.duration >= Duration::from_millis(50), "{:?}", call.duration);
}

#[tokio::test]
async fn the_deadline_and_the_fuel_cover_start_functions() {
    let start = "(func $start (loop $again (br $again))) (start $start)";
    let fuel = engine(Limits { fuel: 1_000, ..limits() });
    let fuel = fuel.load(module("", start, EMPTY_ANSWER)).await.unwrap();
    assert_eq!(error(&fuel).await.cause(), Cause::Fuel);
    let deadline = engine(Limits { fuel: u64::MAX, deadline: Duration::from_millis(20), ..limits() });
    let deadline = deadline.load(module("", start, EMPTY_ANSWER)).await.unwrap();
    assert_eq!(error(&deadline).await.cause(), Cause::Deadline);
}

#[test]
fn case_45_guests_that_loop_on_every_worker_leave_room_for_other_tasks() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = engine(Limits { fuel: u64::MAX, deadline: Duration::from_millis(200), ..limits() });
        let guest = engine.load(module("", "", FOREVER)).await.unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let turns = Arc::new(AtomicU64::new(0));
        let calls: Vec<_> = (0..2)
            .map(|_| {
                let guest = guest.clone();
                tokio::spawn(async move { guest.reconcile(&foo(), None).await })
            })
            .collect();
        // A timer, as a lease has one: it needs the runtime's driver, not only a turn of a worker.
        let other = tokio::spawn({
            let (done, turns) = (Arc::clone(&done), Arc::clone(&turns));
            async move {
                let mut timer = tokio::time::interval(Duration::from_millis(10));
                while !done.load(Ordering::Relaxed) {
                    timer.tick().await;
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        for call in calls {
            assert_eq!(call.await.unwrap().cause(), Cause::Deadline);
        }
        done.store(true, Ordering::Relaxed);
        other.await.unwrap();
        // 20 of them on an idle machine.
        assert!(turns.load(Ordering::Relaxed) >= 5, "{turns:?}");
    });
}

#[tokio::test]
async fn case_48_recursion_within_the_stack_ends_and_without_end_is_a_stack_overflow() {
    let recurse = "(func $down (param i32) (result i32)
        (if (result i32) (i32.eqz (local.get 0)) (then (i32.const 16))
            (else (i32.and (call $down (i32.sub (local.get 0) (i32.const 1))) (i32.const 16)))))";
    let within = guest(recurse, "(call $down (i32.const 1000))").await;
    assert_eq!(call(&within).await.result, Ok(vec![]));
    let beyond = guest(recurse, "(call $down (i32.const -1))").await;
    let error = error(&beyond).await;
    assert_eq!(
        error.to_string(),
        "the guest overflowed its stack of 524288 bytes: its recursion has no end, or goes too deep"
    );
    assert_eq!(error.cause(), Cause::StackOverflow);
    assert_eq!(call(&within).await.result, Ok(vec![]), "the process lives, and so does the engine");
}

#[tokio::test]
async fn case_48_recursion_near_the_limit_that_logs_is_a_stack_overflow_only() {
    let (_captured, _guard) = Captured::start();
    let recurse = format!("(func $down {} (call $down))", log(1, DATA, 5));
    let data = format!(r#"(data (i32.const {DATA}) "depth")"#);
    let guest = guest(&format!("{recurse}{data}"), "(call $down) (unreachable)").await;
    assert_eq!(error(&guest).await.cause(), Cause::StackOverflow);
}

#[tokio::test]
async fn case_49_memory_within_the_limit_is_given_and_growth_toward_4_gib_says_memory_limit() {
    let grow_to = |pages: usize| {
        format!(
            "(if (i32.eq (memory.grow (i32.const {pages})) (i32.const -1)) (then unreachable)) (i32.const 16)"
        )
    };
    let engine = engine(Limits { memory_bytes: 64 << 20, ..limits() });
    // The module starts with 16 pages.
    let within = engine.load(module("", "", &grow_to(1_008))).await.unwrap();
    let within = call(&within).await;
    assert_eq!((within.result, within.memory_peak), (Ok(vec![]), 64 << 20));
    let beyond = engine.load(module("", "", &grow_to(65_000))).await.unwrap();
    let call = call(&beyond).await;
    let error = call.result.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the guest reached the memory limit of 67108864 bytes: it asked for 4260888576"
    );
    assert_eq!((error.cause(), call.memory_peak), (Cause::Memory, 1 << 20));
}

#[tokio::test]
async fn a_guest_that_copes_with_the_memory_limit_answers() {
    let guest = guest("", "(drop (memory.grow (i32.const 65000))) (i32.const 16)").await;
    assert_eq!(call(&guest).await.result, Ok(vec![]));
}

#[tokio::test]
async fn tables_grow_to_the_limit_and_no_further() {
    let grow = |elements: u32| {
        format!(
            "(if (i32.eq (table.grow $t (ref.null func) (i32.const {elements})) (i32.const -1)) (then unreachable)) (i32.const 16)"
        )
    };
    let table = "(table $t 0 funcref)";
    let engine = engine(Limits { table_elements: 100, ..limits() });
    let within = engine.load(module("", table, &grow(100))).await.unwrap();
    assert_eq!(call(&within).await.result, Ok(vec![]));
    let beyond = engine.load(module("", table, &grow(101))).await.unwrap();
    assert_eq!(error(&beyond).await.cause(), Cause::Trap);
}

#[tokio::test]
async fn case_44_a_panic_is_a_trap_with_the_guests_last_words_and_the_next_call_is_fresh() {
    let (captured, _guard) = Captured::start();
    // Traps when the name of the Foo has 3 bytes. The name's length is the second word of the arguments.
    let items = format!(
        r#"(data (i32.const {DATA}) "panicked at src/lib.rs:7: no image") (func $rust_panic unreachable)"#
    );
    let body = format!(
        "(if (i32.eq (i32.load offset=4 (local.get $in)) (i32.const 3)) (then {} (call $rust_panic))) (i32.const 16)",
        log(3, DATA, 34)
    );
    let guest = guest(&items, &body).await;
    let mut bad = foo();
    bad.metadata.name = "bad".to_owned();
    for good in 0..9 {
        assert_eq!(call(&guest).await.result, Ok(vec![]), "{good}");
        let error = guest.reconcile(&bad, None).await.result.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the guest trapped: panicked at src/lib.rs:7: no image (wasm trap: wasm `unreachable` instruction executed)"
        );
        assert_eq!(error.cause(), Cause::Trap);
    }
    let text = captured.text();
    assert!(text.contains("rust_panic"), "the backtrace is in the log: {text}");
    assert!(text.contains("default/bad"), "{text}");
}

#[tokio::test]
async fn a_trap_without_last_words_is_named() {
    let guest = guest("", "(drop (i32.div_u (i32.const 1) (i32.const 0))) (unreachable)").await;
    assert_eq!(error(&guest).await.to_string(), "the guest trapped: wasm trap: integer divide by zero");
}

#[tokio::test]
async fn case_50_an_answer_within_the_limit_is_taken_and_a_larger_one_refused_before_it_is_read() {
    let engine = engine(Limits { result_bytes: 4_096, ..limits() });
    let fill = "(memory.fill (i32.const 2048) (i32.const 97) (i32.const 4096))";
    let within = engine.load(module("", "", &format!("{fill}{}", one_manifest(2_048, 3_500)))).await.unwrap();
    assert_eq!(call(&within).await.result, Ok(vec![Action::ApplyDeployment("a".repeat(3_500))]));
    let beyond = engine.load(module("", "", &format!("{fill}{}", one_manifest(2_048, 4_097)))).await.unwrap();
    let error = error(&beyond).await;
    assert_eq!(error, CallError::ResultTooLarge { limit: 4_096 });
    assert_eq!(error.to_string(), "the guest's answer is larger than 4096 bytes");
    assert_eq!(error.cause(), Cause::ResultTooLarge);
}

#[tokio::test]
async fn case_50_a_string_of_500_mb_and_ten_million_actions_are_refused() {
    let engine = engine(Limits { memory_bytes: 1 << 30, ..limits() });
    let grow = "(drop (memory.grow (i32.const 8000)))";
    for answer in [
        one_manifest(65_536, 500_000_000),
        "(i32.store (i32.const 20) (i32.const 65536)) (i32.store (i32.const 24) (i32.const 10000000)) (i32.const 16)"
            .to_owned(),
    ] {
        let guest = engine.load(module("", "", &format!("{grow}{answer}"))).await.unwrap();
        assert_eq!(error(&guest).await, CallError::ResultTooLarge { limit: 1 << 20 });
    }
}

#[tokio::test]
async fn case_50_elements_that_alias_one_buffer_count_each() {
    // 30 manifests of 60,000 bytes, all the same bytes.
    let body = "(local $i i32)
        (memory.fill (i32.const 65536) (i32.const 97) (i32.const 60000))
        (loop $next
            (i32.store (i32.add (i32.const 2052) (i32.mul (local.get $i) (i32.const 24))) (i32.const 65536))
            (i32.store (i32.add (i32.const 2056) (i32.mul (local.get $i) (i32.const 24))) (i32.const 60000))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $next (i32.lt_u (local.get $i) (i32.const 30))))
        (i32.store (i32.const 20) (i32.const 2048)) (i32.store (i32.const 24) (i32.const 30)) (i32.const 16)";
    assert_eq!(error(&guest("", body).await).await.cause(), Cause::ResultTooLarge);
}

#[tokio::test]
async fn as_many_actions_as_allowed_are_taken_and_one_more_refused() {
    let within = guest("", &format!("(local $i i32){}", deletes(32))).await;
    assert_eq!(call(&within).await.result, Ok(vec![Action::DeleteDeployment; 32]));
    let beyond = error(&guest("", &format!("(local $i i32){}", deletes(33))).await).await;
    assert_eq!(beyond, CallError::TooManyActions { found: 33, limit: 32 });
    assert_eq!(beyond.to_string(), "the guest's answer has 33 actions, the limit is 32");
    assert_eq!(beyond.cause(), Cause::ResultTooLarge);
}

#[tokio::test]
async fn an_answer_that_is_no_utf8_or_out_of_memory_is_a_trap() {
    let data = r#"(data (i32.const 1024) "\ff\fe")"#;
    let invalid = error(&guest(data, &one_manifest(1_024, 2)).await).await;
    assert_eq!(invalid.cause(), Cause::Trap);
    assert!(invalid.to_string().contains("utf-8"), "{invalid}");
    let outside = error(&guest("", &one_manifest(1_000_000, 100_000)).await).await;
    assert_eq!(outside.cause(), Cause::Trap);
    assert!(outside.to_string().contains("out of bounds"), "{outside}");
    let misaligned = error(&guest("", "(i32.const 17)").await).await;
    assert_eq!(misaligned.cause(), Cause::Trap);
    let discriminant =
        error(&guest("", "(i32.store8 (i32.const 16) (i32.const 9)) (i32.const 16)").await).await;
    assert_eq!(discriminant.cause(), Cause::Trap);
}

#[tokio::test]
async fn each_kind_of_action_arrives() {
    // set-status{3, [{type: "ab", status: false, reason: "c", message: "d"}]}, record-event{warning, "c", "d"},
    // requeue-after(60)
    let items = r#"(data (i32.const 1024) "abcd")
        (data (i32.const 2048)
            "\02\00\00\00" "\03\00\00\00" "\00\0c\00\00" "\01\00\00\00" "\00\00\00\00\00\00\00\00"
            "\03\00\00\00" "\01\00\00\00" "\02\04\00\00" "\01\00\00\00" "\03\04\00\00" "\01\00\00\00"
            "\04\00\00\00" "\3c\00\00\00")
        (data (i32.const 3072)
            "\00\04\00\00" "\02\00\00\00" "\01\00\00\00" "\02\04\00\00" "\01\00\00\00" "\03\04\00\00" "\01\00\00\00")"#;
    let body =
        "(i32.store (i32.const 20) (i32.const 2048)) (i32.store (i32.const 24) (i32.const 3)) (i32.const 16)";
    let actions = call(&guest(items, body).await).await.result.unwrap();
    assert_eq!(
        actions,
        [
            Action::SetStatus(StatusUpdate {
                available_replicas: 3,
                conditions: vec![ConditionUpdate {
                    r#type: "ab".to_owned(),
                    status: ConditionStatus::False,
                    reason: "c".to_owned(),
                    message: "d".to_owned(),
                }],
            }),
            Action::RecordEvent(Event {
                r#type: EventType::Warning,
                reason: "c".to_owned(),
                message: "d".to_owned(),
            }),
            Action::RequeueAfter(60),
        ]
    );
}

#[tokio::test]
async fn the_arguments_arrive_at_their_offsets() {
    // Offsets by the canonical ABI: metadata (80 bytes), spec (16), status (32), context (16), json; deployment.
    let mut foo = foo();
    foo.status.conditions = vec![Condition {
        r#type: "Ready".to_owned(),
        status: ConditionStatus::True,
        reason: "R".to_owned(),
        message: "m".to_owned(),
        last_transition: 1,
        observed_generation: Some(2),
    }];
    for (offset, expected) in
        [(0, "example"), (8, "default"), (16, "0000-1111"), (80, "web"), (144, "{}"), (160, "web")]
    {
        let guest = guest("", &echo(offset)).await;
        let answer = guest.reconcile(&foo, Some(&deployment())).await.result;
        assert_eq!(answer, Ok(vec![Action::ApplyDeployment(expected.to_owned())]), "at {offset}");
    }
}

#[tokio::test]
async fn invariant_7_random_answers_never_panic_the_host() {
    // The answer's bytes come from the arguments' bytes, scrambled: 500 different ones.
    let body = "(local $i i32)
        (loop $next
            (i32.store8 (i32.add (i32.const 16) (local.get $i))
                (i32.rem_u (i32.mul (i32.load8_u (i32.add (local.get $in) (i32.mul (local.get $i) (i32.const 3)))) (i32.const 167)) (i32.const 5)))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $next (i32.lt_u (local.get $i) (i32.const 512))))
        (i32.const 16)";
    let guest = guest("", body).await;
    for round in 0..500_i64 {
        let mut input = Foo::default();
        input.metadata.generation = round * 7_919;
        input.metadata.name = "n".repeat(round as usize % 60);
        input.metadata.created = round;
        let call = guest.reconcile(&input, None).await;
        assert_ne!(call.cause(), Cause::Host);
    }
}
