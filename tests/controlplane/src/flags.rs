//! The command line of each program.

use crate::identity::Identity;
use std::path::Path;

/// The admission plugins that stay off, and why.
pub(crate) const ADMISSION_OFF: [(&str, &str); 2] = [
    ("ServiceAccount", "it asks for a ServiceAccount in each namespace, and nothing here makes them"),
    ("TaintNodesByCondition", "it taints the Node, and nothing here lifts the taint"),
];

/// What the flags of several programs name.
pub(crate) struct Paths<'a> {
    /// The plane's directory.
    pub(crate) directory: &'a Path,
    /// Certificates and tokens in it.
    pub(crate) identity: &'a Identity,
    /// The administrator's.
    pub(crate) kubeconfig: &'a Path,
}

pub(crate) fn etcd(directory: &Path, port: u16) -> Vec<String> {
    let data = directory.join("etcd");
    vec![
        format!("--data-dir={}", data.display()),
        format!("--listen-client-urls=http://127.0.0.1:{port}"),
        format!("--advertise-client-urls=http://127.0.0.1:{port}"),
        "--socket-reuse-port=true".into(),
        // It has no peers, and etcd insists on listening for them.
        "--listen-peer-urls=http://127.0.0.1:0".into(),
        "--unsafe-no-fsync=true".into(),
        "--log-level=warn".into(),
    ]
}

pub(crate) fn apiserver(paths: &Paths<'_>, port: u16, etcd: &str, admission: &[String]) -> Vec<String> {
    let Identity { certificate, key, service_account_key, service_account_public_key, token_file, .. } =
        paths.identity;
    let mut flags = vec![
        format!("--etcd-servers={etcd}"),
        "--bind-address=127.0.0.1".into(),
        format!("--secure-port={port}"),
        "--permit-port-sharing=true".into(),
        // There is no address to advertise, and nothing that asks for one.
        "--advertise-address=127.0.0.1".into(),
        "--endpoint-reconciler-type=none".into(),
        // kwok gives pods addresses of 10.0.0.0/24.
        "--service-cluster-ip-range=10.96.0.0/16".into(),
        format!("--cert-dir={}", paths.directory.display()),
        format!("--tls-cert-file={}", certificate.display()),
        format!("--tls-private-key-file={}", key.display()),
        "--authorization-mode=RBAC,Node".into(),
        format!("--token-auth-file={}", token_file.display()),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        format!("--service-account-key-file={}", service_account_public_key.display()),
        format!("--service-account-signing-key-file={}", service_account_key.display()),
        format!("--disable-admission-plugins={}", ADMISSION_OFF.map(|(plugin, _)| plugin).join(",")),
        // The server alone never answers 429: tests decide when it does. It also starts faster without.
        "--enable-priority-and-fairness=false".into(),
        "--max-requests-inflight=0".into(),
        "--max-mutating-requests-inflight=0".into(),
        // Compaction comes when a test asks for it, and is then obeyed at once by lists, which otherwise come
        // from snapshots in memory for up to 15 s more.
        "--etcd-compaction-interval=0".into(),
        "--feature-gates=ListFromCacheSnapshot=false".into(),
        "--profiling=false".into(),
    ];
    if !admission.is_empty() {
        flags.push(format!("--enable-admission-plugins={}", admission.join(",")));
    }
    flags
}

/// Without the throttle, which would make tests wait, and without election, for there is one of each.
fn component(paths: &Paths<'_>, port: u16) -> Vec<String> {
    let kubeconfig = paths.kubeconfig.display();
    let Identity { certificate, key, .. } = paths.identity;
    vec![
        format!("--kubeconfig={kubeconfig}"),
        "--leader-elect=false".into(),
        "--kube-api-qps=1000".into(),
        "--kube-api-burst=2000".into(),
        "--bind-address=127.0.0.1".into(),
        format!("--secure-port={port}"),
        "--permit-port-sharing=true".into(),
        format!("--tls-cert-file={}", certificate.display()),
        format!("--tls-private-key-file={}", key.display()),
        "--profiling=false".into(),
    ]
}

pub(crate) fn controller_manager(paths: &Paths<'_>, port: u16, controllers: &[&str]) -> Vec<String> {
    let mut flags = component(paths, port);
    flags.push(format!("--controllers={}", controllers.join(",")));
    flags
}

pub(crate) fn scheduler(paths: &Paths<'_>, port: u16) -> Vec<String> {
    component(paths, port)
}

pub(crate) fn kwok(paths: &Paths<'_>, stages: &Path) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", paths.kubeconfig.display()),
        format!("--config={}", stages.display()),
        "--manage-all-nodes=true".into(),
        // Nobody asks whether the Node still lives: no heartbeats, no leases. Port 0: it does not listen.
        "--node-lease-duration-seconds=0".into(),
        "--node-port=0".into(),
    ]
}
