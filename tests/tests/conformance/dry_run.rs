//! Dry run, and the options of writes.

use crate::objects::{DEPLOYMENTS, FOOS, config_map, deployment, foo};
use crate::session::{APPLY, Call, JSON_PATCH, MERGE, Session};
use crate::table::Intended;
use serde_json::json;

pub(crate) const INTENDED: &[Intended] = &[];

pub(crate) async fn scenario(s: &mut Session) {
    for (resource, object) in
        [("v1/configmaps", config_map("one")), (DEPLOYMENTS, deployment("one")), (FOOS, foo("one"))]
    {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let (all, one) = (s.path(resource), s.path(&format!("{resource}/one")));
        s.post(&format!("{kind}: create, dry"), &format!("{all}?dryRun=All"), &object).await;
        s.get(&format!("{kind}: it was not created"), &one).await;
        s.apply(&format!("{kind}: create by an apply, dry"), &one, "m&dryRun=All", &object).await;
        let made = s.post(&format!("{kind}: create"), &format!("{all}?fieldManager=somebody"), &object).await;
        s.post(&format!("{kind}: create what is there, dry"), &format!("{all}?dryRun=All"), &object).await;
        let mut changed = made.clone();
        changed["metadata"]["labels"] = json!({ "a": "b" });
        s.put(&format!("{kind}: replace, dry"), &format!("{one}?dryRun=All"), &changed).await;
        s.patch(
            &format!("{kind}: patch, dry"),
            MERGE,
            &format!("{one}?dryRun=All"),
            &json!({ "metadata": { "labels": { "x": "y" } } }),
        )
        .await;
        s.patch(
            &format!("{kind}: JSON patch, dry"),
            JSON_PATCH,
            &format!("{one}?dryRun=All"),
            &json!([{ "op": "add", "path": "/metadata/labels", "value": { "x": "y" } }]),
        )
        .await;
        s.apply(&format!("{kind}: apply, dry"), &one, "m&dryRun=All&force=true", &changed_for_apply(&object))
            .await;
        s.delete(&format!("{kind}: delete, dry"), &format!("{one}?dryRun=All"), None).await;
        s.get(&format!("{kind}: nothing happened"), &one).await;
        for (what, query) in [
            ("a dry run that is none", "dryRun=Some"),
            ("an empty dry run", "dryRun="),
            ("two dry runs", "dryRun=All&dryRun=All"),
            ("a validation that is none", "fieldValidation=Nonsense"),
            ("a long manager", &format!("fieldManager={}", "m".repeat(129))),
            ("a manager of a control character", "fieldManager=a%01"),
            ("an empty manager", "fieldManager="),
            ("force", "force=true"),
            ("an option that is none", "nonsense=1"),
            ("pretty", "pretty=true"),
        ] {
            let mut other = object.clone();
            other["metadata"]["name"] = format!("other-{}", what.replace(' ', "-")).into();
            s.post(&format!("{kind}: create with {what}"), &format!("{all}?{query}"), &other).await;
            s.put(&format!("{kind}: replace with {what}"), &format!("{one}?{query}"), &made).await;
            s.patch(&format!("{kind}: patch with {what}"), MERGE, &format!("{one}?{query}"), &json!({}))
                .await;
            s.delete(&format!("{kind}: delete with {what}"), &format!("{one}?{query}"), None).await;
            s.quietly(Call::with("POST", &format!("{all}?fieldManager=somebody"), &object)).await;
        }
        s.patch(
            &format!("{kind}: apply with a bad force"),
            APPLY,
            &format!("{one}?fieldManager=m&force=maybe"),
            &object,
        )
        .await;
        s.patch(
            &format!("{kind}: apply with a bad dry run"),
            APPLY,
            &format!("{one}?fieldManager=m&dryRun=x"),
            &object,
        )
        .await;
    }
}

fn changed_for_apply(object: &serde_json::Value) -> serde_json::Value {
    let mut object = object.clone();
    object["metadata"]["labels"] = json!({ "applied": "dry" });
    object
}
