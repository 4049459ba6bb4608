//! The fault sweep: every write that the controller makes in a scenario, and every watch event that it gets, fails
//! once in each way there is, on the API in memory and on a real control plane; each time the end is the same.
//!
//! `script` is the scenario in chapters, `ground` the server, `stage` one controller (a real process) behind its
//! proxy in a namespace, `snapshot` what is compared, `point` what can go wrong, `rehearsal` the undisturbed run that
//! says which writes and events there are, `sweep` the whole and its table.
//!
//! The test plays the Deployment controller (`Do::Available`): the server moves nothing by itself but garbage, so
//! that the writes and events of a run are the same each time, on both servers.

use rstest_reuse::apply;
use tests::Backend;

tests::both_servers!();

mod ground;
mod point;
mod rehearsal;
mod script;
mod snapshot;
mod stage;
mod sweep;

#[apply(both)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_fails_at_whatever_write_or_event_the_end_is_the_same(#[case] backend: Backend) {
    sweep::run(backend).await;
}
