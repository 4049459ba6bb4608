//! Events in both forms.

use crate::session::{Call, MERGE, STRATEGIC, Session};
use crate::table::Intended;
use serde_json::{Value, json};

pub(crate) const INTENDED: &[Intended] = &[];

const OLD: &str = "v1/events";
const NEW: &str = "events.k8s.io/v1/events";

fn old(name: &str, namespace: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Event", "metadata": { "name": name }, "involvedObject": { "kind": "Foo",
        "apiVersion": "samplecontroller.k8s.io/v1alpha1", "name": "one", "namespace": namespace, "uid": "u" },
        "reason": "Synced", "message": "done", "type": "Normal", "source": { "component": "sample-controller" },
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z", "count": 1 })
}

fn new(name: &str, namespace: &str) -> Value {
    json!({ "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": { "name": name }, "regarding": {
        "kind": "Foo", "apiVersion": "samplecontroller.k8s.io/v1alpha1", "name": "one", "namespace": namespace },
        "reason": "Synced", "note": "done", "type": "Normal", "action": "Sync", "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "sample-controller", "reportingInstance": "sample-controller-1" })
}

pub(crate) async fn scenario(s: &mut Session) {
    let namespace = s.namespace.clone();
    s.post("old form: create", &s.path(OLD), &old("old", &namespace)).await;
    s.get("old form: as the new", &s.path(&format!("{NEW}/old"))).await;
    s.post("new form: create", &s.path(NEW), &new("new", &namespace)).await;
    s.get("new form: as the old", &s.path(&format!("{OLD}/new"))).await;
    // As client-go's recorders write.
    let patch = json!({ "count": 2, "lastTimestamp": "2026-01-01T00:01:00Z" });
    s.patch("old form: a count, strategic", STRATEGIC, &s.path(&format!("{OLD}/old")), &patch).await;
    s.patch(
        "old form: a message",
        MERGE,
        &s.path(&format!("{OLD}/old")),
        &json!({ "message": "again", "count": 3 }),
    )
    .await;
    let series = json!({ "series": { "count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z" } });
    s.patch("new form: a series", STRATEGIC, &s.path(&format!("{NEW}/new")), &series).await;
    s.patch(
        "new form: a series, merged",
        MERGE,
        &s.path(&format!("{NEW}/new")),
        &json!({ "series": { "count": 3 } }),
    )
    .await;
    s.patch("new form: a note", MERGE, &s.path(&format!("{NEW}/new")), &json!({ "note": "other" })).await;
    s.patch(
        "old form through the new",
        MERGE,
        &s.path(&format!("{NEW}/old")),
        &json!({ "deprecatedCount": 9 }),
    )
    .await;
    s.patch("a patch of what is not there", STRATEGIC, &s.path(&format!("{OLD}/none")), &patch).await;
    s.put("old form: replace", &s.path(&format!("{OLD}/old")), &old("old", &namespace)).await;
    s.put("old form: create by a replace", &s.path(&format!("{OLD}/put")), &old("put", &namespace)).await;
    for (what, resource, change) in [
        ("old, no object", OLD, json!({ "involvedObject": null })),
        ("old, another namespace", OLD, json!({ "involvedObject": { "namespace": "other" } })),
        ("old, no namespace", OLD, json!({ "involvedObject": { "namespace": "" } })),
        ("old, a type that is none", OLD, json!({ "type": "Nonsense" })),
        ("old, nothing else", OLD, json!({ "reason": "", "message": "", "type": "" })),
        (
            "old, no times",
            OLD,
            json!({ "firstTimestamp": null, "lastTimestamp": null, "count": null, "source": null }),
        ),
        ("old, with a time of its own", OLD, json!({ "eventTime": "2026-01-01T00:00:00.000000Z" })),
        (
            "old, all that the new asks for",
            OLD,
            json!({ "eventTime": "2026-01-01T00:00:00.000000Z", "action": "A",
            "reportingComponent": "c", "reportingInstance": "i" }),
        ),
        ("old, a long message", OLD, json!({ "message": "m".repeat(2000) })),
        ("old, an unknown field", OLD, json!({ "unknown": 1 })),
        (
            "old, a bad name of a reporter",
            OLD,
            json!({ "eventTime": "2026-01-01T00:00:00.000000Z", "action": "A",
            "reportingComponent": "a b", "reportingInstance": "i" }),
        ),
        ("new, no time", NEW, json!({ "eventTime": null })),
        ("new, no action", NEW, json!({ "action": "" })),
        ("new, no reason", NEW, json!({ "reason": "" })),
        ("new, no controller", NEW, json!({ "reportingController": "" })),
        ("new, no instance", NEW, json!({ "reportingInstance": "" })),
        ("new, a type that is none", NEW, json!({ "type": "Nonsense" })),
        ("new, a long note", NEW, json!({ "note": "n".repeat(1025) })),
        ("new, a note that just fits", NEW, json!({ "note": "n".repeat(1024) })),
        ("new, a long reason", NEW, json!({ "reason": "r".repeat(129) })),
        ("new, a long action", NEW, json!({ "action": "a".repeat(129) })),
        ("new, a long instance", NEW, json!({ "reportingInstance": "i".repeat(129) })),
        ("new, a bad controller", NEW, json!({ "reportingController": "a b" })),
        ("new, old counts", NEW, json!({ "deprecatedCount": 1 })),
        ("new, old times", NEW, json!({ "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z" })),
        ("new, an old source", NEW, json!({ "deprecatedSource": { "component": "x" } })),
        ("new, another namespace", NEW, json!({ "regarding": { "namespace": "other" } })),
        (
            "new, a series",
            NEW,
            json!({ "series": { "count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z" } }),
        ),
        (
            "new, a series of one",
            NEW,
            json!({ "series": { "count": 1, "lastObservedTime": "2026-01-01T00:00:00.000000Z" } }),
        ),
        ("new, a series without a time", NEW, json!({ "series": { "count": 2 } })),
        ("new, a time in seconds", NEW, json!({ "eventTime": "2026-01-01T00:00:00Z" })),
        ("new, a related object", NEW, json!({ "related": { "kind": "Deployment", "name": "d" } })),
    ] {
        let name = what.replace([',', ' '], "-").replace("--", "-");
        let mut event = if resource == OLD { old(&name, &namespace) } else { new(&name, &namespace) };
        merge(&mut event, &change);
        s.post(what, &s.path(resource), &event).await;
    }
    s.post(
        "an event of a namespace, in default",
        "/api/v1/namespaces/default/events?dryRun=All",
        &old("x", ""),
    )
    .await;
    s.post("an event of a namespace, elsewhere", &s.path(OLD), &old("x", "")).await;
    for (resource, selectors) in [
        (
            OLD,
            [
                "involvedObject.name=one",
                "involvedObject.kind=Foo,reason=Synced",
                "type=Warning",
                "involvedObject.uid=u",
                "source=sample-controller",
                "reportingComponent=sample-controller",
                "regarding.name=one",
                "message=x",
                "involvedObject.fieldPath=",
                "action=Sync",
            ],
        ),
        (
            NEW,
            [
                "regarding.name=one",
                "regarding.kind=Foo,reason=Synced",
                "type=Warning",
                "regarding.uid=u",
                "source=sample-controller",
                "reportingController=sample-controller",
                "involvedObject.name=one",
                "note=x",
                "regarding.fieldPath=",
                "action=Sync",
            ],
        ),
    ] {
        for selector in selectors {
            let path = format!("{}?limit=2&fieldSelector={}", s.path(resource), selector.replace('=', "%3D"));
            s.get(&format!("{resource} by {selector}"), &path).await;
        }
    }
    s.get("a list in the old form", &s.path(OLD)).await;
    s.get("a list in the new form", &s.path(NEW)).await;
    s.delete("delete through the other form", &s.path(&format!("{NEW}/old")), None).await;
    s.delete("delete", &s.path(&format!("{OLD}/new")), Some(&json!({ "propagationPolicy": "Foreground" })))
        .await;
    let watch = s
        .watch(
            &format!("{}?watch=true&fieldSelector=metadata.name%3Dlate", s.path(NEW)),
            crate::session::JSON,
        )
        .await;
    s.quietly(Call::with("POST", &s.path(OLD), &old("late", &namespace))).await;
    s.events("a watch in the other form", watch, |_| true).await;
}

fn merge(into: &mut Value, change: &Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (name, value) in change {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, change) => *into = change.clone(),
    }
}
