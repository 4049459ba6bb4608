//! A stand-in for the Deployment controller, the scheduler and a kubelet: Deployments become available.
//!
//! There are no replica sets and no pods: a change of the spec shows at once as pods that exist, and after a
//! delay as pods that are available. Pods of an old template serve until the new ones are ready.
//! Texts are those of `pkg/controller/deployment/util/deployment_util.go`. Must not know HTTP.

use crate::cluster::Cluster;
use crate::resource::text;
use crate::store::Key;
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use tokio::time::Instant;

const REVISION: &str = "deployment.kubernetes.io/revision";

/// What is remembered of a Deployment.
#[derive(Clone, Debug, Default)]
struct Rollout {
    uid: String,
    /// Hash of the template that its pods have.
    template: u64,
    revision: u64,
    /// Pods that are ready.
    ready: i64,
    /// The latest step, so that an earlier one knows that it is late.
    step: u64,
}

/// The steps that are due, and what is known of each Deployment.
#[derive(Debug, Default)]
pub(crate) struct Kubelet {
    rollouts: HashMap<Key, Rollout>,
    due: BTreeSet<(Instant, Key, u64)>,
    /// Steps so far, of all Deployments.
    steps: u64,
}

impl Kubelet {
    /// When the next step is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.due.first().map(|(when, ..)| *when)
    }

    /// Looks at a Deployment that changed.
    pub(crate) fn look(&mut self, cluster: &mut Cluster, key: &Key) {
        let table = cluster.registry.tables.deployments;
        let Some(object) = cluster.store.get(table, key) else {
            self.rollouts.remove(key);
            return;
        };
        let number = |pointer: &str| object.value.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
        let uid = object.meta("uid");
        let rollout = self.rollouts.entry(key.clone()).or_default();
        if rollout.uid != uid {
            *rollout = Rollout { uid: uid.to_owned(), ..Rollout::default() };
        }
        if number("/status/observedGeneration") >= number("/metadata/generation") || object.deleting() {
            return;
        }
        let desired = number("/spec/replicas");
        let template = hash(object.value.pointer("/spec/template").unwrap_or(&Value::Null));
        let paused = object.value.pointer("/spec/paused") == Some(&Value::Bool(true));
        if rollout.template != template && !paused {
            rollout.template = template;
            rollout.revision += 1;
        }
        rollout.ready = rollout.ready.min(desired);
        self.steps += 1;
        rollout.step = self.steps;
        let delay = cluster.settings.available_after;
        if delay.is_zero() {
            rollout.ready = desired;
        } else {
            self.due.insert((Instant::now() + delay, key.clone(), rollout.step));
        }
        let rollout = rollout.clone();
        write(cluster, key, &rollout);
    }

    /// Does the steps that are due.
    pub(crate) fn run_due(&mut self, cluster: &mut Cluster, now: Instant) {
        while self.next().is_some_and(|when| when <= now) {
            let Some((_, key, step)) = self.due.pop_first() else { return };
            let table = cluster.registry.tables.deployments;
            let desired = cluster
                .store
                .get(table, &key)
                .and_then(|o| o.value.pointer("/spec/replicas").and_then(Value::as_i64))
                .unwrap_or(0);
            let Some(rollout) = self.rollouts.get_mut(&key).filter(|r| r.step == step) else { continue };
            rollout.ready = desired;
            let rollout = rollout.clone();
            write(cluster, &key, &rollout);
        }
    }
}

fn write(cluster: &mut Cluster, key: &Key, rollout: &Rollout) {
    let table = cluster.registry.tables.deployments;
    let (Some(resource), Some(object)) = (cluster.registry.of_table(table), cluster.store.get(table, key))
    else {
        return;
    };
    if object.meta("uid") != rollout.uid {
        return;
    }
    let mut value = object.value.clone();
    value["status"] = status(&value, rollout, &cluster.now());
    if rollout.revision > 0 {
        value["metadata"]["annotations"][REVISION] = rollout.revision.to_string().into();
    }
    cluster.write_status(&resource, key, value);
}

fn hash(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    hasher.finish()
}

