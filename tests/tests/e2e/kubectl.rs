//! What a person at a terminal sees, with kubectl: the upstream example applied, edited, scaled, deleted.
//! kubectl comes from $KUBECTL, PATH, or is built (`scripts/kubectl`).

use crate::both;
use rstest_reuse::apply;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use tests::objects::at;
use tests::{Backend, World, guests, skip};

struct Kubectl {
    program: PathBuf,
    home: tempfile::TempDir,
}

impl Kubectl {
    fn for_world(world: &World) -> Option<Self> {
        static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
        let find = || {
            let output =
                Command::new(guests::root().join("scripts/kubectl")).output().expect("the script runs");
            let path = String::from_utf8(output.stdout).expect("a path").trim().to_owned();
            output.status.success().then(|| PathBuf::from(path))
        };
        let Some(program) = PROGRAM.get_or_init(find).clone() else {
            skip("e2e::kubectl", "no kubectl, and no Go to build one");
            return None;
        };
        let home = tempfile::tempdir().expect("a directory");
        world.write_kubeconfig(&home.path().join("config"));
        Some(Self { program, home })
    }

    fn run(&self, args: &[&str]) -> String {
        let output = Command::new(&self.program)
            .args(args)
            .env("HOME", self.home.path())
            .env("KUBECONFIG", self.home.path().join("config"))
            .env("KUBE_EDITOR", "sed -i s/replicas:.1/replicas:\\ 4/")
            .output()
            .expect("kubectl runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {args:?}: {text}{error}");
        text
    }
}

/// Acceptance 2: the upstream example, then edit, scale and delete, as the parity table says.
#[apply(both)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_upstream_example_applied_edited_scaled_and_deleted(#[case] backend: Backend) {
    let world = World::start(backend).await;
    let Some(kubectl) = Kubectl::for_world(&world) else { return };
    let example = guests::root().join("artifacts/examples/example-foo.yaml").display().to_string();
    assert!(
        kubectl.run(&["apply", "-f", &example]).contains("foo.samplecontroller.k8s.io/example-foo created")
    );
    kubectl.run(&["wait", "--for=condition=Ready", "foo/example-foo", "--timeout=60s"]);
    let seen = kubectl.run(&["get", "foo", "example-foo"]);
    let mut lines = seen.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let (columns, row) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    assert_eq!(columns[..4], ["NAME", "DEPLOYMENT", "DESIRED", "AVAILABLE"]);
    assert_eq!(row[..5], ["example-foo", "example-foo", "1", "1", "True"]);
    let events = kubectl.run(&["events", "--for", "foo/example-foo"]);
    assert!(events.contains("Synced") && events.contains("Foo synced successfully"), "{events}");
    let described = kubectl.run(&["describe", "foo", "example-foo"]);
    assert!(described.contains("DeploymentAvailable") && described.contains("Synced"), "{described}");

    // The replicas by an editor, by `scale` (the Foo has the subresource), by a client-side apply.
    kubectl.run(&["edit", "foo", "example-foo"]);
    world.until_deployment("example-foo", "edited", |d| at(d, "/spec/replicas") == 4).await;
    kubectl.run(&["scale", "foo", "example-foo", "--replicas=2"]);
    world.until_deployment("example-foo", "scaled", |d| at(d, "/spec/replicas") == 2).await;
    kubectl.run(&["apply", "-f", &example]);
    world.until_deployment("example-foo", "applied", |d| at(d, "/spec/replicas") == 1).await;

    // Scaled behind the Foo's back: mended. Deleted: it comes back.
    kubectl.run(&["scale", "deployment", "example-foo", "--replicas=7"]);
    world.until_deployment("example-foo", "mended", |d| at(d, "/spec/replicas") == 1).await;
    let before = world.until_deployment("example-foo", "there", |_| true).await;
    kubectl.run(&["delete", "deployment", "example-foo"]);
    world
        .until_deployment("example-foo", "new", |d| at(d, "/metadata/uid") != at(&before, "/metadata/uid"))
        .await;
    kubectl.run(&["wait", "--for=condition=Ready", "foo/example-foo", "--timeout=60s"]);

    kubectl.run(&["delete", "foo", "example-foo"]);
    world.api.until_gone(&world.foo_path("example-foo")).await;
    world.api.until_gone(&world.deployment_path("example-foo")).await;
}
