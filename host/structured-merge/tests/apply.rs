//! Server-side apply and managed fields, in scenes that a reader can follow.

use serde_json::{Value, json};
use structured_merge::{
    Applied, Error, FieldSet, ManagedFields, Operation, Path, Request, Schema, apply, defaults, update,
};

const CONTAINER: &str = r#".spec.template.spec.containers[name="nginx"]"#;

/// A Deployment as an API server keeps it.
struct Server {
    live: Value,
    managers: Vec<ManagedFields>,
    reset: FieldSet,
    seconds: u32,
}

impl Server {
    fn new() -> Self {
        let reset = [Path::fields(["status"])].into_iter().collect();
        Self { live: Value::Null, managers: Vec::new(), reset, seconds: 0 }
    }

    fn request<'a>(&'a self, manager: &'a str, time: &'a str) -> Request<'a> {
        Request { manager, api_version: "apps/v1", subresource: "", time, reset: &self.reset }
    }

    fn time(&mut self) -> String {
        self.seconds += 1;
        format!("2026-01-01T00:00:{:02}Z", self.seconds)
    }

    fn store(&mut self, mut object: Value, managers: Vec<ManagedFields>) {
        defaults::deployment(&mut object);
        object["metadata"]["uid"] = json!("1");
        (self.live, self.managers) = (object, managers);
    }

    fn try_apply(&mut self, manager: &str, config: &Value, force: bool) -> Result<Applied, Error> {
        let time = self.time();
        let request = self.request(manager, &time);
        let applied = apply(&self.live, &self.managers, config, force, Schema::deployment(), &request)?;
        self.store(applied.object.clone(), applied.managers.clone());
        Ok(applied)
    }

    fn apply(&mut self, manager: &str, config: &Value) -> Applied {
        self.try_apply(manager, config, true).expect("a forced apply of a valid configuration")
    }

    fn put(&mut self, manager: &str, mut object: Value) {
        let time = self.time();
        defaults::deployment(&mut object);
        let request = self.request(manager, &time);
        let managers =
            update(&self.live, &object, &self.managers, Schema::deployment(), &request).expect("entries");
        self.store(object, managers);
    }

    fn entry(&self, manager: &str, operation: Operation) -> Vec<String> {
        let entry =
            self.managers.iter().find(|entry| entry.manager == manager && entry.operation == operation);
        let fields = entry.map(|entry| entry.fields().expect("fields")).unwrap_or_default();
        fields.paths().map(|path| path.to_string()).collect()
    }
}

fn deployment(spec: &Value, container: &Value) -> Value {
    let mut spec = spec.clone();
    let mut container = container.clone();
    container["name"] = json!("nginx");
    spec["template"]["spec"]["containers"] = json!([container]);
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}, "spec": spec})
}

#[test]
fn a_post_owns_what_it_set_and_the_defaults() {
    let mut server = Server::new();
    server.put("sample-controller", deployment(&json!({"replicas": 1}), &json!({"image": "nginx:latest"})));
    assert_eq!(server.managers.len(), 1);
    // What a real 1.36 server writes.
    let expected = json!({"f:spec": {
        "f:progressDeadlineSeconds": {},
        "f:replicas": {},
        "f:revisionHistoryLimit": {},
        "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}}, "f:type": {}},
        "f:template": {"f:spec": {
            "f:containers": {r#"k:{"name":"nginx"}"#: {
                ".": {},
                "f:image": {},
                "f:imagePullPolicy": {},
                "f:name": {},
                "f:resources": {},
                "f:terminationMessagePath": {},
                "f:terminationMessagePolicy": {},
            }},
            "f:dnsPolicy": {},
            "f:restartPolicy": {},
            "f:schedulerName": {},
            "f:securityContext": {},
            "f:terminationGracePeriodSeconds": {},
        }},
    }});
    assert_eq!(server.managers[0].fields_v1, expected);
    assert_eq!(server.managers[0].operation, Operation::Update);
}

