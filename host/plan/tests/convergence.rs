//! What is due, and that a world comes to rest: the planning function against an API server's rules.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{World, apply, default_guest, foo, manifest, wants};
use contract::{Action, Answer, Input};
use plan::{Adopt, Operation, Plan};
use serde_json::{Value, json};

fn paths(plan: &Plan) -> Vec<&str> {
    plan.differences.iter().map(|difference| difference.path.as_str()).collect()
}

fn generation(world: &World) -> i64 {
    world.deployment("web")["metadata"]["generation"].as_i64().unwrap()
}

fn replicas(world: &World) -> &Value {
    &world.deployment("web")["spec"]["replicas"]
}

/// `TestCreatesDeployment` and `TestDoNothing` of the Go original.
#[test]
fn invariant_2_a_converged_foo_costs_no_write() {
    let mut world = World::new(foo());
    world.run(default_guest);
    assert_eq!(world.writes, ["create web", "status"]);
    assert_eq!(world.events, ["Normal Synced Foo synced successfully"]);
    world.make_available("web");
    world.run(default_guest);
    assert_eq!(world.writes, ["create web", "status", "status"]);
    world.forget();
    for _ in 0..10 {
        let conclusion = world.run(default_guest);
        assert_eq!((conclusion.status, conclusion.events), (None, Vec::new()));
    }
    assert!(world.writes.is_empty());
    assert_eq!(generation(&world), 1);
}

/// `TestUpdateDeployment` of the Go original.
#[test]
fn parity_sync_5_changed_replicas_are_applied() {
    let mut world = World::converged();
    world.foo["spec"]["replicas"] = json!(3);
    world.foo["metadata"]["generation"] = json!(2);
    let plan = world.plan(apply(&manifest(Some(3))));
    assert_eq!(paths(&plan), [".spec.replicas"]);
    world.run(default_guest);
    assert_eq!((replicas(&world), generation(&world)), (&json!(3), 2));
    // The first change of what a POST made takes an edit of its managed fields, later ones do not.
    assert_eq!(world.writes, ["adopt web", "apply web", "status"]);
    world.foo["spec"]["replicas"] = json!(4);
    world.forget();
    world.settle(default_guest);
    assert_eq!(world.writes, ["apply web"]);
}

