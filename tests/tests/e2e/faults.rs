//! Field reports that need the fault proxy between the controller and its server, by number (`cases.md`): `watches`
//! those about lists and watches that end, `stale` those about a cache that is behind and about writes that meet
//! other writes, `access` those about getting in.

mod access;
mod stale;
mod watches;

use fault_proxy::{Match, Verb};
use tests::{World, api};

fn watch(resource: &str) -> Match {
    Match::verb(Verb::Watch).resource(resource)
}

fn creates() -> Match {
    Match::verb(Verb::Create).resource("deployments")
}

fn count(world: &World, matching: &Match) -> usize {
    world.proxy.count(matching)
}

/// Both informers have their lists; what is created from now on comes by a watch.
async fn until_synced(world: &World) {
    api::until("ready", async || world.health().text("/readyz").await == Some((200, "ok".into()))).await;
}

async fn no_warning(world: &World, foo: &str) {
    let events = world.events(foo).await;
    assert!(events.iter().all(|event| event["type"] == "Normal"), "{events:#?}");
}
