//! Plays the scenario with one controller, and keeps a snapshot of each case after each of its steps.

use crate::lab::{Lab, Side};
use crate::scenario::{Act, Case, Expect, RESTART, Step, cases, rounds};
use crate::state::{State, look};
use fault_proxy::Record;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tests::api::PAUSE;
use tests::objects::{at, deployment_path, foo, foo_path};

/// How long a round may take: the Go original sends five requests a second at most, and waits up to as long again
/// as it has waited before it tries once more.
const PATIENCE: Duration = Duration::from_mins(2);

/// No write for so long, after the canary is through, and the round is over.
const QUIET: Duration = Duration::from_millis(400);

/// What one controller made of the scenario.
pub(crate) struct Played {
    /// By case and step.
    pub(crate) snapshots: BTreeMap<(&'static str, &'static str), Value>,
    /// Writes over the scenario that the server took, by verb and resource.
    pub(crate) writes: BTreeMap<String, usize>,
    /// Writes that the server refused.
    pub(crate) refused: usize,
    /// Writes while nothing changes, over one resync, by verb and resource.
    pub(crate) idle: BTreeMap<String, usize>,
    /// Foos that were there meanwhile and control the Deployment that they name.
    pub(crate) served: usize,
    /// How long it took.
    pub(crate) time: Duration,
}

struct Player {
    lab: Lab,
    side: Side,
    prefix: String,
    /// Steps of which the API refused something: what they expect is not to come.
    refused: BTreeSet<(&'static str, &'static str)>,
    /// The number of the last write of the last round.
    last: usize,
}

/// Plays all of it in namespaces that begin with `name`.
pub(crate) async fn play(lab: Lab, side: Side, name: &str) -> Played {
    let started = Instant::now();
    let mut player = Player { lab, side, prefix: format!("{name}-"), refused: BTreeSet::new(), last: 0 };
    let cases = cases();
    for namespace in cases.iter().map(|case| case.name).chain(["canary"]) {
        player.lab.namespace(&format!("{}{namespace}", player.prefix)).await;
    }
    let flags: &[&str] = if side == Side::Host { &["--resync", "1h"] } else { &[] };
    player.lab.run(side, flags).await;
    let mut snapshots = BTreeMap::new();
    for round in 0..rounds(&cases) {
        if round == RESTART {
            player.lab.stop().await;
        }
        let mut answers = BTreeMap::new();
        for case in &cases {
            if let Some(step) = case.steps.get(round) {
                answers.insert(case.name, player.act(case, step).await);
            }
        }
        if round == RESTART {
            player.lab.run(side, flags).await;
        }
        let states = player.rest(round, &cases).await;
        for case in &cases {
            let name = case.title(round);
            if !name.is_empty() {
                let state = states.get(case.name).cloned().unwrap_or_default();
                let mut snapshot = state.snapshot();
                snapshot["answers"] = answers.remove(case.name).unwrap_or(json!({}));
                snapshots.insert((case.name, name), snapshot);
            }
        }
    }
    let last = player.last;
    let writes = player.lab.writes().into_iter().filter(|write| write.number <= last);
    let (taken, refused) = writes.partition::<Vec<_>, _>(taken);
    let served = look(&player.lab.api, &player.prefix).await.values().map(State::served).sum();
    let idle = player.idle(served).await;
    let writes = counted(&taken);
    Played { snapshots, writes, refused: refused.len(), idle, served, time: started.elapsed() }
}

impl Player {
    /// Does what a person does, and says what the API answered where it refused.
    async fn act(&mut self, case: &Case, step: &Step) -> Value {
        let namespace = format!("{}{}", self.prefix, case.name);
        let (foos, deployments) = (foo_path(&namespace, ""), deployment_path(&namespace, ""));
        let api = &self.lab.api;
        let mut answers = json!({});
        for (number, act) in step.acts.iter().enumerate() {
            let answer = match act {
                Act::CreateFoo(foo) => api.try_create(&foos, foo).await,
                Act::PatchFoo(name, patch) => api.try_merge(&format!("{foos}/{name}"), patch).await,
                Act::DeleteFoo(name) => {
                    api.delete(&format!("{foos}/{name}")).await;
                    continue;
                }
                Act::CreateDeployment(deployment) => api.try_create(&deployments, deployment).await,
                Act::PatchDeployment(name, patch) => {
                    api.try_merge(&format!("{deployments}/{name}"), patch).await
                }
                Act::Scale(name, replicas) => {
                    let scale = json!({"spec": {"replicas": replicas}});
                    api.try_merge(&format!("{deployments}/{name}/scale"), &scale).await
                }
                Act::DeleteDeployment(name) => {
                    api.delete(&format!("{deployments}/{name}")).await;
                    continue;
                }
                Act::Wait(expect) => {
                    self.until(case, expect).await;
                    continue;
                }
            };
            if let Err(status) = answer {
                answers[format!("{}", number + 1)] = status.code.into();
                self.refused.insert((case.name, step.name));
            }
        }
        answers
    }

