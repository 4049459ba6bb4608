//! The API servers that the suite runs on: the one in memory, new for each test, and real control planes, one or
//! two for a whole test binary.
//!
//! On the real one a test has a namespace of its own on a plane that all share, under our CRD, with pods. A test
//! that needs another CRD, no controllers, or to see all namespaces has a second plane for itself meanwhile.

use crate::api::Api;
use crate::objects::at;
use crate::world::{Crd, crd_object};
use controlplane::{Plane, Process, User};
use devcluster::DevCluster;
use fault_proxy::Upstream;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// Which kind of API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// `devcluster`.
    Memory,
    /// kube-apiserver, etcd, the controllers and pods under kwok.
    Plane,
}

/// Makes the template `both` of a test binary: a test with `#[apply(both)]` runs on each of the two servers. Without
/// Go the real one is ignored (`tests/build.rs`).
#[macro_export]
macro_rules! both_servers {
    () => {
        #[rstest_reuse::template]
        #[rstest::rstest]
        #[case::memory($crate::Backend::Memory)]
        #[cfg_attr(not(control_plane), ignore = "there is no Go to build a control plane with")]
        #[case::plane($crate::Backend::Plane)]
        fn both(#[case] backend: $crate::Backend) {}
    };
}

/// The user as whom the controller speaks to a plane; it has the role of `artifacts/rbac.yaml`.
pub const HOST_USER: &str = "foo-host";

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// What the names of the tests' namespaces begin with.
pub(crate) const NAMESPACES: &str = "test-";

/// What a test needs of its server.
#[derive(Clone, Copy)]
pub(crate) struct Needs {
    pub(crate) crd: Crd,
    pub(crate) alone: bool,
    pub(crate) kubelet: bool,
    pub(crate) garbage_collector: bool,
}

/// The server of one test.
pub(crate) enum Server {
    Memory(DevCluster),
    Shared(&'static Plane),
    Alone(MutexGuard<'static, Plane>),
}

impl Needs {
    fn shareable(self) -> bool {
        self.crd == Crd::Ours && !self.alone && self.kubelet && self.garbage_collector
    }
}

impl Server {
    /// A plane as a test needs it.
    pub(crate) async fn plane(needs: Needs) -> Self {
        if needs.shareable() {
            return Self::Shared(shared().await);
        }
        let plane = second().await;
        let processes = [
            (Process::ControllerManager, needs.kubelet),
            (Process::GarbageCollector, needs.kubelet && needs.garbage_collector),
        ];
        let api = Api::of_plane(&plane, "admin");
        // Before the controllers go on: what they never made pods of costs them nothing then.
        remove_namespaces(&api).await;
        // What the last test left needs them to go away.
        for (process, _) in processes {
            plane.resume(process).expect("it runs");
        }
        clear(&api).await;
        if needs.crd != Crd::None {
            install(&api, needs.crd).await;
            plane.restart(Process::GarbageCollector).expect("it runs");
        }
        for (process, _) in processes.into_iter().filter(|(_, wanted)| !wanted) {
            plane.pause(process).expect("it runs");
        }
        Self::Alone(plane)
    }

    /// The control plane, if it is one.
    pub(crate) fn as_plane(&self) -> Option<&Plane> {
        match self {
            Self::Memory(_) => None,
            Self::Shared(plane) => Some(plane),
            Self::Alone(plane) => Some(plane),
        }
    }

    /// Where the fault proxy forwards to.
    pub(crate) fn upstream(&self) -> Upstream {
        let of = |plane: &Plane| Upstream::tls(plane.url(), plane.ca_pem());
        match self {
            Self::Memory(cluster) => Upstream::new(&cluster.url()),
            Self::Shared(plane) => of(plane),
            Self::Alone(plane) => of(plane),
        }
    }

    /// Forgets the past: a watch that goes on from a version of before is answered 410.
    pub(crate) async fn forget(&self) {
        match self {
            Self::Memory(cluster) => {
                cluster.compact();
                cluster.expire_watches();
            }
            Self::Shared(_) => panic!("its API server is not to be restarted under other tests: alone()"),
            Self::Alone(plane) => {
                // Newer than what any watch of the controller has seen.
                let newer =
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "newer-"}});
                self.api().create("/api/v1/namespaces/default/configmaps", &newer).await;
                plane.compact().expect("it compacts");
                tokio::task::block_in_place(|| plane.restart_apiserver()).expect("it starts again");
            }
        }
    }

    /// The tests' own client, past the proxy.
    pub(crate) fn api(&self) -> Api {
        match self {
            Self::Memory(cluster) => Api::new(&cluster.url()),
            Self::Shared(plane) => Api::of_plane(plane, "admin"),
            Self::Alone(plane) => Api::of_plane(plane, "admin"),
        }
    }
}

/// Installs or replaces the Foo CRD, and waits until it is served.
pub(crate) async fn install(api: &Api, crd: Crd) {
    install_crd(api, crd_object(crd)).await;
}

