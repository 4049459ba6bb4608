//! Custom resources under their schema: validation, defaulting, pruning, list types.

use crate::objects::{DEFINITIONS, FOOS, define, definition, foo};
use crate::session::{Call, MERGE, Session};
use crate::table::Intended;
use serde_json::{Value, json};

pub(crate) const INTENDED: &[Intended] = &[
    Intended {
        step: "widget: a fraction for an integer",
        at: "*",
        why: "told as a wrong type, without Go's name for it",
    },
    Intended { step: "widget: * of either", at: "*", why: "what oneOf misses is told in one line" },
    Intended {
        step: "body*: no JSON",
        at: "body.message",
        why: "the texts of syntax errors are those of this parser, not of Go's",
    },
    Intended {
        step: "body*: nothing",
        at: "body.message",
        why: "the texts of syntax errors are those of this parser, not of Go's",
    },
    Intended {
        step: "body*: a list",
        at: "body.message",
        why: "the texts of syntax errors are those of this parser, not of Go's",
    },
    Intended {
        step: "body*: text",
        at: "body.message",
        why: "the texts of syntax errors are those of this parser, not of Go's",
    },
    Intended {
        step: "body*: null",
        at: "body.message",
        why: "the texts of syntax errors are those of this parser, not of Go's",
    },
    Intended {
        step: "body*: more after the end",
        at: "body.message",
        why: "the texts of syntax errors are those of this parser, not of Go's",
    },
    Intended {
        step: "body: YAML said to be JSON",
        at: "body.message",
        why: "the texts of syntax errors are those of this parser, not of Go's",
    },
    Intended {
        step: "body*: a key twice",
        at: "*",
        why: "a key that occurs twice is not seen: the parser keeps the last",
    },
    Intended {
        step: "body: a media type that is none",
        at: "body.message",
        why: "protobuf is not spoken, so that it is not offered: `kubectl create deployment` is answered 415",
    },
    Intended { step: "status: text", at: "*message", why: "paths in texts begin at the root of the object" },
];

const GROUP: &str = "schema.conformance.test";
const WIDGETS: &str = "schema.conformance.test/v1/widgets";

fn widgets() -> Value {
    let item = json!({ "type": "object", "required": ["key"], "properties": { "key": { "type": "string" },
        "value": { "type": "integer", "default": 5 }, "port": { "type": "integer", "default": 80 } } });
    let schema = json!({ "type": "object", "required": ["spec"], "properties": {
        "spec": { "type": "object", "properties": {
            "text": { "type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$" },
            "number": { "type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 10.5 },
            "integer": { "type": "integer", "format": "int32", "multipleOf": 3 },
            "long": { "type": "integer", "format": "int64" },
            "flag": { "type": "boolean" },
            "choice": { "type": "string", "enum": ["one", "two"] },
            "defaulted": { "type": "string", "default": "given" },
            "nullable": { "type": "string", "nullable": true },
            "nullableDefault": { "type": "string", "nullable": true, "default": "given" },
            "nested": { "type": "object", "default": {}, "properties": { "a": { "type": "integer", "default": 1 },
                "b": { "type": "object", "properties": { "c": { "type": "string", "default": "deep" } } } } },
            "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                "known": { "type": "integer" } } },
            "anything": { "x-kubernetes-preserve-unknown-fields": true },
            "port": { "x-kubernetes-int-or-string": true },
            "map": { "type": "object", "additionalProperties": { "type": "integer" }, "maxProperties": 2 },
            "objects": { "type": "object", "additionalProperties": item.clone() },
            "list": { "type": "array", "items": { "type": "string" }, "maxItems": 3, "minItems": 1 },
            "set": { "type": "array", "items": { "type": "string" }, "x-kubernetes-list-type": "set" },
            "entries": { "type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"] },
            "twoKeys": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"],
                "items": { "type": "object", "required": ["name"], "properties": { "name": { "type": "string" },
                    "port": { "type": "integer", "default": 80 }, "note": { "type": "string" } } } },
            "matrix": { "type": "array", "items": { "type": "array", "items": { "type": "integer" } } },
            "atomic": { "type": "object", "x-kubernetes-map-type": "atomic", "properties": { "a": { "type": "string" },
                "b": { "type": "string" } } },
            "template": { "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true },
            "either": { "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "string" } },
                "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] },
            "date": { "type": "string", "format": "date-time" },
            "address": { "type": "string", "format": "ipv4" },
        } },
        "status": { "type": "object", "properties": { "phase": { "type": "string", "enum": ["Good", "Bad"] },
            "count": { "type": "integer", "default": 7 } } },
    } });
    definition(GROUP, "Widget", &schema)
}

fn widget(name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "schema.conformance.test/v1", "kind": "Widget", "metadata": { "name": name }, "spec": spec })
}