/// How many pods may be missing, from `maxUnavailable`.
fn max_unavailable(spec: &Value, desired: i64) -> i64 {
    match spec.pointer("/strategy/rollingUpdate/maxUnavailable") {
        Some(Value::Number(n)) => n.as_i64().unwrap_or(0),
        Some(Value::String(percent)) => {
            percent.trim_end_matches('%').parse::<i64>().unwrap_or(0) * desired / 100
        }
        _ => 0,
    }
}

/// The status of a Deployment; conditions keep their times while they do not change.
fn status(object: &Value, rollout: &Rollout, time: &str) -> Value {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let desired = spec.get("replicas").and_then(Value::as_i64).unwrap_or(0);
    let mut status = Map::new();
    // A pointer in the API's type, so that zero is written; nothing terminates slowly here.
    status.insert("terminatingReplicas".to_owned(), 0.into());
    let mut set = |name: &str, number: i64| {
        // Zeros are left out, as the API does.
        if number != 0 {
            status.insert(name.to_owned(), number.into());
        }
    };
    set("observedGeneration", object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0));
    set("replicas", desired);
    set("updatedReplicas", desired);
    set("readyReplicas", rollout.ready);
    set("availableReplicas", rollout.ready);
    set("unavailableReplicas", (desired - rollout.ready).max(0));
    let set = format!("{}-{}", text(object, "/metadata/name"), pod_template_hash(rollout.template));
    let available = rollout.ready >= desired - max_unavailable(spec, desired);
    let paused = spec.get("paused") == Some(&Value::Bool(true));
    let available = if available {
        ("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.".to_owned())
    } else {
        let text = "Deployment does not have minimum availability.".to_owned();
        ("Available", "False", "MinimumReplicasUnavailable", text)
    };
    let progressing = if paused {
        ("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused".to_owned())
    } else if rollout.ready >= desired {
        let text = format!("ReplicaSet {set:?} has successfully progressed.");
        ("Progressing", "True", "NewReplicaSetAvailable", text)
    } else {
        ("Progressing", "True", "ReplicaSetUpdated", format!("ReplicaSet {set:?} is progressing."))
    };
    let old = object.pointer("/status/conditions").and_then(Value::as_array);
    let conditions: Vec<_> = [available, progressing]
        .into_iter()
        .map(|new| condition(old.map(Vec::as_slice).unwrap_or_default(), new, time))
        .collect();
    status.insert("conditions".to_owned(), conditions.into());
    status.into()
}

fn condition(old: &[Value], new: (&str, &str, &str, String), time: &str) -> Value {
    let (kind, status, reason, message) = new;
    let old = old.iter().find(|c| text(c, "/type") == kind);
    let kept = |field: &str, same: bool| match old.filter(|_| same).map(|c| text(c, field)) {
        Some(old) if !old.is_empty() => old.to_owned(),
        _ => time.to_owned(),
    };
    let same_status = old.is_some_and(|c| text(c, "/status") == status);
    let same =
        same_status && old.is_some_and(|c| text(c, "/reason") == reason && text(c, "/message") == message);
    json!({
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": kept("/lastTransitionTime", same_status),
        "lastUpdateTime": kept("/lastUpdateTime", same),
    })
}

