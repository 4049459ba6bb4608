//! The stand-ins, through the adapter that raw modules of Go and C get: nothing comes in, time is
//! virtual, output goes to the log.
#![allow(clippy::unwrap_used, reason = "test code: the lint knows only functions marked as tests")]

mod support;

use contract::Action;
use guest_engine::{Cause, Engine, Guest};
use std::time::Duration;
use support::{Captured, engine, foo, limits, module};

/// Functions of WASI 0.1 that the guests below call.
const IMPORTS: &str = r#"
    (import "wasi_snapshot_preview1" "args_sizes_get" (func $args (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_prestat_get" (func $prestat (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))"#;

/// Turns the `len` bytes at 1024 into hexadecimal digits at 2048 and answers with them.
fn answer_hex(len: usize) -> String {
    format!(
        "(local.set $i (i32.const 0))
        (loop $next
            (i32.store8 (i32.add (i32.const 2048) (i32.shl (local.get $i) (i32.const 1)))
                (call $digit (i32.shr_u (i32.load8_u (i32.add (i32.const 1024) (local.get $i))) (i32.const 4))))
            (i32.store8 (i32.add (i32.const 2049) (i32.shl (local.get $i) (i32.const 1)))
                (call $digit (i32.and (i32.load8_u (i32.add (i32.const 1024) (local.get $i))) (i32.const 15))))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $next (i32.lt_u (local.get $i) (i32.const {len}))))
        (i32.store (i32.const 20) (i32.const 512)) (i32.store (i32.const 24) (i32.const 1))
        (i32.store (i32.const 516) (i32.const 2048)) (i32.store (i32.const 520) (i32.const {}))
        (i32.const 16)",
        len * 2
    )
}

const DIGIT: &str = "(func $digit (param i32) (result i32)
    (i32.add (local.get 0) (select (i32.const 48) (i32.const 87) (i32.lt_u (local.get 0) (i32.const 10)))))";

async fn load(engine: &Engine, items: &str, body: &str) -> Guest {
    engine.load(module(IMPORTS, &format!("{DIGIT}{items}"), &format!("(local $i i32){body}"))).await.unwrap()
}

/// The bytes that `body` leaves at 1024.
async fn bytes(body: &str, len: usize) -> Vec<u8> {
    let guest = load(&engine(limits()), "", &format!("{body}{}", answer_hex(len))).await;
    let actions = guest.reconcile(&foo(), None).await.result.unwrap();
    let [Action::ApplyDeployment(hex)] = &actions[..] else { panic!("{actions:?}") };
    (0..len).map(|at| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).unwrap()).collect()
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

#[tokio::test]
async fn there_are_no_arguments_no_environment_no_directories_and_no_input() {
    let body = "
        (drop (call $args (i32.const 1024) (i32.const 1028)))
        (drop (call $environ (i32.const 1032) (i32.const 1036)))
        (i32.store (i32.const 1040) (call $prestat (i32.const 3) (i32.const 3000)))
        (i32.store (i32.const 3008) (i32.const 3100)) (i32.store (i32.const 3012) (i32.const 8))
        (i32.store (i32.const 1044) (call $read (i32.const 0) (i32.const 3008) (i32.const 1) (i32.const 1048)))";
    let bytes = bytes(body, 28).await;
    assert_eq!(bytes[..16], [0; 16], "counts and sizes are 0");
    assert_eq!(bytes[16], 8, "bad descriptor: nothing is opened");
    assert_eq!(bytes[20..28], [0; 8], "end of the input");
}

#[tokio::test]
async fn the_wall_clock_is_the_snapshots_and_the_monotonic_one_starts_above_zero_and_moves() {
    let body = "
        (drop (call $clock (i32.const 0) (i64.const 1) (i32.const 1024)))
        (drop (call $clock (i32.const 1) (i64.const 1) (i32.const 1032)))
        (drop (call $clock (i32.const 1) (i64.const 1) (i32.const 1040)))";
    let bytes = bytes(body, 24).await;
    assert_eq!(u64_at(&bytes, 0) / 1_000_000_000, 1_750_000_000);
    assert!(u64_at(&bytes, 8) > 0 && u64_at(&bytes, 8) < u64_at(&bytes, 16));
}

/// Subscribes to 10 s of the monotonic clock and waits.
const SLEEP: &str = "
    (i32.store8 (i32.const 3008) (i32.const 0)) (i32.store (i32.const 3016) (i32.const 1))
    (i64.store (i32.const 3024) (i64.const 10000000000))
    (drop (call $poll (i32.const 3000) (i32.const 3200) (i32.const 1) (i32.const 3300)))";

#[tokio::test]
async fn case_46_a_guest_that_sleeps_10_s_wakes_at_once_and_its_clocks_say_10_s() {
    let read = |at: usize| format!("(drop (call $clock (i32.const 1) (i64.const 1) (i32.const {at})))");
    let body = format!("{}{SLEEP}{}{}", read(1_024), read(1_032), answer_hex(16));
    let guest = load(&engine(limits()), "", &body).await;
    let call = guest.reconcile(&foo(), None).await;
    let Ok([Action::ApplyDeployment(hex)]) = call.result.as_deref() else { panic!("{call:?}") };
    let bytes: Vec<u8> =
        (0..16).map(|at| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).unwrap()).collect();
    assert!(u64_at(&bytes, 8) - u64_at(&bytes, 0) >= 10_000_000_000);
    assert!(call.duration < Duration::from_secs(2), "{:?}", call.duration);
}

#[tokio::test]
async fn random_numbers_are_the_same_for_each_call() {
    let body = "(drop (call $random (i32.const 1024) (i32.const 16)))";
    let first = bytes(body, 16).await;
    assert_eq!(bytes(body, 16).await, first);
    assert_ne!(first, [0; 16]);
}

#[tokio::test]
async fn output_goes_to_the_log_and_a_trap_carries_the_end_of_stderr() {
    let (captured, _guard) = Captured::start();
    let items = r#"(data (i32.const 1024) "hello\nTypeError: x is not a function\n")
        (data (i32.const 3000) "\00\04\00\00\06\00\00\00" "\06\04\00\00\20\00\00\00")"#;
    let body = "(drop (call $write (i32.const 1) (i32.const 3000) (i32.const 1) (i32.const 3100)))
        (drop (call $write (i32.const 2) (i32.const 3008) (i32.const 1) (i32.const 3100))) (unreachable)";
    let guest = load(&engine(limits()), items, body).await;
    let error = guest.reconcile(&foo(), None).await.result.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the guest trapped: TypeError: x is not a function (wasm trap: wasm `unreachable` instruction executed)"
    );
    let text = captured.text();
    assert!(text.lines().any(|line| line.contains("stdout") && line.contains("guest: hello")), "{text}");
    assert!(text.lines().any(|line| line.contains("stderr") && line.contains("guest: TypeError")), "{text}");
}

#[tokio::test]
async fn an_exit_is_a_trap_that_says_so() {
    let guest = load(&engine(limits()), "", "(call $exit (i32.const 3)) (unreachable)").await;
    let error = guest.reconcile(&foo(), None).await.result.unwrap_err();
    assert_eq!(
        (error.to_string().as_str(), error.cause()),
        ("the guest trapped: it called exit(1)", Cause::Trap)
    );
}