/// Installs or replaces the Foo CRD by this object, and waits until it is served.
pub async fn install_crd(api: &Api, mut crd: Value) {
    let path = format!("{CRDS}/{}", foo_api::CRD_NAME);
    if let Some(live) = api.get(&path).await {
        crd["metadata"]["resourceVersion"] = at(&live, "/metadata/resourceVersion").clone();
        api.replace(&path, &crd).await;
    } else {
        api.create(CRDS, &crd).await;
    }
    api.until(&path, "established", |crd| {
        let conditions = at(crd, "/status/conditions").as_array().cloned().unwrap_or_default();
        conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True")
    })
    .await;
    // Established is said before it is served: first 404, then 429 until its storage is there.
    let foos = format!("/apis/{}/{}/foos", foo_api::GROUP, foo_api::VERSION);
    crate::api::until("Foos are served", async || api.text(&foos).await.is_some_and(|(code, _)| code == 200))
        .await;
}

/// Takes the Deployments of earlier tests away, and tells their namespaces to go.
async fn remove_namespaces(api: &Api) {
    for namespace in api.list("/api/v1/namespaces").await {
        let name = at(&namespace, "/metadata/name").as_str().unwrap_or_default();
        if name.starts_with(NAMESPACES) && at(&namespace, "/metadata/deletionTimestamp").is_null() {
            api.delete(&crate::objects::deployment_path(name, "")).await;
            api.delete(&format!("/api/v1/namespaces/{name}")).await;
        }
    }
}

/// A plane with pods and the controller's role.
fn start() -> Result<Plane, String> {
    let options = controlplane::Options {
        controllers: true,
        pods: true,
        users: vec![User::new(HOST_USER)],
        // Some clusters have it on; it asks for rights that others do not ask for.
        enable_admission: vec!["OwnerReferencesPermissionEnforcement".into()],
    };
    Plane::start(&options).map_err(|error| format!("the control plane: {error}"))
}

/// An error is kept, so that one that cannot start is waited for once and not by each test.
async fn start_with_role() -> Result<Plane, String> {
    let plane = tokio::task::spawn_blocking(start).await.expect("no panic")?;
    grant(&Api::of_plane(&plane, "admin"), HOST_USER).await;
    Ok(plane)
}

/// Gives a user the role of `artifacts/rbac.yaml`.
pub async fn grant(api: &Api, user: &str) {
    for object in rbac(user) {
        let kind = if object["kind"] == "ClusterRole" { "clusterroles" } else { "clusterrolebindings" };
        api.create(&format!("/apis/rbac.authorization.k8s.io/v1/{kind}"), &object).await;
    }
}

async fn shared() -> &'static Plane {
    static PLANE: OnceCell<Result<Plane, String>> = OnceCell::const_new();
    let start = async || {
        let plane = start_with_role().await?;
        install(&Api::of_plane(&plane, "admin"), Crd::Ours).await;
        // It looks for new kinds every 30 s only.
        plane.restart(Process::GarbageCollector).expect("it runs");
        Ok(plane)
    };
    PLANE.get_or_init(start).await.as_ref().unwrap_or_else(|error| panic!("{error}"))
}

async fn second() -> MutexGuard<'static, Plane> {
    static PLANE: OnceCell<Result<Mutex<Plane>, String>> = OnceCell::const_new();
    let plane = PLANE.get_or_init(async || start_with_role().await.map(Mutex::new)).await;
    plane.as_ref().unwrap_or_else(|error| panic!("{error}")).lock().await
}

/// The `ClusterRole` of `artifacts/rbac.yaml`, and a binding of it to a user.
pub fn rbac(user: &str) -> Vec<Value> {
    let text =
        std::fs::read_to_string(crate::guests::root().join("artifacts/rbac.yaml")).expect("it is there");
    let objects = text.split("\n---\n").map(|one| serde_yaml_ng::from_str::<Value>(one).expect("YAML"));
    objects
        .filter(|object| object["kind"] == "ClusterRole" || object["kind"] == "ClusterRoleBinding")
        .map(|mut object| {
            if object["kind"] == "ClusterRoleBinding" {
                object["subjects"] =
                    json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]);
            }
            object
        })
        .collect()
}

/// Takes the Foos of earlier tests away, the CRD with them.
pub async fn clear(api: &Api) {
    let foos = format!("/apis/{}/{}/foos", foo_api::GROUP, foo_api::VERSION);
    for foo in api.list(&foos).await {
        if !at(&foo, "/metadata/finalizers").is_null() {
            let text = |pointer| at(&foo, pointer).as_str().unwrap_or_default();
            let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
            let path = crate::objects::foo_path(namespace, name);
            api.merge(&path, &json!({"metadata": {"finalizers": null}})).await;
        }
    }
    let path = format!("{CRDS}/{}", foo_api::CRD_NAME);
    if api.get(&path).await.is_some() {
        api.delete(&path).await;
        api.until_gone(&path).await;
    }
}
