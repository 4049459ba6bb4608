//! The host and the Go sample-controller on real control planes: the same scenario side by side, one taking over
//! from the other, and what becomes of a Deployment that others edit.
//!
//! `make parity` writes `tests/parity/README.md`; without `BLESS=1` the tests compare with it.

mod allowed;
mod diff;
mod lab;
mod play;
mod report;
mod rolling;
mod scenario;
mod state;
mod takeover;

use lab::{Lab, Side, Site};
use play::play;

/// The scenario of `scenario.rs`, three times: the Go original and the host under upstream's CRD with the status
/// subresource, and the host under ours. What differs is in the table of `allowed.rs`, and nothing else does.
#[cfg_attr(not(control_plane), ignore = "there is no Go to build a control plane with")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn side_by_side_each_difference_is_one_that_the_parity_table_names() {
    let go = async {
        let lab = Lab::start(Site::First, lab::upstream_crd()).await;
        play(lab, Side::Go, "go").await
    };
    let host = async {
        let lab = Lab::start(Site::Second, lab::upstream_crd()).await;
        let under_upstreams = play(lab, Side::Host, "host").await;
        let lab = Lab::start(Site::Second, foo_api::crd()).await;
        (under_upstreams, play(lab, Side::Host, "ours").await)
    };
    let (go, (host, ours)) = tokio::join!(go, host);
    report::check(&go, &host, &ours);
}
