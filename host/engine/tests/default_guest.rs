//! The prebuilt default guest in this engine: it answers, imports nothing but `log`, and leaves nothing
//! behind. A process of its own, because one test measures the process's memory.
#![allow(clippy::unwrap_used, reason = "test code: the lint knows only functions marked as tests")]

mod support;

use contract::Action;
use guest_engine::Guest;
use support::{deployment, engine, foo, limits};

const GUEST: &[u8] = include_bytes!("../../../artifacts/foo_reconciler.wasm");

async fn guest() -> Guest {
    engine(limits()).load(GUEST).await.unwrap()
}

#[tokio::test]
async fn it_wants_a_deployment_and_gives_the_same_answer_each_time() {
    let guest = guest().await;
    assert!(guest.name().is_some_and(|name| name.contains("foo_reconciler")), "{:?}", guest.name());
    let first = guest.reconcile(&foo(), None).await;
    let actions = first.result.clone().unwrap();
    assert!(actions.iter().any(|action| matches!(action, Action::ApplyDeployment(_))), "{actions:?}");
    // Far below the limit, so that the limit is a limit on what went wrong.
    assert!(first.fuel < 1_000_000, "{}", first.fuel);
    let again = guest.reconcile(&foo(), None).await;
    assert_eq!((again.result, again.fuel), (first.result, first.fuel));
}

/// Resident memory of this process, in bytes.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn case_61_memory_at_call_20_000_is_at_most_2_mib_above_that_at_call_2_000() {
    let guest = guest().await;
    let (foo, deployment) = (foo(), deployment());
    let mut early = 0;
    for call in 1..=20_000 {
        guest.reconcile(&foo, Some(&deployment)).await.result.unwrap();
        if call == 2_000 {
            early = resident();
        }
    }
    let late = resident();
    assert!(late <= early + (2 << 20), "{early} bytes at call 2,000, {late} at 20,000");
}
