//! `kubectl` against the in-memory API: what a person at a terminal does.
//!
//! The program is `$KUBECTL` or the first `kubectl` in PATH. Where there is none the test says so and passes,
//! but in CI (`CI=true`) it fails.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use devcluster::{DevCluster, Options};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: foos.samplecontroller.k8s.io
  annotations: {api-approved.kubernetes.io: "unapproved, experimental-only"}
spec:
  group: samplecontroller.k8s.io
  scope: Namespaced
  names: {kind: Foo, plural: foos, shortNames: [fo], categories: [all]}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.availableReplicas}
    additionalPrinterColumns:
    - {name: Deployment, type: string, jsonPath: .spec.deploymentName}
    - {name: Wanted, type: integer, jsonPath: .spec.replicas, priority: 1}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            description: What is wanted.
            required: [deploymentName]
            properties:
              deploymentName: {type: string, description: Name of the Deployment.}
              replicas: {type: integer, minimum: 1, maximum: 10}
          status:
            type: object
            properties:
              availableReplicas: {type: integer}
              conditions:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [type]
                items:
                  type: object
                  required: [type, status]
                  properties: {type: {type: string}, status: {type: string}}
"#;

const FOO: &str = r"
apiVersion: samplecontroller.k8s.io/v1alpha1
kind: Foo
metadata: {name: example-foo}
spec: {deploymentName: example-foo, replicas: 1}
";

const DEPLOYMENT: &str = r"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: nginx, image: 'nginx:1'}]}
";

const EVENT: &str = r"
apiVersion: v1
kind: Event
metadata: {name: example-foo.1, namespace: default}
involvedObject: {apiVersion: samplecontroller.k8s.io/v1alpha1, kind: Foo, name: example-foo, namespace: default}
reason: Synced
message: Foo synced successfully
type: Normal
source: {component: sample-controller}
firstTimestamp: '2026-01-01T00:00:00Z'
lastTimestamp: '2026-01-01T00:00:00Z'
count: 1
";

/// The program, if there is one.
fn kubectl() -> Option<PathBuf> {
    let named = std::env::var_os("KUBECTL").map(PathBuf::from);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found =
        named.or_else(|| std::env::split_paths(&paths).map(|p| p.join("kubectl")).find(|p| p.is_file()));
    if found.is_none() {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "CI needs kubectl: set KUBECTL or put it into PATH"
        );
        eprintln!("SKIPPED: there is no kubectl in PATH and KUBECTL is not set");
    }
    found
}

/// A server, and kubectl with a home of its own.
struct Shell {
    program: PathBuf,
    home: tempfile::TempDir,
    cluster: DevCluster,
}

