//! The writer before a real HTTP server, with no informer: what the cache knows afterwards it knows from the answers.
#![cfg(feature = "dev")]

use devcluster::{DevCluster, Options};
use host::api::ApiClient;
use host::cache::{Cache, ChildView, Origin};
use host::cli::ClusterArgs;
use host::informer::read;
use host::key::Key;
use host::writer::{StatusOutcome, Writer};
use plan::{Kind, Operation, Reason};
use serde_json::{Value, json};
use std::sync::Arc;

const UID: &str = "6a1b2c3d-0000-4000-8000-000000000001";

struct World {
    cluster: DevCluster,
    cache: Arc<Cache>,
    writer: Writer,
    foo: Key,
}

impl World {
    async fn start() -> Self {
        let options = Options { garbage_collector: false, fake_kubelet: false, ..Options::default() };
        let cluster = DevCluster::start(options).await.expect("it starts");
        let args = ClusterArgs { kubeconfig: None, context: None, master: Some(cluster.url()) };
        let connection = host::client::connect(&args).await.expect("a client");
        let cache = Arc::new(Cache::default());
        let foo = json!({
            "apiVersion": foo_api::API_VERSION, "kind": "Foo",
            "metadata": {"namespace": "default", "name": "a", "uid": UID, "resourceVersion": "1"},
            "spec": {"deploymentName": "web"},
        });
        let (object, wants) = read(Kind::Foo, foo).expect("a Foo");
        cache.apply_foo(object, wants.as_deref(), Origin::List);
        let writer = Writer::new(ApiClient::new(&connection), cache.clone());
        Self { cluster, cache, writer, foo: Key::new("default", "a") }
    }

    async fn execute(&self, operation: Operation) -> host::writer::Outcome {
        self.writer.execute("default", &[operation], None).await
    }

    fn child(&self) -> ChildView {
        self.cache.view(&self.foo).expect("the Foo").child
    }
}

fn manifest(owner: &str) -> Value {
    let labels = json!({"app": "x"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "ownerReferences": [{
            "apiVersion": foo_api::API_VERSION, "kind": "Foo", "name": "a", "uid": owner,
            "controller": true, "blockOwnerDeletion": true,
        }]},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    })
}

#[tokio::test]
async fn definition_own_writes_a_created_and_then_deleted_deployment_is_known_before_any_event() {
    let world = World::start().await;
    let outcome = world.execute(Operation::Create { manifest: manifest(UID) }).await;
    assert!(outcome.changed && outcome.failure.is_none());
    let ChildView::Owned(live) = world.child() else { panic!("{:?}", world.child()) };
    let (uid, resource_version) = (live.meta.uid.clone(), live.meta.resource_version.clone());
    let outcome = world.execute(Operation::Delete { name: "web".into(), uid, resource_version }).await;
    assert!(outcome.changed && outcome.failure.is_none());
    assert!(matches!(world.child(), ChildView::Terminating(_)), "until its delete event");
}

#[tokio::test]
async fn case_31_already_exists_is_quiet_and_what_is_there_is_read() {
    let world = World::start().await;
    let other = "6a1b2c3d-0000-4000-8000-000000000002";
    world.execute(Operation::Create { manifest: manifest(other) }).await;
    let outcome = world.execute(Operation::Create { manifest: manifest(UID) }).await;
    assert_eq!(outcome.failure.map(|failure| failure.reason), Some(Reason::AlreadyExists));
    assert!(!outcome.changed);
    assert!(matches!(world.child(), ChildView::Foreign { .. }));
}

#[tokio::test]
async fn definition_writing_a_delete_of_another_version_or_object_is_a_quiet_conflict() {
    let world = World::start().await;
    world.execute(Operation::Create { manifest: manifest(UID) }).await;
    let ChildView::Owned(live) = world.child() else { panic!("{:?}", world.child()) };
    for (uid, resource_version) in [(UID, live.meta.resource_version.as_str()), (live.meta.uid.as_str(), "1")]
    {
        let delete = Operation::Delete {
            name: "web".into(),
            uid: uid.to_owned(),
            resource_version: resource_version.to_owned(),
        };
        let outcome = world.execute(delete).await;
        assert_eq!(outcome.failure.map(|failure| failure.reason), Some(Reason::Conflict));
        assert!(matches!(world.child(), ChildView::Owned(_)));
    }
}

#[tokio::test]
async fn case_20_a_foo_is_gone_when_the_server_says_so_of_it_and_not_while_foos_are_not_served() {
    let world = World::start().await;
    let failure = world.writer.foo_is_there(&world.foo, UID).await.expect_err("there is no CRD");
    assert_eq!(failure.reason, Reason::NotFound);
    let status = json!({"metadata": {"uid": UID}, "status": {"availableReplicas": 1}});
    let outcome = world.writer.write_status(&world.foo, &status).await;
    assert!(matches!(outcome, StatusOutcome::Failed(_)), "{outcome:?}");
    world.cluster.seed([foo_api::crd()]).expect("a CRD");
    assert_eq!(world.writer.foo_is_there(&world.foo, UID).await.ok(), Some(false));
    let outcome = world.writer.write_status(&world.foo, &status).await;
    assert!(matches!(outcome, StatusOutcome::Gone), "{outcome:?}");
}
