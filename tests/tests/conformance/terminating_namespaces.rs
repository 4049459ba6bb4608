//! Namespaces: what they are, and how they go.

use crate::objects::{config_map, foo};
use crate::session::{Call, MERGE, Session};
use crate::table::Intended;
use serde_json::json;

pub(crate) const INTENDED: &[Intended] = &[];

pub(crate) async fn scenario(s: &mut Session) {
    let name = "conformance-goes-away";
    let path = format!("/api/v1/namespaces/{name}");
    let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    s.post("a namespace", "/api/v1/namespaces", &object).await;
    let mut held = config_map("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    s.quietly(Call::with("POST", &format!("{path}/configmaps"), &held)).await;
    s.quietly(Call::with("POST", &format!("{path}/configmaps"), &config_map("free"))).await;
    s.delete("delete a namespace", &path, None).await;
    s.until_gone("what is in it goes", &format!("{path}/configmaps/free")).await;
    s.post("create in a namespace that goes", &format!("{path}/configmaps"), &config_map("late")).await;
    s.post(
        "create a Foo in a namespace that goes",
        &format!("/apis/samplecontroller.k8s.io/v1alpha1/namespaces/{name}/foos"),
        &foo("late"),
    )
    .await;
    s.until("what is held is being deleted", &format!("{path}/configmaps/held"), |_, o| {
        !o["metadata"]["deletionTimestamp"].is_null()
    })
    .await;
    s.quietly(
        Call::with(
            "PATCH",
            &format!("{path}/configmaps/held"),
            &json!({ "metadata": { "finalizers": null } }),
        )
        .content_type(MERGE),
    )
    .await;
    s.until_gone("it is gone", &path).await;
    s.delete("delete the default namespace", "/api/v1/namespaces/default", None).await;
    s.delete("delete a namespace that is not there", &path, None).await;
}