impl Shell {
    async fn start() -> Option<Self> {
        let program = kubectl()?;
        let home = tempfile::tempdir().unwrap();
        let cluster =
            DevCluster::start(Options { available_after: Duration::ZERO, ..Options::default() }).await;
        let cluster = cluster.unwrap();
        cluster.write_kubeconfig(&home.path().join("kubeconfig")).unwrap();
        Some(Self { program, home, cluster })
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments.split_whitespace())
            .env("HOME", self.home.path())
            .env("KUBECACHEDIR", self.home.path().join("cache"))
            .env("KUBECONFIG", self.home.path().join("kubeconfig"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn output(&self, arguments: &str, input: &str) -> Output {
        let mut child = self.command(arguments).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// What it prints when it succeeds.
    #[track_caller]
    fn input(&self, arguments: &str, input: &str) -> String {
        let output = self.output(arguments, input);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "kubectl {arguments}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    fn run(&self, arguments: &str) -> String {
        self.input(arguments, "")
    }

    /// What it complains about when it fails.
    #[track_caller]
    fn fails(&self, arguments: &str, input: &str) -> String {
        let output = self.output(arguments, input);
        assert!(!output.status.success(), "kubectl {arguments} succeeded");
        String::from_utf8(output.stderr).unwrap()
    }

    #[track_caller]
    fn install(&self) {
        self.input("apply -f -", DEFINITION);
        self.run("wait --for=condition=Established crd/foos.samplecontroller.k8s.io --timeout=20s");
    }
}

/// Cells of the first row of a table.
fn row(table: &str) -> Vec<&str> {
    table.lines().nth(1).unwrap_or_default().split_whitespace().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foos_are_applied_shown_changed_and_deleted() {
    let Some(shell) = Shell::start().await else { return };
    shell.install();
    assert_eq!(shell.input("apply -f -", FOO), "foo.samplecontroller.k8s.io/example-foo created\n");
    assert_eq!(shell.input("apply -f -", FOO), "foo.samplecontroller.k8s.io/example-foo unchanged\n");
    assert_eq!(row(&shell.run("get foo -o wide"))[..3], ["example-foo", "example-foo", "1"]);
    assert!(shell.run("get foo example-foo -o yaml").contains("deploymentName: example-foo"));
    assert!(shell.run("get fo example-foo -o json").contains("\"generation\": 1"));
    let bad = FOO.replace("replicas: 1", "replicas: 11");
    assert!(
        shell.fails("apply -f -", &bad).contains("spec.replicas in body should be less than or equal to 10")
    );
    let unknown = FOO.replace("replicas: 1", "nonsense: 1");
    assert!(shell.fails("apply -f -", &unknown).contains("unknown field \"spec.nonsense\""));
    shell.run(r#"patch foo example-foo --type=merge -p {"spec":{"replicas":2}}"#);
    shell.run(r#"patch foo example-foo --type=json -p [{"op":"replace","path":"/spec/replicas","value":3}]"#);
    let refused = shell.fails(r#"patch foo example-foo -p {"spec":{"replicas":4}}"#, "");
    assert!(refused.contains("strategic-merge-patch+json is not supported"), "{refused}");
    shell.run("scale foo example-foo --replicas=5");
    shell.run(r#"patch foo example-foo --subresource=status --type=merge -p {"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#);
    shell.run("wait --for=condition=Ready foo/example-foo --timeout=20s");
    assert_eq!(row(&shell.run("get foo"))[2], "True");
    assert_eq!(shell.run("get foo example-foo -o jsonpath={.spec.replicas}{.metadata.generation}"), "54");
    assert!(shell.run("describe foo example-foo").contains("Deployment Name:  example-foo"));
    assert!(shell.run("explain foo.spec.deploymentName").contains("Name of the Deployment."));
    assert!(
        shell.run("get all").contains("foo.samplecontroller.k8s.io/example-foo")
            || shell.run("get all").contains("example-foo")
    );
    assert!(shell.run("delete foo example-foo").contains("deleted"));
    assert!(shell.fails("get foo example-foo", "").contains("(NotFound)"));
    shell.cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_side_apply_meets_conflicts_and_forces_them() {
    let Some(shell) = Shell::start().await else { return };
    shell.install();
    let apply = "apply --server-side --field-manager=one -f -";
    assert_eq!(shell.input(apply, FOO), "foo.samplecontroller.k8s.io/example-foo serverside-applied\n");
    let other = FOO.replace("replicas: 1", "replicas: 2");
    let conflict = shell.fails("apply --server-side --field-manager=two -f -", &other);
    assert!(conflict.contains("conflict with \"one\": .spec.replicas"), "{conflict}");
    shell.input("apply --server-side --field-manager=two --force-conflicts -f -", &other);
    assert_eq!(shell.run("get foo example-foo -o jsonpath={.spec.replicas}"), "2");
    // A client-side apply becomes a server-side one: kubectl rewrites managedFields itself.
    shell.input("apply -f -", DEPLOYMENT);
    shell.input("apply --server-side -f -", DEPLOYMENT);
    let managers = "get deploy web --show-managed-fields -o jsonpath={.metadata.managedFields[*].manager}";
    assert!(!shell.run(managers).contains("kubectl-client-side-apply"));
    shell.cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deployments_are_applied_shown_changed_and_deleted() {
    let Some(shell) = Shell::start().await else { return };
    shell.input("apply -f -", DEPLOYMENT);
    shell.run("wait --for=condition=Available deploy/web --timeout=20s");
    shell.run("rollout status deploy/web --timeout=20s");
    let wide = shell.run("get deploy -o wide");
    let cells = row(&wide);
    assert_eq!(
        (&cells[..4], &cells[5..]),
        (&["web", "2/2", "2", "2"][..], &["nginx", "nginx:1", "app=web"][..])
    );
    let described = shell.run("describe deploy web");
    assert!(
        described.contains("2 desired | 2 updated | 2 total | 2 available | 0 unavailable"),
        "{described}"
    );
    let three = DEPLOYMENT.replace("replicas: 2", "replicas: 3");
    let diff = shell.output("diff -f -", &three);
    assert_eq!(diff.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&diff.stdout).contains("+  replicas: 3"));
    assert_eq!(shell.run("get deploy web -o jsonpath={.spec.replicas}"), "2");
    shell.input("apply -f -", &three);
    let patch = r#"{"spec":{"template":{"spec":{"containers":[{"name":"nginx","image":"nginx:2"}]}}}}"#;
    shell.run(&format!("patch deploy web -p {patch}"));
    shell.run("scale deploy web --replicas=4");
    shell.run("set image deploy/web nginx=nginx:3");
    shell.run("rollout status deploy/web --timeout=20s");
    let image = "{.spec.replicas}{.spec.template.spec.containers[0].image}{.status.availableReplicas}";
    assert_eq!(shell.run(&format!("get deploy web -o jsonpath={image}")), "4nginx:34");
    let missing = shell.fails("-n nope apply -f -", DEPLOYMENT);
    assert!(missing.contains("namespaces \"nope\" not found"), "{missing}");
    assert!(shell.run("delete deploy web --cascade=foreground").contains("deleted"));
    shell.cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_editor_changes_a_deployment_and_a_foo() {
    let Some(shell) = Shell::start().await else { return };
    shell.install();
    shell.input("apply -f -", FOO);
    shell.input("apply -f -", DEPLOYMENT);
    for (object, from) in [("deploy/web", 2), ("foo/example-foo", 1)] {
        let mut command = shell.command(&format!("edit {object}"));
        let status =
            command.env("KUBE_EDITOR", format!("sed -i s/replicas:.{from}/replicas:\\ 7/")).status().unwrap();
        assert!(status.success());
        assert_eq!(shell.run(&format!("get {object} -o jsonpath={{.spec.replicas}}")), "7");
    }
    shell.cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_shown() {
    let Some(shell) = Shell::start().await else { return };
    shell.install();
    shell.input("apply -f -", FOO);
    // `describe` looks for events of this very object.
    let uid = shell.run("get foo example-foo -o jsonpath={.metadata.uid}");
    shell.input("create -f -", &EVENT.replace("kind: Foo,", &format!("kind: Foo, uid: {uid},")));
    for listing in ["events", "get events", "events --for foo/example-foo", "describe foo example-foo"] {
        let shown = shell.run(listing);
        assert!(shown.contains("Foo synced successfully"), "{listing}: {shown}");
    }
    shell.cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_prints_each_change() {
    let Some(shell) = Shell::start().await else { return };
    shell.input("apply -f -", DEPLOYMENT);
    shell.run("wait --for=condition=Available deploy/web --timeout=20s");
    let mut watch = shell.command("get deploy -w --no-headers").spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut until = |text: &str| {
        for line in lines.by_ref() {
            if line.unwrap().contains(text) {
                return;
            }
        }
        panic!("the watch ended before {text}");
    };
    until("2/2");
    shell.run("scale deploy web --replicas=5");
    until("5/5");
    watch.kill().unwrap();
    watch.wait().unwrap();
    shell.cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_and_definitions_take_their_objects_with_them() {
    let Some(shell) = Shell::start().await else { return };
    shell.install();
    shell.input("apply -f -", "apiVersion: v1\nkind: Namespace\nmetadata: {name: old}\n");
    shell.input("-n old apply -f -", FOO);
    shell.input("-n old apply -f -", DEPLOYMENT);
    shell.run("delete namespace old --timeout=20s");
    assert!(!shell.run("get namespaces").contains("old"));
    assert!(!shell.run("get foos,deployments -A").contains("example-foo"));
    shell.input("apply -f -", FOO);
    shell.run("delete crd foos.samplecontroller.k8s.io --timeout=20s");
    assert!(shell.fails("get foos", "").contains("could not find the requested resource"));
    shell.cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foo_before_its_definition_is_told_what_is_missing() {
    let Some(shell) = Shell::start().await else { return };
    let errors = shell.fails("apply -f -", FOO);
    assert!(
        errors.contains("no matches for kind \"Foo\" in version \"samplecontroller.k8s.io/v1alpha1\"")
            && errors.contains("ensure CRDs are installed first"),
        "{errors}"
    );
}