#[test]
fn an_apply_owns_exactly_its_configuration() {
    let mut server = Server::new();
    server.apply("one", &deployment(&json!({"replicas": 2}), &json!({"image": "nginx:1"})));
    let expected = [
        ".spec.replicas".to_owned(),
        CONTAINER.to_owned(),
        format!("{CONTAINER}.image"),
        format!("{CONTAINER}.name"),
    ];
    assert_eq!(server.entry("one", Operation::Apply), expected);
    assert_eq!(server.live["spec"]["revisionHistoryLimit"], 10);
}

#[test]
fn a_field_that_is_dropped_from_the_configuration_is_removed() {
    let mut server = Server::new();
    server.apply("one", &deployment(&json!({}), &json!({"image": "nginx:1", "args": ["a"]})));
    server.apply("one", &deployment(&json!({}), &json!({"image": "nginx:1"})));
    assert_eq!(server.live["spec"]["template"]["spec"]["containers"][0].get("args"), None);
}

#[test]
fn a_dropped_field_stays_while_somebody_else_owns_it() {
    let mut server = Server::new();
    server.apply("one", &deployment(&json!({"replicas": 2}), &json!({"image": "nginx:1"})));
    server.apply(
        "two",
        &json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 2}}),
    );
    server.apply("one", &deployment(&json!({}), &json!({"image": "nginx:1"})));
    assert_eq!(server.live["spec"]["replicas"], 2);
    assert_eq!(server.entry("two", Operation::Apply), [".spec.replicas"]);
}

#[test]
fn an_unforced_apply_over_another_managers_field_is_a_conflict() {
    let mut server = Server::new();
    server.put("kubectl", deployment(&json!({"replicas": 1}), &json!({"image": "nginx:1"})));
    let wanted = deployment(&json!({"replicas": 2}), &json!({"image": "nginx:1"}));
    let error = server.try_apply("one", &wanted, false).expect_err("a conflict");
    assert_eq!(
        error.to_string(),
        r#"Apply failed with 1 conflict: conflict with "kubectl" using apps/v1: .spec.replicas"#
    );
    let both = deployment(&json!({"replicas": 2}), &json!({"image": "nginx:2"}));
    let error = server.try_apply("one", &both, false).expect_err("conflicts");
    let expected = format!(
        "Apply failed with 2 conflicts: conflicts with \"kubectl\" using apps/v1:\n- .spec.replicas\n- {CONTAINER}.image"
    );
    assert_eq!(error.to_string(), expected);
    assert_eq!(server.live["spec"]["replicas"], 1);
}

#[test]
fn a_forced_apply_takes_the_field_from_the_other_manager() {
    let mut server = Server::new();
    server.put("kubectl", deployment(&json!({"replicas": 1}), &json!({"image": "nginx:1"})));
    server.apply("one", &deployment(&json!({"replicas": 2}), &json!({"image": "nginx:1"})));
    assert_eq!(server.live["spec"]["replicas"], 2);
    let kubectl = server.entry("kubectl", Operation::Update);
    assert!(!kubectl.contains(&".spec.replicas".to_owned()), "{kubectl:?}");
    // The same value is shared.
    assert!(kubectl.contains(&format!("{CONTAINER}.image")), "{kubectl:?}");
}

#[test]
fn an_update_takes_what_it_changed_and_nothing_else() {
    let mut server = Server::new();
    server.apply("one", &deployment(&json!({"replicas": 2}), &json!({"image": "nginx:1"})));
    let mut scaled = server.live.clone();
    scaled["spec"]["replicas"] = json!(5);
    server.put("kubectl", scaled);
    assert_eq!(server.entry("kubectl", Operation::Update), [".spec.replicas"]);
    assert!(!server.entry("one", Operation::Apply).contains(&".spec.replicas".to_owned()));
}

