//! Known results of Kubernetes' own code (`tests/data/README.md`), one case a line.

use serde_json::{Value, json};
use std::collections::HashMap;
use structured_merge::{
    Applied, Error, FieldSet, ManagedFields, Operation, Path, Request, Schema, apply, defaults, differences,
    dropped_fields, quantity, strategic, unowned_fields, update,
};

const CASES: &str = include_str!("data/oracle.jsonl");

fn text<'a>(case: &'a Value, name: &str) -> &'a str {
    case[name].as_str().unwrap_or_default()
}

/// The real code leaves null where a map becomes empty; decoding the object drops it.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), without_nulls(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        scalar => scalar.clone(),
    }
}

fn timeless(entries: &[ManagedFields]) -> Vec<Value> {
    let mut entries: Vec<_> =
        entries.iter().map(|entry| json!(ManagedFields { time: None, ..entry.clone() })).collect();
    entries.sort_by_key(ToString::to_string);
    entries
}

fn expected_managers(case: &Value) -> Vec<Value> {
    let entries: Vec<ManagedFields> = serde_json::from_value(case["managed"].clone()).expect("entries");
    timeless(&entries)
}

/// Runs all cases of one kind; returns how many there were and those that differ.
fn run(op: &str, check: impl Fn(&Value, &HashMap<&str, Schema>) -> Result<(), String>) -> usize {
    let source = std::env::var("ORACLE_CASES").ok().map(|file| std::fs::read_to_string(file).expect("file"));
    let mut schemas = HashMap::from([("deployment", Schema::deployment().clone())]);
    let (mut count, mut faults) = (0, Vec::new());
    for line in source.as_deref().unwrap_or(CASES).lines() {
        let case: Value = serde_json::from_str(line).expect("JSON");
        if text(&case, "op") == "schema" {
            schemas.insert("thing", Schema::from_openapi(&case["schema"]).expect("schema"));
        }
        if text(&case, "op") == op {
            count += 1;
            if let Err(fault) = check(&case, &schemas) {
                faults.push(format!("{line}\n{fault}"));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "{} of {count} differ:\n{}",
        faults.len(),
        faults[..faults.len().min(3)].join("\n\n")
    );
    count
}

fn same(what: &str, found: &Value, expected: &Value) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}\n   found {found}\nexpected {expected}")) }
}

fn reset(subresource: &str) -> FieldSet {
    let paths: &[&[&str]] =
        if subresource == "status" { &[&["spec"], &["metadata", "labels"]] } else { &[&["status"]] };
    paths.iter().map(|path| Path::fields(path.iter().copied())).collect()
}