pub(crate) async fn scenario(s: &mut Session) {
    define(s, &widgets()).await;
    let all = s.path(WIDGETS);
    for (at, (what, spec)) in [
        ("nothing", json!({})),
        ("good values", json!({ "text": "abc", "number": 1.5, "integer": 6, "long": 9_000_000_000_i64, "flag": true,
            "choice": "one", "nullable": "x", "port": "http", "map": { "a": 1 }, "list": ["a"], "matrix": [[1], [], [2, 3]],
            "date": "2026-01-01T00:00:00Z", "address": "10.0.0.1" })),
        ("nulls where they may be", json!({ "nullable": null, "nullableDefault": null })),
        ("nulls where a default is", json!({ "defaulted": null, "nested": null })),
        ("nulls where they may not be", json!({ "text": null, "number": null, "map": null, "list": null, "flag": null })),
        ("nulls in lists and maps", json!({ "list": [null], "map": { "a": null }, "entries": [null] })),
        ("a nested default", json!({ "nested": { "b": {} }, "objects": { "x": { "key": "k" } },
            "entries": [{ "key": "a" }, { "key": "b", "value": 6 }] })),
        ("unknown fields", json!({ "unknown": 1, "nested": { "unknown": { "a": 1 } }, "entries": [{ "key": "a", "x": 1 }],
            "objects": { "x": { "key": "k", "y": 1 } } })),
        ("unknown fields where they may be", json!({ "free": { "known": 1, "unknown": { "deep": [1, null] } },
            "anything": [1, "two", { "three": null }] })),
        ("known fields of the wrong type where unknown may be", json!({ "free": { "known": "x" } })),
        ("too short", json!({ "text": "a" })),
        ("too long", json!({ "text": "abcdef" })),
        ("against the pattern", json!({ "text": "ABC" })),
        ("all at once", json!({ "text": "A", "integer": 4, "choice": "three", "list": [] })),
        ("a number as text", json!({ "number": "1" })),
        ("a number that is excluded", json!({ "number": 0 })),
        ("a number that is too large", json!({ "number": 10.6 })),
        ("a number that is negative", json!({ "number": -1.5 })),
        ("a fraction for an integer", json!({ "integer": 1.5 })),
        ("a whole float for an integer", json!({ "integer": 3.0 })),
        ("an integer of 64 bits for 32", json!({ "integer": 3_000_000_000_i64 })),
        ("no multiple", json!({ "integer": 4 })),
        ("text for a flag", json!({ "flag": "true" })),
        ("another choice", json!({ "choice": "three" })),
        ("a number for a choice", json!({ "choice": 1 })),
        ("a list for a map", json!({ "map": [] })),
        ("a map for a list", json!({ "list": {} })),
        ("an object for text", json!({ "text": {} })),
        ("a wrong value in a map", json!({ "map": { "a": "x" } })),
        ("too many properties", json!({ "map": { "a": 1, "b": 2, "c": 3 } })),
        ("too many items", json!({ "list": ["a", "b", "c", "d"] })),
        ("too few items", json!({ "list": [] })),
        ("a wrong item", json!({ "list": ["a", 1] })),
        ("a set twice", json!({ "set": ["a", "b", "a"] })),
        ("a key twice", json!({ "entries": [{ "key": "a" }, { "key": "a" }] })),
        ("a missing key", json!({ "entries": [{ "value": 1 }] })),
        ("two keys of which one is the default", json!({ "twoKeys": [{ "name": "a" }, { "name": "a", "port": 81 }] })),
        ("two keys twice by default", json!({ "twoKeys": [{ "name": "a" }, { "name": "a", "port": 80 }] })),
        ("a matrix of text", json!({ "matrix": [["x"]] })),
        ("int or string: an integer", json!({ "port": 80 })),
        ("int or string: a float", json!({ "port": 80.5 })),
        ("int or string: a flag", json!({ "port": true })),
        ("an embedded resource", json!({ "template": { "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "x",
            "unknown": 1 }, "spec": { "any": "thing" } } })),
        ("an embedded resource without a kind", json!({ "template": { "metadata": {} } })),
        ("either", json!({ "either": { "a": "x" } })),
        ("both of either", json!({ "either": { "a": "x", "b": "y" } })),
        ("none of either", json!({ "either": {} })),
        ("no date", json!({ "date": "yesterday" })),
        ("no address", json!({ "address": "x" })),
        ("the whole spec as text", json!("x")),
        ("the whole spec as null", Value::Null),
        ("the whole spec as a list", json!([])),
    ].into_iter().enumerate() {
        let object = widget(&format!("w{at}"), &spec);
        s.post(&format!("widget: {what}"), &all, &object).await;
        if what.contains("unknown") {
            s.post(&format!("widget, strictly: {what}"), &format!("{all}?fieldValidation=Strict&dryRun=All"), &{
                let mut object = object.clone();
                object["metadata"]["name"] = format!("strict{at}").into();
                object
            }).await;
            s.post(&format!("widget, ignored: {what}"), &format!("{all}?fieldValidation=Ignore&dryRun=All"), &{
                let mut object = object.clone();
                object["metadata"]["name"] = format!("ignored{at}").into();
                object
            }).await;
        }
    }
    let mut bare = widget("bare", &json!({}));
    bare.as_object_mut().expect("a widget").remove("spec");
    s.post("widget: no spec", &all, &bare).await;
    bare["more"] = json!({ "x": 1 });
    bare["spec"] = json!({});
    s.post("widget: an unknown field at the root", &all, &bare).await;
    bodies(s, &all).await;
    changes(s).await;
    lists(s).await;
    foos(s).await;
}