/// Ten characters of the alphabet that the API uses for hashes.
fn pod_template_hash(hash: u64) -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut rest = hash;
    (0..10)
        .map(|_| {
            let at = (rest % 27) as usize;
            rest /= 27;
            char::from(ALPHABET.get(at).copied().unwrap_or(b'x'))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(replicas: i64) -> Value {
        json!({ "metadata": { "name": "web", "generation": 2 }, "spec": { "replicas": replicas,
            "strategy": { "rollingUpdate": { "maxUnavailable": "25%" } } } })
    }

    #[test]
    fn a_deployment_is_available_when_no_more_than_max_unavailable_are_missing() {
        for (ready, expected) in [(2, "False"), (3, "True"), (4, "True")] {
            let rollout = Rollout { ready, ..Rollout::default() };
            let status = status(&object(4), &rollout, "t");
            assert_eq!(status["conditions"][0]["status"], expected, "{ready} of 4");
        }
    }

    #[test]
    fn conditions_keep_their_times_while_they_stay() {
        let mut object = object(1);
        let rollout = Rollout { ready: 1, ..Rollout::default() };
        object["status"] = status(&object, &rollout, "then");
        assert_eq!(status(&object, &rollout, "now"), object["status"]);
        assert_eq!(object["status"]["availableReplicas"], 1);
        assert!(object["status"].get("unavailableReplicas").is_none());
    }

    use crate::admit::Endpoint;
    use crate::cluster::Settings;
    use crate::write::Write;
    use std::sync::Arc;
    use std::time::Duration;

    const DELAY: Duration = Duration::from_secs(5);

    fn cluster() -> Cluster {
        let settings = Settings {
            available_after: DELAY,
            garbage_collector: true,
            fake_kubelet: true,
            clock: Arc::new(|| jiff::Timestamp::UNIX_EPOCH),
        };
        Cluster::new(settings, 100, 1)
    }

    fn web(replicas: i64, image: &str) -> Value {
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "namespace": "default" },
            "spec": { "replicas": replicas, "selector": { "matchLabels": { "a": "b" } }, "template": {
                "metadata": { "labels": { "a": "b" } },
                "spec": { "containers": [{ "name": "c", "image": image }] } } } })
    }

    fn work(cluster: &mut Cluster, kubelet: &mut Kubelet) {
        while cluster.work_once(kubelet) {}
    }

    fn live(cluster: &Cluster) -> Value {
        let key = Key::new("default", "web");
        cluster.store.get(cluster.registry.tables.deployments, &key).unwrap().value.clone()
    }

    fn replace(cluster: &mut Cluster, object: Value) {
        let resource = cluster.registry.of_table(cluster.registry.tables.deployments).unwrap();
        let mut write = Write::internal("m", Endpoint::Main);
        cluster.replace(&resource, &Key::new("default", "web"), object, &mut write).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn pods_are_ready_after_the_delay_and_a_change_starts_it_again() {
        let (mut cluster, mut kubelet) = (cluster(), Kubelet::default());
        cluster.seed(web(2, "i:1")).unwrap();
        work(&mut cluster, &mut kubelet);
        let begun = live(&cluster);
        assert_eq!((&begun["status"]["replicas"], begun["status"].get("readyReplicas")), (&json!(2), None));
        assert_eq!(begun["status"]["conditions"][0]["status"], "False");
        let first = kubelet.next().unwrap();
        tokio::time::advance(DELAY / 2).await;
        replace(&mut cluster, web(3, "i:1"));
        work(&mut cluster, &mut kubelet);
        kubelet.run_due(&mut cluster, first);
        assert_eq!(live(&cluster)["status"].get("readyReplicas"), None);
        let second = kubelet.next().unwrap();
        kubelet.run_due(&mut cluster, second);
        assert_eq!(live(&cluster)["status"]["availableReplicas"], 3);
        assert!(kubelet.next().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_template_is_a_new_revision_while_old_pods_serve() {
        let (mut cluster, mut kubelet) = (cluster(), Kubelet::default());
        cluster.seed(web(2, "i:1")).unwrap();
        work(&mut cluster, &mut kubelet);
        let due = kubelet.next().unwrap();
        kubelet.run_due(&mut cluster, due);
        replace(&mut cluster, web(2, "i:2"));
        work(&mut cluster, &mut kubelet);
        let live = live(&cluster);
        assert_eq!(live["metadata"]["annotations"][REVISION], "2");
        assert_eq!(
            (&live["status"]["readyReplicas"], &live["status"]["observedGeneration"]),
            (&json!(2), &json!(2))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_deployment_keeps_its_template() {
        let (mut cluster, mut kubelet) = (cluster(), Kubelet::default());
        cluster.seed(web(1, "i:1")).unwrap();
        work(&mut cluster, &mut kubelet);
        let mut paused = web(1, "i:2");
        paused["spec"]["paused"] = true.into();
        replace(&mut cluster, paused);
        work(&mut cluster, &mut kubelet);
        let live = live(&cluster);
        assert_eq!(live["metadata"]["annotations"][REVISION], "1");
        assert_eq!(live["status"]["conditions"][1]["reason"], "DeploymentPaused");
    }
}
