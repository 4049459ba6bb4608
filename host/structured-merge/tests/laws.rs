//! Laws that hold for all values.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use structured_merge::{
    FieldSet, Operation, Path, PathElement, Request, Schema, apply, defaults, differences, dropped_fields,
    strategic, unowned_fields, update,
};

fn element() -> impl Strategy<Value = PathElement> {
    prop_oneof![
        "[a-c]".prop_map(PathElement::Field),
        "[ab]".prop_map(|name| PathElement::key([("name".to_owned(), json!(name))])),
        (0_i64..3).prop_map(|number| PathElement::key([
            ("b".to_owned(), json!(1)),
            ("a".to_owned(), json!(number))
        ])),
        any::<bool>().prop_map(|flag| PathElement::Value(structured_merge::Literal(json!(flag)))),
        (0_i64..2).prop_map(PathElement::Index),
    ]
}

fn set() -> impl Strategy<Value = FieldSet> {
    let path = proptest::collection::vec(element(), 1..4).prop_map(Path);
    proptest::collection::vec(path, 0..12).prop_map(|paths| paths.into_iter().collect())
}

/// Any JSON, with names that the schema knows among its keys.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..100).prop_map(Value::from),
        Just(json!(0.5)),
        prop_oneof!["[a-c]{0,2}", Just("1000m".to_owned()), Just("nginx:latest".to_owned())]
            .prop_map(Value::from),
    ];
    let name = prop_oneof![
        proptest::sample::select(vec![
            "metadata",
            "spec",
            "template",
            "containers",
            "name",
            "image",
            "env",
            "ports",
            "resources",
            "limits",
            "cpu",
            "volumes",
            "labels",
            "selector",
            "finalizers",
            "strategy",
            "type",
            "replicas",
            "$patch",
            "$retainKeys",
            "$setElementOrder/containers",
            "$deleteFromPrimitiveList/finalizers",
            "value",
        ])
        .prop_map(str::to_owned),
        "[a-c]",
    ];
    leaf.prop_recursive(7, 60, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(name.clone(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn container() -> impl Strategy<Value = Value> {
    let ports = proptest::collection::btree_set(80_i64..84, 0..3)
        .prop_map(|ports| ports.into_iter().map(|port| json!({"containerPort": port})).collect::<Vec<_>>());
    let env = proptest::collection::btree_map("[AB]", "[xy]?", 0..3).prop_map(|env| {
        env.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect::<Vec<_>>()
    });
    ("[ab]", "nginx(:1)?", proptest::option::of(ports), proptest::option::of(env), any::<bool>()).prop_map(
        |(name, image, ports, env, stdin)| {
            let mut container = json!({"name": name, "image": image, "stdin": stdin});
            if let Some(ports) = ports {
                container["ports"] = json!(ports);
            }
            if let Some(env) = env {
                container["env"] = json!(env);
            }
            container
        },
    )
}

fn deployment() -> impl Strategy<Value = Value> {
    let containers = proptest::collection::btree_map("[ab]", container(), 1..3).prop_map(|containers| {
        containers
            .into_iter()
            .map(|(name, mut container)| {
                container["name"] = json!(name);
                container
            })
            .collect::<Vec<_>>()
    });
    (containers, proptest::option::of(0_i64..3), proptest::option::of("[xy]")).prop_map(
        |(containers, replicas, label)| {
            let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
                "spec": {"template": {"spec": {"containers": containers}}}});
            if let Some(replicas) = replicas {
                object["spec"]["replicas"] = json!(replicas);
            }
            if let Some(label) = label {
                object["metadata"]["labels"] = json!({"app": label});
            }
            object
        },
    )
}

fn request(reset: &FieldSet) -> Request<'_> {
    Request { manager: "one", api_version: "apps/v1", subresource: "", time: "2026-01-01T00:00:00Z", reset }
}