fn with_request<T>(case: &Value, object: &Value, call: impl FnOnce(&Request<'_>) -> T) -> T {
    let reset = reset(text(case, "subresource"));
    call(&Request {
        manager: text(case, "manager"),
        api_version: text(object, "apiVersion"),
        subresource: text(case, "subresource"),
        time: "2026-01-01T00:00:00Z",
        reset: &reset,
    })
}

#[test]
fn defaults_are_those_of_the_real_server() {
    let count = run("default", |case, _| {
        let mut object = case["in"].clone();
        defaults::deployment(&mut object);
        same("object", &object, &without_nulls(&case["out"]))?;

        // What the server made of a manifest is no drift of it, and all that it names is ours.
        let (desired, schema) = (&case["in"], Schema::deployment());
        let found: Vec<_> =
            differences(desired, &object, schema).into_iter().map(|it| it.path.to_string()).collect();
        same("differences", &json!(found), &json!([]))?;
        let request = json!({"manager": "one"});
        let entries =
            with_request(&request, desired, |request| update(&Value::Null, &object, &[], schema, request));
        let own = entries.and_then(|entries| entries[0].fields()).map_err(|error| error.to_string())?;
        let unowned = unowned_fields(&own, Operation::Update, desired, schema);
        same("unowned", &unowned.to_fields_v1(), &json!({}))?;
        let dropped = dropped_fields(&own, Operation::Update, desired, &object, schema);
        same("dropped", &dropped.to_fields_v1(), &json!({}))
    });
    assert!(count > 0);
}

#[test]
fn quantities_are_those_of_the_real_server() {
    let count = run("quantity", |case, _| {
        let found = quantity::canonical(text(case, "in")).map_err(|error| error.to_string());
        let expected = match case.get("error") {
            Some(error) => Err(error.as_str().unwrap_or_default().to_owned()),
            None => Ok(text(case, "out").to_owned()),
        };
        if found == expected { Ok(()) } else { Err(format!("found {found:?}, expected {expected:?}")) }
    });
    assert!(count > 0);
}

#[test]
fn applies_are_those_of_the_real_server() {
    let count = run("apply", |case, schemas| {
        let (config, live) = (&case["config"], &case["live"]);
        let managers = ManagedFields::of_object(live).map_err(|error| error.to_string())?;
        let force = case["force"] == true;
        let schema = &schemas[text(case, "schema")];
        let found =
            with_request(case, config, |request| apply(live, &managers, config, force, schema, request));
        match (found, case.get("error")) {
            (Err(error), Some(expected)) => same("error", &json!(error.to_string()), expected),
            (Err(error), None) => Err(format!("refused: {error}")),
            (Ok(_), Some(error)) => Err(format!("not refused: {error}")),
            (Ok(applied), None) => {
                same("object", &without_nulls(&applied.object), &without_nulls(&case["object"]))?;
                same("managers", &json!(timeless(&applied.managers)), &json!(expected_managers(case)))?;
                same("left to do", &left_to_do(case, &applied, schema), &json!([[], {}, {}]))
            }
        }
    });
    assert!(count > 0);
}

/// What the planner would still see: differences, fields that are not ours, fields to drop.
fn left_to_do(case: &Value, applied: &Applied, schema: &Schema) -> Value {
    let config = &case["config"];
    let mut live = applied.object.clone();
    if text(case, "schema") == "deployment" {
        defaults::deployment(&mut live);
    }
    let differences: Vec<_> = differences(config, &live, schema)
        .into_iter()
        .map(|difference| difference.path.to_string())
        .collect();
    let ours = |entry: &&ManagedFields| {
        entry.manager == text(case, "manager")
            && entry.operation == Operation::Apply
            && entry.subresource == text(case, "subresource")
    };
    let own = applied
        .managers
        .iter()
        .find(ours)
        .map_or_else(FieldSet::default, |entry| entry.fields().expect("fields"));
    // Fields that the endpoint resets are never owned.
    let unowned = unowned_fields(&own, Operation::Apply, config, schema)
        .recursive_difference(&reset(text(case, "subresource")));
    let dropped = dropped_fields(&own, Operation::Apply, config, &live, schema);
    json!([differences, unowned.to_fields_v1(), dropped.to_fields_v1()])
}

#[test]
fn managed_fields_of_updates_are_those_of_the_real_server() {
    let count = run("update", |case, schemas| {
        let (before, after) = (&case["live"], &case["after"]);
        let managers = ManagedFields::of_object(before).map_err(|error| error.to_string())?;
        let schema = &schemas[text(case, "schema")];
        let found = with_request(case, after, |request| update(before, after, &managers, schema, request));
        let found = found.map_err(|error: Error| error.to_string())?;
        same("managers", &json!(timeless(&found)), &json!(expected_managers(case)))
    });
    assert!(count > 0);
}

#[test]
fn strategic_merges_are_those_of_the_real_server() {
    let count = run("strategic", |case, _| {
        let found = strategic::merge(&case["live"], &case["patch"], Schema::deployment());
        match (found, case.get("error")) {
            (Err(error), Some(expected)) => same("error", &json!(error.to_string()), expected),
            (Err(error), None) => Err(format!("refused: {error}")),
            (Ok(_), Some(error)) => Err(format!("not refused: {error}")),
            (Ok(object), None) => same("object", &object, &case["out"]),
        }
    });
    assert!(count > 0);
}