/// Bodies that are none.
async fn bodies(s: &mut Session, all: &str) {
    let raw = |body: &str| Call { body: body.as_bytes().to_vec(), ..Call::with("POST", all, &json!({})) };
    for (what, body) in [
        ("no JSON", "{nonsense"),
        ("nothing", ""),
        ("a list", "[]"),
        ("text", "\"x\""),
        ("null", "null"),
        ("no kind", r#"{"metadata":{"name":"x"}}"#),
        (
            "another kind",
            r#"{"apiVersion":"schema.conformance.test/v1","kind":"Other","metadata":{"name":"x"}}"#,
        ),
        (
            "another version",
            r#"{"apiVersion":"schema.conformance.test/v2","kind":"Widget","metadata":{"name":"x"}}"#,
        ),
        ("another group", r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}"#),
        (
            "metadata that is text",
            r#"{"apiVersion":"schema.conformance.test/v1","kind":"Widget","metadata":"x"}"#,
        ),
        ("no metadata", r#"{"apiVersion":"schema.conformance.test/v1","kind":"Widget","spec":{}}"#),
        (
            "metadata with an unknown field",
            r#"{"apiVersion":"schema.conformance.test/v1","kind":"Widget","metadata":{"name":"unknown","x":1},"spec":{}}"#,
        ),
        (
            "labels that are numbers",
            r#"{"apiVersion":"schema.conformance.test/v1","kind":"Widget","metadata":{"name":"x","labels":{"a":1}},"spec":{}}"#,
        ),
        (
            "a name that is a number",
            r#"{"apiVersion":"schema.conformance.test/v1","kind":"Widget","metadata":{"name":1},"spec":{}}"#,
        ),
        (
            "a key twice",
            r#"{"apiVersion":"schema.conformance.test/v1","kind":"Widget","metadata":{"name":"twice"},"spec":{"text":"abc","text":"abd"}}"#,
        ),
        (
            "more after the end",
            r#"{"apiVersion":"schema.conformance.test/v1","kind":"Widget","metadata":{"name":"x"}} x"#,
        ),
    ] {
        s.call(&format!("body: {what}"), raw(body)).await;
        s.call(
            &format!("body, strictly: {what}"),
            Call {
                path: &format!("{all}?fieldValidation=Strict&dryRun=All"),
                ..raw(&body.replace("twice", "thrice").replace("unknown", "unheard"))
            },
        )
        .await;
    }
    let yaml =
        "apiVersion: schema.conformance.test/v1\nkind: Widget\nmetadata:\n  name: yaml\nspec:\n  text: abc\n";
    s.call("body: YAML", raw(yaml).content_type("application/yaml")).await;
    s.call("body: YAML said to be JSON", raw(yaml)).await;
    s.call("body: a media type that is none", raw("{}").content_type("text/plain")).await;
    s.call("body: no media type", raw(&widget("untyped", &json!({})).to_string()).content_type("")).await;
    s.call(
        "body: a media type with a charset",
        raw(&widget("charset", &json!({})).to_string()).content_type("application/json; charset=utf-8"),
    )
    .await;
}

/// Updates: faults of before may stay, generation, status.
async fn changes(s: &mut Session) {
    let all = s.path(WIDGETS);
    let one = format!("{all}/changing");
    s.post("change: create with a status", &all, &{
        let mut object = widget("changing", &json!({ "text": "abc" }));
        object["status"] = json!({ "phase": "Good" });
        object
    })
    .await;
    for (what, patch) in [
        ("a default taken away", json!({ "spec": { "defaulted": null } })),
        ("an unknown field", json!({ "spec": { "unknown": 1 } })),
        ("a fault", json!({ "spec": { "text": "A" } })),
        ("the spec gone", json!({ "spec": null })),
        ("metadata only", json!({ "metadata": { "labels": { "a": "b" } } })),
        ("nothing", json!({ "spec": { "text": "abc" } })),
    ] {
        s.patch(&format!("change: {what}"), MERGE, &one, &patch).await;
    }
    let status = format!("{one}/status");
    for (what, patch) in [
        ("an empty one", json!({ "status": {} })),
        ("a phase", json!({ "status": { "phase": "Good" } })),
        ("a fault", json!({ "status": { "phase": "Ugly" } })),
        ("text", json!({ "status": "x" })),
        ("an unknown field", json!({ "status": { "unknown": 1 } })),
        (
            "a spec too",
            json!({ "status": { "phase": "Bad" }, "spec": { "text": "xyz" }, "metadata": { "labels": { "c": "d" } } }),
        ),
    ] {
        s.patch(&format!("status: {what}"), MERGE, &status, &patch).await;
    }
    // The schema becomes stricter: what is stored may stay, what changes must be right.
    let mut stricter = widgets();
    stricter["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["text"]
        ["maxLength"] = 2.into();
    stricter["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["extra"] =
        json!({ "type": "string", "default": "new" });
    let path = format!("{DEFINITIONS}/widgets.{GROUP}");
    s.quietly(Call::with("PATCH", &path, &stricter).content_type(MERGE)).await;
    let probe = widget("probe", &json!({ "text": "abc" }));
    let start = std::time::Instant::now();
    while s.quietly(Call::with("POST", &format!("{all}?dryRun=All"), &probe)).await["code"] != 422
        && start.elapsed() < tests::api::PATIENCE
    {
        tokio::time::sleep(tests::api::PAUSE).await;
    }
    s.get("a stricter schema: read", &one).await;
    for (what, patch) in [
        ("another field", json!({ "spec": { "flag": true } })),
        ("the same value", json!({ "spec": { "text": "abc" } })),
        ("another bad value", json!({ "spec": { "text": "abd" } })),
        ("a good value", json!({ "spec": { "text": "ab" } })),
    ] {
        s.patch(&format!("a stricter schema: {what}"), MERGE, &one, &patch).await;
    }
}

/// What an apply does to each type of list and map.
async fn lists(s: &mut Session) {
    let one = s.path(&format!("{WIDGETS}/lists"));
    for (at, (what, manager, spec)) in [
        ("a list of each type", "one", json!({ "list": ["a", "b"], "set": ["a", "b"], "matrix": [[1]], "map": { "a": 1 },
            "entries": [{ "key": "a", "value": 1 }], "twoKeys": [{ "name": "n" }], "atomic": { "a": "1" },
            "free": { "x": { "y": 1 } }, "template": { "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" } } })),
        ("a set of another", "two", json!({ "set": ["b", "c"] })),
        ("entries of another", "two", json!({ "set": ["b", "c"], "entries": [{ "key": "b" }] })),
        ("an entry in conflict", "two", json!({ "entries": [{ "key": "a", "value": 2 }] })),
        ("an atomic list in conflict", "two", json!({ "list": ["c"] })),
        ("an atomic map in conflict", "two", json!({ "atomic": { "b": "2" } })),
        ("a map of another", "two", json!({ "map": { "b": 2 } })),
        ("two keys with the default", "two", json!({ "twoKeys": [{ "name": "n", "port": 80, "note": "x" }] })),
        ("preserved fields of another", "two", json!({ "free": { "x": { "z": 2 } } })),
        ("an embedded resource of another", "two", json!({ "template": { "apiVersion": "v1", "kind": "Pod", "spec": { "a": 1 } } })),
        ("all dropped", "two", json!({})),
        ("less of the first", "one", json!({ "set": ["a"], "entries": [{ "key": "a" }] })),
        ("a set twice", "one", json!({ "set": ["a", "a"] })),
        ("an entry twice", "one", json!({ "entries": [{ "key": "a" }, { "key": "a" }] })),
    ].into_iter().enumerate() {
        s.apply(&format!("apply {at}: {what}"), &one, manager, &widget("lists", &spec)).await;
    }
}

async fn foos(s: &mut Session) {
    let all = s.path(FOOS);
    for (at, (what, spec)) in [
        ("no replicas", json!({ "deploymentName": "a" })),
        ("null replicas", json!({ "deploymentName": "a", "replicas": null })),
        ("no replicas at all", json!({ "deploymentName": "a", "replicas": 0 })),
        ("11 replicas", json!({ "deploymentName": "a", "replicas": 11 })),
        ("an empty name", json!({ "deploymentName": "" })),
        ("a bad name", json!({ "deploymentName": "A_b" })),
        ("a long name", json!({ "deploymentName": "a".repeat(254) })),
        ("no name", json!({ "replicas": 1 })),
        ("a name that is a number", json!({ "deploymentName": 1 })),
    ]
    .into_iter()
    .enumerate()
    {
        let mut object = foo(&format!("f{at}"));
        object["spec"] = spec;
        s.post(&format!("foo: {what}"), &all, &object).await;
    }
    for name in [
        "a".repeat(253),
        "a".repeat(254),
        "A".to_owned(),
        "a_b".to_owned(),
        "-a".to_owned(),
        "a.b".to_owned(),
        "a..b".to_owned(),
    ] {
        s.post(
            &format!("foo called {}{}", name.get(..name.len().min(4)).unwrap_or_default(), name.len()),
            &format!("{all}?dryRun=All"),
            &foo(&name),
        )
        .await;
    }
}
