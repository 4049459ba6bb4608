//! Whatever a guest answers and whatever the cluster holds: nothing panics, nothing is out of scope,
//! and carrying a plan out leaves nothing to do.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{NOW_TEXT, World, foo, manifest};
use contract::{Action, ConditionStatus, ConditionUpdate, Event, EventType, StatusUpdate};
use plan::{Class, Operation, Plan};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Any JSON, of words that a manifest may hold as well as of others.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        "[a-z]{0,3}",
        prop::sample::select(vec![
            "name",
            "image",
            "spec",
            "template",
            "metadata",
            "labels",
            "containers",
            "ports",
            "env",
            "selector",
            "replicas",
            "strategy",
            "volumes",
            "resources",
            "limits",
            "protocol",
            "containerPort",
            "type",
            "status",
            "uid",
            "ownerReferences",
            "apiVersion",
            "$patch",
            "k:{",
            "1Gi",
            "TCP",
        ])
        .prop_map(str::to_owned),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-3_i64..4).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((word.clone(), inner), 0..5)
                .prop_map(|entries| Value::Object(entries.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// A manifest that is valid but for one place.
fn bent_manifest() -> impl Strategy<Value = Value> {
    let place = prop::sample::select(vec![
        "/spec",
        "/spec/selector",
        "/spec/selector/matchLabels",
        "/spec/template",
        "/spec/template/metadata",
        "/spec/template/metadata/labels",
        "/spec/template/spec",
        "/spec/template/spec/containers",
        "/spec/template/spec/containers/0",
        "/spec/template/spec/containers/0/image",
    ]);
    (place, any_json()).prop_map(|(place, value)| {
        let mut manifest = manifest(Some(2));
        *manifest.pointer_mut(place).unwrap() = value;
        manifest
    })
}

fn any_action() -> impl Strategy<Value = Action> {
    let status = prop::sample::select(vec![ConditionStatus::True, ConditionStatus::False]);
    let condition = ("[A-Za-z/. ]{0,8}", status, "[A-Za-z:]{0,4}", ".{0,20}")
        .prop_map(|(r#type, status, reason, message)| ConditionUpdate { r#type, status, reason, message });
    prop_oneof![
        any_json().prop_map(|value| Action::ApplyDeployment(value.to_string())),
        bent_manifest().prop_map(|value| Action::ApplyDeployment(value.to_string())),
        ".{0,30}".prop_map(Action::ApplyDeployment),
        Just(Action::ApplyDeployment(manifest(Some(3)).to_string())),
        Just(Action::DeleteDeployment),
        (any::<i32>(), prop::collection::vec(condition, 0..3)).prop_map(
            |(available_replicas, conditions)| {
                Action::SetStatus(StatusUpdate { available_replicas, conditions })
            }
        ),
        (".{0,200}", ".{0,50}").prop_map(|(reason, message)| {
            Action::RecordEvent(Event { r#type: EventType::Warning, reason, message })
        }),
        any::<u32>().prop_map(Action::RequeueAfter),
    ]
}

/// Empty, converged, or converged with something odd in the Foo or in the Deployment.
fn any_world() -> impl Strategy<Value = World> {
    let place = prop::sample::select(vec![
        "/spec",
        "/status",
        "/status/conditions",
        "/metadata/labels",
        "/metadata/annotations",
        "/metadata/generation",
        "/metadata/ownerReferences",
        "/metadata/managedFields",
        "/metadata/managedFields/0/fieldsV1",
        "/spec/template",
        "/spec/selector",
        "/spec/replicas",
    ]);
    (0..4, place, any_json()).prop_map(|(state, place, odd)| {
        if state == 0 {
            return World::new(foo());
        }
        let mut world = World::converged();
        let object = match state {
            1 => &mut world.foo,
            2 => &mut world.deployments[0],
            _ => return world,
        };
        if let Some(at) = object.pointer_mut(place) {
            *at = odd;
        }
        world
    })
}

fn check_scope(world: &World, plan: &Plan) {
    assert!(plan.failure.is_none() || plan.operations.is_empty());
    for operation in &plan.operations {
        let manifest = match operation {
            Operation::Create { manifest } => manifest,
            Operation::Apply { name, uid, manifest, .. } => {
                let live = world.deployment(name);
                assert_eq!(
                    (&live["metadata"]["uid"], &manifest["metadata"]["uid"]),
                    (&json!(uid), &json!(uid))
                );
                manifest
            }
            Operation::Delete { name, uid, .. } => {
                let live = &world.deployment(name)["metadata"];
                assert_eq!(live["uid"], **uid);
                let owners = live["ownerReferences"].as_array().unwrap();
                assert!(owners.iter().any(|it| it["uid"] == "foo-uid" && it["controller"] == true));
                continue;
            }
        };
        assert_eq!((&manifest["apiVersion"], &manifest["kind"]), (&json!("apps/v1"), &json!("Deployment")));
        let metadata = manifest["metadata"].as_object().unwrap();
        assert_eq!((&metadata["name"], &metadata["namespace"]), (&json!("web"), &json!("default")));
        let owners = metadata["ownerReferences"].as_array().unwrap();
        assert_eq!((owners.len(), &owners[0]["uid"]), (1, &json!("foo-uid")));
        let allowed =
            ["name", "namespace", "uid", "resourceVersion", "labels", "annotations", "ownerReferences"];
        assert!(metadata.keys().all(|key| allowed.contains(&key.as_str())));
        assert_eq!(manifest.as_object().unwrap().len(), 4);
    }
}

/// A Deployment that the API server would take: the parts that a schema checks are as they should be.
fn good_manifest() -> impl Strategy<Value = Value> {
    let text = || prop::option::of(prop::sample::select(vec!["", "a", "b"]));
    let quantity = || prop::option::of(prop::sample::select(vec!["1", "1000m", "0.5", "1Gi", "1024Mi"]));
    let labels = prop::option::of(prop::collection::btree_map("[a-c]", "[x-z]{0,1}", 0..3));
    let ports = prop::option::of(prop::collection::btree_set(80_u16..84, 0..3));
    let scalars = (
        prop::option::of(0..4_i32),
        prop::option::of(any::<bool>()),
        prop::option::of(0..3_i32),
        prop::option::of(any::<bool>()),
        any::<bool>(),
    );
    (scalars, labels, ports, (text(), text(), quantity(), quantity()), prop::bool::ANY).prop_map(
        |((replicas, paused, min_ready, automount, recreate), labels, ports, texts, volume)| {
            let (env, arg, cpu, memory) = texts;
            let mut manifest = manifest(replicas);
            let mut set = |path: &str, value: Value| {
                let (parent, field) = path.rsplit_once('/').unwrap();
                let parent = manifest.pointer_mut(parent).unwrap();
                parent.as_object_mut().unwrap().insert(field.to_owned(), value);
            };
            let pod = "/spec/template/spec";
            let container = "/spec/template/spec/containers/0";
            if let Some(labels) = labels {
                set("/metadata", json!({"labels": labels}));
            }
            set("/spec/paused", json!(paused));
            set("/spec/minReadySeconds", json!(min_ready));
            set(&format!("{pod}/automountServiceAccountToken"), json!(automount));
            if recreate {
                set("/spec/strategy", json!({"type": "Recreate"}));
            }
            if let Some(ports) = ports {
                let ports: Vec<_> = ports.iter().map(|port| json!({"containerPort": port})).collect();
                set(&format!("{container}/ports"), json!(ports));
            }
            if let Some(value) = env {
                set(&format!("{container}/env"), json!([{"name": "A", "value": value}]));
            }
            if let Some(arg) = arg {
                set(&format!("{container}/args"), json!([arg]));
            }
            set(&format!("{container}/resources"), json!({"limits": {"cpu": cpu, "memory": memory}}));
            if volume {
                set(&format!("{pod}/volumes"), json!([{"name": "tmp", "emptyDir": {}}]));
            }
            manifest
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn invariant_7_no_answer_panics_or_reaches_beyond_its_foo(
        world in any_world(),
        actions in prop::collection::vec(any_action(), 0..5),
    ) {
        let plan = world.plan(actions);
        check_scope(&world, &plan);
        if let Some(failure) = &plan.failure {
            prop_assert!(failure.message.len() <= 1_024 && !failure.message.contains(char::is_control));
            prop_assert_ne!(failure.class, Class::Quiet);
        }
        let mut world = world;
        world.schema.subresource = true;
        let before = world.foo.clone();
        let conclusion = world.snapshot(|snapshot| plan::conclude(snapshot, &plan, plan::Written::default()));
        prop_assert_eq!(before, world.foo.clone());
        for event in &conclusion.events {
            prop_assert!(event.reason.len() <= 128 && event.message.len() <= 1_024);
        }
    }

    #[test]
    fn invariant_4_no_manifest_reaches_beyond_its_foo(odd in any_json(), bent in bent_manifest()) {
        for world in [World::new(foo()), World::converged()] {
            for manifest in [&odd, &bent] {
                let plan = world.plan(common::apply(manifest));
                check_scope(&world, &plan);
            }
        }
    }

    #[test]
    fn invariant_7_no_object_panics(value in any_json(), metadata in any_json()) {
        let mut value = value;
        if let Some(object) = value.as_object_mut() {
            object.insert("metadata".to_owned(), metadata);
        }
        for kind in [plan::Kind::Foo, plan::Kind::Deployment] {
            let _ = plan::Object::from_value(value.clone(), kind);
        }
        let _ = plan::upgraded_managed_fields(&value, true);
        let _ = plan::StatusSchema::from_openapi(&value);
    }

    #[test]
    fn invariant_2_carrying_a_plan_out_leaves_nothing_to_do(
        first in good_manifest(),
        second in good_manifest(),
        replicas in 0..5_i32,
    ) {
        let mut world = World::new(foo());
        for manifest in [&first, &second, &first] {
            world.settle(common::wants(manifest));
            let before = world.deployment("web")["metadata"]["generation"].as_i64().unwrap();
            world.forget();
            world.run(common::wants(manifest));
            prop_assert_eq!(&world.writes, &Vec::<String>::new());
            let after = world.deployment("web")["metadata"]["generation"].as_i64().unwrap();
            prop_assert_eq!(before, after);
            // Somebody scales: kept where the manifest names no number, else set back.
            world.edit("web", "autoscaler", |live| live["spec"]["replicas"] = json!(replicas));
            world.settle(common::wants(manifest));
            let named = manifest["spec"].get("replicas").cloned();
            prop_assert_eq!(
                world.deployment("web")["spec"]["replicas"].clone(), named.unwrap_or(json!(replicas)));
        }
        let last = world.condition("Ready").unwrap()["lastTransitionTime"].clone();
        prop_assert_eq!(last, NOW_TEXT);
    }
}