#[test]
fn parity_sync_5_every_field_the_guest_names_is_corrected_and_no_other() {
    let mut world = World::converged();
    world.edit("web", "kubectl", |live| {
        live["spec"]["template"]["spec"]["containers"][0]["image"] = json!("evil:1");
        live["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["-v"]);
        live["spec"]["minReadySeconds"] = json!(7);
        live["metadata"]["labels"] = json!({"team": "a"});
    });
    let plan = world.plan(apply(&manifest(Some(1))));
    assert_eq!(paths(&plan), [".spec.template.spec.containers[name=\"nginx\"].image"]);
    world.settle(default_guest);
    let live = world.deployment("web");
    let container = &live["spec"]["template"]["spec"]["containers"][0];
    assert_eq!((&container["image"], &container["args"]), (&json!("nginx:latest"), &json!(["-v"])));
    assert_eq!(live["spec"]["minReadySeconds"], 7);
    assert_eq!(live["metadata"]["labels"], json!({"team": "a"}));
}

#[test]
fn parity_sync_5_without_replicas_in_the_foo_the_live_number_is_never_changed() {
    let mut world = World::new(foo());
    world.foo["spec"].as_object_mut().unwrap().remove("replicas");
    world.settle(default_guest);
    assert_eq!(replicas(&world), 1);
    world.edit("web", "autoscaler", |live| live["spec"]["replicas"] = json!(5));
    world.forget();
    world.settle(default_guest);
    // Something else is due, and the number still stays.
    let mut labelled = manifest(None);
    labelled["metadata"]["labels"] = json!({"team": "a"});
    world.settle(wants(&labelled));
    assert_eq!(replicas(&world), 5);
    assert_eq!(world.writes, ["adopt web", "apply web"]);
}

#[test]
fn parity_sync_5_replicas_that_are_no_longer_named_keep_their_live_value() {
    for first in [Some(1), Some(3)] {
        let mut world = World::converged();
        world.foo["spec"]["replicas"] = json!(first);
        world.settle(default_guest);
        // Applied once, so that our entry is of either kind.
        for replicas_before in [first, Some(4)] {
            world.foo["spec"]["replicas"] = json!(replicas_before);
            world.settle(default_guest);
            world.foo["spec"]["replicas"] = Value::Null;
            let before = generation(&world);
            world.settle(default_guest);
            assert_eq!(replicas(&world), &json!(replicas_before));
            assert_eq!(generation(&world), before);
        }
    }
}

#[test]
fn case_4_the_servers_defaults_and_rewritten_quantities_are_no_drift() {
    let mut detailed = manifest(Some(2));
    let container = &mut detailed["spec"]["template"]["spec"]["containers"][0];
    container["resources"] = json!({
        "limits": {"cpu": "1000m", "memory": "1024Mi"},
        "requests": {"cpu": "0.5", "memory": "0.5Gi"},
    });
    container["ports"] = json!([{"containerPort": 80}]);
    container["livenessProbe"] = json!({"httpGet": {"path": "/", "port": 80}});
    container["env"] = json!([{"name": "A", "value": "b"}]);
    detailed["spec"]["template"]["spec"]["volumes"] = json!([{"name": "tmp", "emptyDir": {}}]);
    let mut world = World::new(foo());
    for _ in 0..10 {
        world.run(wants(&detailed));
    }
    assert_eq!((world.writes.len(), generation(&world)), (2, 1), "{:?}", world.writes);
}

#[test]
fn case_4_zero_values_that_the_server_leaves_out_are_no_drift() {
    let mut zeros = manifest(Some(1));
    zeros["spec"]["paused"] = json!(false);
    zeros["spec"]["minReadySeconds"] = json!(0);
    zeros["spec"]["template"]["spec"]["hostNetwork"] = json!(false);
    zeros["spec"]["template"]["spec"]["containers"][0]["args"] = json!([]);
    let mut world = World::new(foo());
    world.run(wants(&zeros));
    // As Go's omitempty stores them: not at all, and nobody owns them.
    world.edit("web", foo_api::FIELD_MANAGER, |live| {
        let without = |object: &mut Value, field: &str| {
            object.as_object_mut().unwrap().remove(field);
        };
        without(&mut live["spec"], "paused");
        without(&mut live["spec"], "minReadySeconds");
        without(&mut live["spec"]["template"]["spec"], "hostNetwork");
        without(&mut live["spec"]["template"]["spec"]["containers"][0], "args");
    });
    world.forget();
    world.run(wants(&zeros));
    assert_eq!(world.writes, [""; 0]);
}

#[test]
fn an_empty_map_that_somebody_took_away_is_drift() {
    let mut scratch = manifest(Some(1));
    scratch["spec"]["template"]["spec"]["volumes"] = json!([{"name": "tmp", "emptyDir": {}}]);
    let mut world = World::new(foo());
    world.settle(wants(&scratch));
    world.edit("web", "kubectl", |live| {
        live["spec"]["template"]["spec"]["volumes"] = json!([{"name": "tmp", "hostPath": {"path": "/"}}]);
    });
    let path = ".spec.template.spec.volumes[name=\"tmp\"].emptyDir";
    assert_eq!(paths(&world.plan(apply(&scratch))), [path]);
}

/// Named, so owned: else it would go when whoever set it lets go of it.
#[test]
fn a_field_that_somebody_else_set_to_what_the_guest_wants_becomes_ours_as_well() {
    let mut world = World::converged();
    world.edit("web", "kubectl", |live| live["spec"]["minReadySeconds"] = json!(5));
    let mut same = manifest(Some(1));
    same["spec"]["minReadySeconds"] = json!(5);
    assert_eq!(paths(&world.plan(apply(&same))), [".spec.minReadySeconds"]);
    let before = generation(&world);
    world.run(wants(&same));
    assert_eq!(world.writes[..2], ["adopt web", "apply web"]);
    assert_eq!(world.plan(apply(&same)).operations, []);
    assert_eq!(generation(&world), before);
}

/// `automountServiceAccountToken` absent means true: a guest that newly names false must get it.
#[test]
fn a_false_that_is_not_ours_yet_is_applied() {
    let mut world = World::converged();
    let mut hardened = manifest(Some(1));
    hardened["spec"]["template"]["spec"]["automountServiceAccountToken"] = json!(false);
    world.settle(wants(&hardened));
    let pod = &world.deployment("web")["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], false);
    world.edit("web", "somebody", |live| {
        live["spec"]["template"]["spec"].as_object_mut().unwrap().remove("automountServiceAccountToken");
    });
    world.settle(wants(&hardened));
    let pod = &world.deployment("web")["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], false);
}

#[test]
fn case_4_definition_dropped_fields_a_field_that_is_no_longer_named_goes_with_one_generation() {
    let mut more = manifest(Some(1));
    more["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["-v"]);
    more["spec"]["revisionHistoryLimit"] = json!(3);
    let less = manifest(Some(1));
    let mut world = World::new(foo());
    world.settle(wants(&more));
    for (round, writes) in [vec!["adopt web", "apply web"], vec!["apply web"]].into_iter().enumerate() {
        let before = generation(&world);
        world.forget();
        world.settle(wants(&less));
        let writes_seen: Vec<_> = world.writes.iter().filter(|it| *it != "status").collect();
        assert_eq!(writes_seen, writes, "round {round}");
        assert_eq!(generation(&world), before + 1, "round {round}");
        let spec = &world.deployment("web")["spec"];
        assert_eq!(spec["template"]["spec"]["containers"][0].get("args"), None);
        assert_eq!(spec["revisionHistoryLimit"], 10);
        world.settle(wants(&more));
    }
}

/// The Go original posts and puts as `sample-controller`: its entry is an `Update` that owns the
/// server's defaults as well.
#[test]
fn a_takeover_from_the_go_original_writes_nothing() {
    let mut world = World::converged();
    let entries = world.deployment("web")["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries[0]["operation"], "Update");
    assert!(entries[0].pointer("/fieldsV1/f:spec/f:strategy").is_some());
    assert_eq!(world.plan(apply(&manifest(Some(1)))).operations, []);
    assert_eq!(world.plan(apply(&manifest(None))).operations, []);
    // It had written another number by PUT, and the Foo names none any more: released, not reset.
    world.edit("web", foo_api::FIELD_MANAGER, |live| live["spec"]["replicas"] = json!(3));
    let plan = world.plan(apply(&manifest(None)));
    let [Operation::Apply { adopt, .. }] = plan.operations.as_slice() else { panic!("{plan:?}") };
    assert_eq!(*adopt, Some(Adopt { release_replicas: true }));
    world.foo["spec"]["replicas"] = Value::Null;
    world.settle(default_guest);
    assert_eq!(replicas(&world), 3);
}

#[test]
fn definition_writing_an_apply_carries_the_uid_and_the_version_it_was_planned_from() {
    let world = World::converged();
    let live = &world.deployment("web")["metadata"];
    let plan = world.plan(apply(&manifest(Some(2))));
    let [Operation::Apply { name, uid, resource_version, manifest, adopt }] = plan.operations.as_slice()
    else {
        panic!("{plan:?}")
    };
    assert_eq!(
        (name.as_str(), &json!(uid), &json!(resource_version)),
        ("web", &live["uid"], &live["resourceVersion"])
    );
    assert_eq!(manifest["metadata"]["uid"], live["uid"]);
    assert_eq!(manifest["metadata"]["resourceVersion"], live["resourceVersion"]);
    assert_eq!(manifest["metadata"]["ownerReferences"][0]["uid"], "foo-uid");
    assert_eq!(*adopt, Some(Adopt { release_replicas: false }));
}

#[test]
fn without_apply_and_delete_the_deployment_stays_as_it_is() {
    let mut world = World::converged();
    world.edit("web", "kubectl", |live| live["spec"]["replicas"] = json!(9));
    assert_eq!(world.plan(Vec::new()).operations, []);
    assert_eq!(World::new(foo()).plan(Vec::new()).operations, []);
}

#[test]
fn a_delete_carries_preconditions_and_means_nothing_without_a_deployment() {
    let mut world = World::converged();
    let live = world.deployment("web")["metadata"].clone();
    let plan = world.plan(vec![Action::DeleteDeployment]);
    let text = |field: &str| live[field].as_str().unwrap().to_owned();
    let delete = Operation::Delete {
        name: "web".to_owned(),
        uid: text("uid"),
        resource_version: text("resourceVersion"),
    };
    assert_eq!(plan.operations, [delete]);
    assert_eq!(World::new(foo()).plan(vec![Action::DeleteDeployment]).operations, []);
    world.settle(|_| Ok(vec![Action::DeleteDeployment]));
    assert_eq!(world.conditions(), ["Ready=True NoDeployment"]);
}

#[test]
fn definition_terminating_the_successor_waits_for_the_delete_event() {
    let mut world = World::converged();
    world.deployments[0]["metadata"]["deletionTimestamp"] = json!(common::NOW_TEXT);
    let conclusion = world.run(default_guest);
    assert_eq!(conclusion.failure, None);
    assert_eq!(world.writes, ["status"]);
    let reconciling = world.condition("Reconciling").unwrap();
    assert_eq!(reconciling["message"], "waiting for Deployment web to be deleted");
    world.forget();
    assert_eq!(world.run(default_guest).status, None);
    world.deployments.clear();
    world.run(default_guest);
    assert_eq!(world.writes, ["create web", "status"]);
}

#[test]
fn case_28_definition_rename_the_old_deployment_goes_once_the_new_one_is_available() {
    let mut world = World::converged();
    world.foo["spec"]["deploymentName"] = json!("web-b");
    world.foo["metadata"]["generation"] = json!(2);
    world.settle(default_guest);
    assert_eq!(world.writes, ["create web-b", "status"]);
    assert_eq!(
        world.condition("Reconciling").unwrap()["message"],
        "waiting for Deployment web-b to become available; Deployment web stays until then"
    );
    world.forget();
    world.make_available("web-b");
    world.run(default_guest);
    assert_eq!(world.writes, ["delete web", "status"]);
    assert_eq!(world.conditions(), ["Ready=True DeploymentAvailable"]);
    assert_eq!(world.events, ["Normal Synced Foo synced successfully"]);
    world.forget();
    world.run(default_guest);
    assert!(world.writes.is_empty());
}

#[test]
fn definition_rename_a_change_that_is_due_comes_before_the_old_deployment_goes() {
    let mut world = World::converged();
    world.foo["spec"]["deploymentName"] = json!("web-b");
    world.settle(default_guest);
    world.make_available("web-b");
    let mut labelled = manifest(Some(1));
    labelled["metadata"]["labels"] = json!({"team": "a"});
    world.forget();
    world.run(wants(&labelled));
    assert_eq!(world.writes, ["adopt web-b", "apply web-b", "status"]);
    let reconciling = world.condition("Reconciling").unwrap();
    assert_eq!(reconciling["message"], "Deployment web is still to be deleted");
    world.run(wants(&labelled));
    assert_eq!(world.writes[3..], ["delete web", "status"]);
}

#[test]
fn case_28_definition_rename_a_new_deployment_that_never_becomes_available_keeps_both() {
    let mut world = World::converged();
    world.foo["spec"]["deploymentName"] = json!("web-b");
    world.settle(default_guest);
    world.deployments[1]["status"] = json!({"observedGeneration": 1, "conditions": [
        {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"},
    ]});
    world.settle(default_guest);
    assert_eq!(world.deployments.len(), 2);
    assert_eq!(
        world.condition("Stalled").unwrap()["message"],
        "Deployment web-b passed its progress deadline; Deployment web stays until it is available"
    );
}

#[test]
fn case_28_definition_rename_nothing_is_deleted_when_the_new_name_is_foreign() {
    let mut world = World::converged();
    world.deployments.push(json!({
        "metadata": {"name": "web-b", "namespace": "default", "uid": "theirs", "resourceVersion": "1"},
    }));
    world.foo["spec"]["deploymentName"] = json!("web-b");
    world.settle(default_guest);
    assert_eq!(world.writes, ["status"]);
    assert_eq!(world.deployments.len(), 2);
}

#[test]
fn definition_rename_only_what_this_foo_controls_in_its_namespace_is_deleted() {
    let mut world = World::converged();
    world.foo["spec"]["deploymentName"] = json!("web-b");
    world.settle(default_guest);
    world.make_available("web-b");
    // A cache that hands over what is not this Foo's.
    let mut stray = world.deployment("web").clone();
    stray["metadata"]["ownerReferences"][0]["uid"] = json!("other-uid");
    let mut far = world.deployment("web").clone();
    far["metadata"]["namespace"] = json!("kube-system");
    let operations = world.snapshot(|snapshot| {
        let object = |value: &Value| {
            std::sync::Arc::new(plan::Object::from_value(value.clone(), plan::Kind::Deployment).unwrap())
        };
        let others = [object(&stray), object(&far)];
        let snapshot = plan::Snapshot { others: &others, ..*snapshot };
        plan::plan(&snapshot, plan::Verdict::Answered(apply(&manifest(Some(1))))).operations
    });
    assert_eq!(operations, []);
}

/// Settles with any guest that answers the same.
#[test]
fn case_3_a_guest_that_always_wants_the_same_writes_once() {
    let guest = |_: &Input| -> Answer {
        let mut all = manifest(Some(2));
        all["metadata"]["annotations"] = json!({"note": "x"});
        all["spec"]["strategy"] = json!({"type": "Recreate"});
        Ok(vec![Action::ApplyDeployment(all.to_string())])
    };
    let mut world = World::new(foo());
    world.settle(guest);
    assert_eq!(world.writes, ["create web", "status"]);
}