    async fn until(&self, case: &Case, expect: &Expect) {
        tests::api::until(case.name, async || {
            look(&self.lab.api, &self.prefix).await.get(case.name).is_some_and(|state| expect.holds(state))
        })
        .await;
    }

    /// Waits until all has come of the round that is to come, and gives the state of each case.
    async fn rest(&mut self, round: usize, cases: &[Case]) -> BTreeMap<String, State> {
        let start = Instant::now();
        let (mut settled, mut written, mut since) = (false, 0, Instant::now());
        loop {
            let (states, missing) = self.look(round, cases).await;
            if missing.is_none() && !settled {
                settled = true;
                self.canary(round).await;
            }
            let writes = self.lab.writes();
            let now = writes.iter().filter(|write| moves(write)).count();
            if !settled || missing.is_some() || now != written {
                (written, since) = (now, Instant::now());
            } else if since.elapsed() > QUIET {
                self.last = writes.last().map_or(0, |write| write.number);
                return states;
            }
            let why = missing.unwrap_or_else(|| "writes go on".into());
            assert!(
                start.elapsed() < PATIENCE,
                "{:?} does not come to rest in round {round}: {why}",
                self.side
            );
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The states, and the first reason for which they are not final.
    async fn look(&self, round: usize, cases: &[Case]) -> (BTreeMap<String, State>, Option<String>) {
        let states = look(&self.lab.api, &self.prefix).await;
        let nothing = State::default();
        let missing = cases.iter().find_map(|case| {
            let state = states.get(case.name).unwrap_or(&nothing);
            let step = case.steps.get(round);
            let to_come = step.and_then(|step| {
                let refused = self.refused.contains(&(case.name, step.name));
                step.missing(self.side, refused, state)
            });
            let why = to_come.map(|expect| format!("{expect:?}")).or_else(|| state.unsettled());
            why.map(|why| format!("{}: {why}", case.name))
        });
        (states, missing)
    }

    /// A new Foo is served, its Deployment is brought back, and both are told: queues are first in, first out, so
    /// that all that was due before has been done or has failed by then.
    async fn canary(&self, round: usize) {
        let (namespace, name) = (format!("{}canary", self.prefix), format!("canary-{round}"));
        let (api, path) = (&self.lab.api, deployment_path(&namespace, &name));
        api.create(&foo_path(&namespace, ""), &foo(&name, &name)).await;
        api.until(&path, "created", |_| true).await;
        api.merge(&format!("{path}/scale"), &json!({"spec": {"replicas": 2}})).await;
        let back = |one: &Value| at(one, "/metadata/generation") == 3 && at(one, "/spec/replicas") == 1;
        api.until(&path, "brought back", back).await;
        tests::api::until("both are told", async || {
            let states = look(api, &self.prefix).await;
            let told = states["canary"].snapshot()["events"][&name]["Normal Synced"]["count"].as_i64();
            told.is_some_and(|count| count >= 2)
        })
        .await;
    }

    /// Writes over one resync, in which every served Foo is looked at.
    async fn idle(&mut self, served: usize) -> BTreeMap<String, usize> {
        if self.side == Side::Host {
            self.lab.stop().await;
            self.lab.run(self.side, &["--resync", "1s"]).await;
            let calls = async |atleast| {
                tests::api::until("a resync", async || self.lab.guest_calls().await >= atleast).await;
            };
            // A start looks at every Foo, and tells anew what stays wrong.
            calls(served as u64).await;
            self.quiet().await;
            self.lab.proxy.clear();
            let before = self.lab.guest_calls().await;
            calls(before + 2 * served as u64).await;
        } else {
            let all = |writes: &[Record]| {
                let later = writes.iter().filter(|write| write.number > self.last && taken(write));
                let status = later.filter(|write| write.rbac_resource() == "foos/status");
                let seen: BTreeSet<_> = status.map(|write| (&write.namespace, &write.name)).collect();
                (seen.len() >= served).then_some(())
            };
            self.lab.proxy.until("a resync", all).await;
            self.quiet().await;
        }
        let writes = self.lab.writes().into_iter().filter(|write| write.number > self.last && taken(write));
        counted(&writes.collect::<Vec<_>>())
    }

    /// No write for a while, whatever it is about. The Go original's throttle makes pauses of 200 ms.
    async fn quiet(&self) {
        let (mut written, mut since) = (0, Instant::now());
        while since.elapsed() < 3 * QUIET {
            let now = self.lab.writes().len();
            if now != written {
                (written, since) = (now, Instant::now());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// A write that the server took.
pub(crate) fn taken(write: &Record) -> bool {
    write.is_write() && write.status.is_some_and(|status| (200..300).contains(&status))
}

/// Whether it shows that a run is under way. Events come later, and what is refused comes again and again.
fn moves(write: &Record) -> bool {
    taken(write) && write.resource != "events"
}

/// By verb and resource.
pub(crate) fn counted(writes: &[Record]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for write in writes {
        *counts.entry(format!("{} {}", write.verb, write.rbac_resource())).or_default() += 1;
    }
    counts
}
