//! The server of a sweep, with the Foo CRD and the controller's role, and what only collects garbage.

use controlplane::{Options, Plane, Process, User};
use devcluster::DevCluster;
use fault_proxy::{Listen, Proxy, Upstream};
use serde_json::Value;
use tests::backend::{self, HOST_USER, rbac};
use tests::{Api, Backend, Crd, world};

pub(crate) struct Ground {
    server: Server,
    pub(crate) api: Api,
}

enum Server {
    Memory(DevCluster),
    Plane(Box<Plane>),
}

impl Ground {
    pub(crate) async fn new(backend: Backend) -> Self {
        let server = match backend {
            Backend::Memory => {
                let options = devcluster::Options { fake_kubelet: false, ..devcluster::Options::default() };
                Server::Memory(DevCluster::start(options).await.expect("the API starts"))
            }
            Backend::Plane => {
                let start = || {
                    let users = vec![User::new(HOST_USER)];
                    let plane = Plane::start(&Options { controllers: true, users, ..Options::default() });
                    plane.unwrap_or_else(|error| panic!("the control plane: {error}"))
                };
                Server::Plane(Box::new(tokio::task::spawn_blocking(start).await.expect("no panic")))
            }
        };
        let api = match &server {
            Server::Memory(cluster) => Api::new(&cluster.url()),
            Server::Plane(plane) => Api::of_plane(plane, "admin"),
        };
        backend::install_crd(&api, crd()).await;
        if let Server::Plane(plane) = &server {
            for object in rbac(HOST_USER) {
                let kind =
                    if object["kind"] == "ClusterRole" { "clusterroles" } else { "clusterrolebindings" };
                api.create(&format!("/apis/rbac.authorization.k8s.io/v1/{kind}"), &object).await;
            }
            plane.pause(Process::ControllerManager).expect("it runs");
            // It looks for new kinds every 30 s only.
            plane.restart(Process::GarbageCollector).expect("it runs");
        }
        Self { server, api }
    }

    /// A proxy for one controller, and the kubeconfig for it.
    pub(crate) async fn proxy(&self) -> (Proxy, String) {
        let (upstream, listen, token) = match &self.server {
            Server::Memory(cluster) => (Upstream::new(&cluster.url()), Listen::Plain, None),
            Server::Plane(plane) => {
                (Upstream::tls(plane.url(), plane.ca_pem()), Listen::Tls, Some(plane.token(HOST_USER)))
            }
        };
        let proxy = Proxy::start(upstream, listen).await.expect("the proxy starts");
        let kubeconfig = proxy.kubeconfig(token);
        (proxy, kubeconfig)
    }
}

/// Ours, but that it lets names in that Kubernetes would refuse.
fn crd() -> Value {
    let mut crd = world::crd_object(Crd::Ours);
    let spec = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let name = spec["properties"]["deploymentName"].as_object_mut().expect("a schema");
    name.remove("minLength").expect("an empty name is refused");
    name.remove("pattern").expect("some names are refused");
    crd
}