proptest! {
    #[test]
    fn the_algebra_of_sets_holds(a in set(), b in set()) {
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert!(a.difference(&a).is_empty());
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert!(a.difference(&b).intersection(&b).is_empty());
        prop_assert_eq!(a.union(&b).difference(&b), a.difference(&b));
        prop_assert!(a.recursive_difference(&b).difference(&a.difference(&b)).is_empty());
        prop_assert!(a.paths().all(|path| a.contains(&path) && a.union(&b).contains(&path)));
    }

    #[test]
    fn inserting_and_removing_paths_rebuilds_and_empties_a_set(a in set()) {
        prop_assert_eq!(a.paths().collect::<FieldSet>(), a.clone());
        let mut rest = a.clone();
        for path in a.paths() {
            prop_assert!(rest.remove(&path));
            prop_assert!(!rest.remove(&path));
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn fields_v1_reads_back_as_it_was_written(a in set()) {
        prop_assert_eq!(FieldSet::from_fields_v1(&a.to_fields_v1()).unwrap(), a);
    }

    #[test]
    fn an_apply_is_idempotent_and_leaves_no_drift(before in deployment(), config in deployment()) {
        let reset = FieldSet::default();
        let schema = Schema::deployment();
        let mut live = before;
        defaults::deployment(&mut live);
        let managers = update(&Value::Null, &live, &[], schema, &Request { manager: "other", ..request(&reset) }).unwrap();

        let first = apply(&live, &managers, &config, true, schema, &request(&reset)).unwrap();
        let mut live = first.object;
        defaults::deployment(&mut live);
        prop_assert_eq!(differences(&config, &live, schema), vec![]);

        let own = first.managers.iter().find(|entry| entry.manager == "one").unwrap();
        let named = FieldSet::of_object(&config, schema);
        prop_assert_eq!(&own.fields().unwrap(), &named);
        prop_assert!(dropped_fields(&named, Operation::Apply, &config, &live, schema).is_empty());

        let mut again = apply(&live, &first.managers, &config, true, schema, &request(&reset)).unwrap();
        defaults::deployment(&mut again.object);
        prop_assert_eq!(&again.object, &live);
        prop_assert_eq!(&again.managers, &first.managers);
    }

    #[test]
    fn what_was_posted_has_no_drift_and_nothing_dropped(desired in deployment()) {
        let schema = Schema::deployment();
        let reset = FieldSet::default();
        let mut live = desired.clone();
        defaults::deployment(&mut live);
        let managers = update(&Value::Null, &live, &[], schema, &request(&reset)).unwrap();
        let own = managers[0].fields().unwrap();
        prop_assert_eq!(differences(&desired, &live, schema), vec![]);
        prop_assert_eq!(dropped_fields(&own, Operation::Update, &desired, &live, schema), FieldSet::default());
        prop_assert_eq!(unowned_fields(&own, Operation::Update, &desired, schema), FieldSet::default());
    }

    #[test]
    fn nothing_panics_on_any_json(a in json_value(), b in json_value()) {
        let reset = FieldSet::default();
        for schema in [Schema::deployment().clone(), Schema::deduced()] {
            let _ = differences(&a, &b, &schema);
            let own = FieldSet::of_object(&a, &schema);
            let _ = dropped_fields(&own, Operation::Update, &b, &a, &schema);
            let _ = strategic::merge(&a, &b, &schema);
            let _ = schema.validate(&a);
            if let Ok(managers) = update(&Value::Null, &a, &[], &schema, &request(&reset)) {
                let _ = update(&a, &b, &managers, &schema, &request(&reset));
                let _ = apply(&a, &managers, &b, false, &schema, &request(&reset));
            }
        }
        let _ = FieldSet::from_fields_v1(&a);
        let _ = Schema::from_openapi(&a);
        let mut once = a;
        defaults::deployment(&mut once);
        let mut twice = once.clone();
        defaults::deployment(&mut twice);
        prop_assert_eq!(once, twice);
    }
}