#[test]
fn what_an_update_removes_leaves_everybody() {
    let mut server = Server::new();
    server.apply("one", &deployment(&json!({}), &json!({"image": "nginx:1", "args": ["a"]})));
    let mut without = server.live.clone();
    without["spec"]["template"]["spec"]["containers"][0]["args"] = json!([]);
    server.put("kubectl", without);
    assert!(!server.entry("one", Operation::Apply).contains(&format!("{CONTAINER}.args")));
    assert_eq!(server.entry("kubectl", Operation::Update), Vec::<String>::new());
}

#[test]
fn a_repeated_apply_changes_nothing_and_keeps_the_time() {
    let mut server = Server::new();
    let config = deployment(&json!({"replicas": 2}), &json!({"image": "nginx:1"}));
    server.apply("one", &config);
    let (live, managers) = (server.live.clone(), server.managers.clone());
    let again = server.apply("one", &config);
    assert!(!again.changed);
    assert_eq!((server.live, server.managers), (live, managers));
}

#[test]
fn an_apply_as_kubectl_takes_what_its_client_side_apply_set() {
    let mut server = Server::new();
    let config = deployment(&json!({"replicas": 1}), &json!({"image": "nginx:1"}));
    let mut object = config.clone();
    object["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": config.to_string()});
    server.put("kubectl-client-side-apply", object);
    let wanted = deployment(&json!({"replicas": 1}), &json!({"image": "nginx:2"}));
    assert!(server.try_apply("other", &wanted, false).is_err());
    server.try_apply("kubectl", &wanted, false).expect("no conflict with itself");
    assert_eq!(server.live["spec"]["template"]["spec"]["containers"][0]["image"], "nginx:2");
    let annotation =
        &server.live["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
    assert!(annotation.as_str().is_some_and(|text| text.contains("nginx:2")));
}

#[test]
fn a_configuration_outside_the_schema_is_refused_with_its_path() {
    let mut server = Server::new();
    let error =
        server.try_apply("one", &deployment(&json!({"replica": 1}), &json!({})), true).expect_err("unknown");
    assert_eq!(
        error.to_string(),
        "failed to create typed patch object (default/web; apps/v1, Kind=Deployment): \
         .spec.replica: field not declared in schema"
    );
    let twice = json!({"env": [{"name": "A"}, {"name": "A"}]});
    let error = server.try_apply("one", &deployment(&json!({}), &twice), true).expect_err("duplicates");
    assert!(
        error.to_string().ends_with(&format!("{CONTAINER}.env: duplicate entries for key [name=\"A\"]")),
        "{error}"
    );
    let mut managed = deployment(&json!({}), &json!({}));
    managed["metadata"]["managedFields"] = json!([]);
    let error = server.try_apply("one", &managed, true).expect_err("managed fields");
    assert_eq!(error, Error::BadRequest("metadata.managedFields must be nil".to_owned()));
}

#[test]
fn an_object_without_entries_is_before_first_apply() {
    let mut server = Server::new();
    server.put("kubectl", deployment(&json!({"replicas": 1}), &json!({"image": "nginx:1"})));
    server.managers.clear();
    let config = deployment(&json!({"replicas": 2}), &json!({"image": "nginx:1"}));
    let error = server.try_apply("one", &config, false).expect_err("a conflict");
    assert!(
        error.to_string().contains(r#"conflict with "before-first-apply" using apps/v1: .spec.replicas"#)
    );
    // Other writes do not start the bookkeeping.
    let mut scaled = server.live.clone();
    scaled["spec"]["replicas"] = json!(3);
    server.put("kubectl", scaled);
    assert!(server.managers.is_empty());
}

#[test]
fn entries_that_differ_in_time_alone_are_the_same() {
    let mut server = Server::new();
    server.put("kubectl", deployment(&json!({}), &json!({})));
    let mut later = server.managers.clone();
    later[0].time = Some("2027-01-01T00:00:00Z".to_owned());
    assert!(ManagedFields::same_but_times(&server.managers, &later));
    later[0].manager = "other".to_owned();
    assert!(!ManagedFields::same_but_times(&server.managers, &later));
}
