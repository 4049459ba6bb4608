//! A plane as its users see it. Most tests share one that has everything; those that break the API server
//! have their own.

use controlplane::{Client, Error, Options, Plane, Process, User, available, skip};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_mins(2);

/// How the addresses of Services start.
const SERVICES: &str = "10.96.";

/// With everything, for the whole binary.
fn shared(test: &str) -> Option<&'static Plane> {
    static PLANE: OnceLock<Plane> = OnceLock::new();
    can_run(test).then(|| {
        PLANE.get_or_init(|| {
            Plane::start(&Options {
                controllers: true,
                pods: true,
                enable_admission: vec!["OwnerReferencesPermissionEnforcement".into()],
                users: vec![
                    User::new("guest"),
                    User::new("editor"),
                    User { name: "member".into(), groups: vec!["staff".into(), "night shift".into()] },
                ],
            })
            .expect("a plane starts")
        })
    })
}

fn can_run(test: &str) -> bool {
    let can = available();
    if let Err(error) = &can {
        skip(test, &error.to_string());
    }
    can.is_ok()
}

fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = ask() {
            return value;
        }
        assert!(started.elapsed() < PATIENCE, "{what}: not after {} s", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn namespace(admin: &Client, name: &str) {
    admin
        .create("/api/v1/namespaces", &json!({ "metadata": { "name": name } }))
        .expect("the namespace is new");
}

fn deployment(admin: &Client, namespace: &str, name: &str) -> String {
    let labels = json!({ "app": name });
    let object = json!({
        "metadata": { "name": name },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                // A namespace that goes waits half the grace period of the pods in it.
                "spec": {
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{ "name": "web", "image": "nginx" }],
                },
            },
        },
    });
    let collection = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    admin.create(&collection, &object).expect("the Deployment is new");
    format!("{collection}/{name}")
}

fn available_replicas(admin: &Client, deployment: &str) -> Option<i64> {
    admin.get(deployment).expect("it is there")["status"]["availableReplicas"].as_i64()
}

fn config_map(name: &str, owner: Option<&Value>) -> Value {
    let reference = |owner: &Value| {
        json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true }])
    };
    json!({ "metadata": { "name": name, "ownerReferences": owner.map_or(json!([]), reference) } })
}

/// A role of a user in a namespace, and its binding.
fn grant(admin: &Client, namespace: &str, user: &str, rules: &Value) {
    let base = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
    admin
        .create(&format!("{base}/roles"), &json!({ "metadata": { "name": user }, "rules": rules }))
        .expect("the role is new");
    let binding = json!({
        "metadata": { "name": user },
        "subjects": [{ "kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io" }],
        "roleRef": { "kind": "Role", "name": user, "apiGroup": "rbac.authorization.k8s.io" },
    });
    admin.create(&format!("{base}/rolebindings"), &binding).expect("the binding is new");
}

#[test]
fn pods_run_and_a_deployment_becomes_available_and_goes_with_its_namespace() {
    let Some(plane) = shared("controlplane::pods_run") else { return };
    let admin = plane.client("admin");
    namespace(&admin, "pods");
    let web = deployment(&admin, "pods", "web");
    until("both replicas available", || (available_replicas(&admin, &web) == Some(2)).then_some(()));
    let pods = admin.get("/api/v1/namespaces/pods/pods").expect("pods");
    let pods = pods["items"].as_array().expect("a list");
    assert_eq!(pods.len(), 2);
    for pod in pods {
        assert_eq!((&pod["status"]["phase"], &pod["spec"]["nodeName"]), (&json!("Running"), &json!("kwok")));
        let ip = pod["status"]["podIP"].as_str().expect("it runs");
        assert!(!ip.starts_with(SERVICES), "{ip} is an address of a Service");
    }
    let service = admin.get("/api/v1/namespaces/default/services/kubernetes").expect("the server makes it");
    let ip = service["spec"]["clusterIP"].as_str().expect("it has one");
    assert!(ip.starts_with(SERVICES), "{ip} may be an address of a pod");
    admin.delete("/api/v1/namespaces/pods").expect("it is there");
    let gone = || admin.get("/api/v1/namespaces/pods").is_err_and(|error| error.status() == Some(404));
    until("the namespace's end", || gone().then_some(()));
}

/// For the tests that pause or restart the shared plane's garbage collector, one at a time.
fn garbage_collector() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_paused_garbage_collector_collects_when_it_is_resumed() {
    let Some(plane) = shared("controlplane::garbage_collector") else { return };
    let _turn = garbage_collector();
    let admin = plane.client("admin");
    namespace(&admin, "garbage");
    let maps = "/api/v1/namespaces/garbage/configmaps";
    let owner = admin.create(maps, &config_map("owner", None)).expect("it is new");
    admin.create(maps, &config_map("owned", Some(&owner))).expect("it is new");

    plane.pause(Process::GarbageCollector).expect("it runs");
    admin.delete(&format!("{maps}/owner")).expect("it is there");
    // In the time that the other controllers take for a whole Deployment, it would have collected.
    let web = deployment(&admin, "garbage", "web");
    until("both replicas available", || (available_replicas(&admin, &web) == Some(2)).then_some(()));
    admin.get(&format!("{maps}/owned")).expect("nobody collects it");

    plane.resume(Process::GarbageCollector).expect("it runs");
    let gone = || admin.get(&format!("{maps}/owned")).is_err_and(|error| error.status() == Some(404));
    until("garbage collection", || gone().then_some(()));
}

#[test]
fn a_restarted_garbage_collector_collects_by_kinds_that_came_after_its_first_start() {
    let Some(plane) = shared("controlplane::restart") else { return };
    let _turn = garbage_collector();
    let admin = plane.client("admin");
    let schema = json!({ "openAPIV3Schema": { "type": "object" } });
    let crd = json!({
        "metadata": { "name": "widgets.test.example.com" },
        "spec": {
            "group": "test.example.com", "scope": "Namespaced",
            "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": schema }],
        },
    });
    admin.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).expect("it is new");
    namespace(&admin, "kinds");
    let widgets = "/apis/test.example.com/v1/namespaces/kinds/widgets";
    let widget =
        json!({ "apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": { "name": "owner" } });
    let owner = until("the kind", || admin.create(widgets, &widget).ok());
    plane.restart(Process::GarbageCollector).expect("it starts again");

    let maps = "/api/v1/namespaces/kinds/configmaps";
    let mut owned = config_map("owned", Some(&owner));
    let reference = &mut owned["metadata"]["ownerReferences"][0];
    (reference["apiVersion"], reference["kind"]) = (json!("test.example.com/v1"), json!("Widget"));
    admin.create(maps, &owned).expect("it is new");
    admin.delete(&format!("{widgets}/owner")).expect("it is there");
    let gone = || admin.get(&format!("{maps}/owned")).is_err_and(|error| error.status() == Some(404));
    until("garbage collection", || gone().then_some(()));
}

#[test]
fn a_user_may_do_what_a_role_grants_and_nothing_else() {
    let Some(plane) = shared("controlplane::users") else { return };
    let (admin, guest) = (plane.client("admin"), plane.client("guest"));
    namespace(&admin, "roles");
    let maps = "/api/v1/namespaces/roles/configmaps";
    let refused = guest.get(maps).expect_err("no role");
    assert_eq!(refused.status(), Some(403));
    assert!(refused.to_string().contains("User \"guest\" cannot list resource \"configmaps\""), "{refused}");

    grant(
        &admin,
        "roles",
        "guest",
        &json!([{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"] }]),
    );
    until("the role", || guest.get(maps).ok());
    assert_eq!(guest.create(maps, &config_map("one", None)).expect_err("only list").status(), Some(403));

    let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let who = plane.client("member").create(reviews, &review).expect("anybody may ask");
    assert_eq!(who["status"]["userInfo"]["groups"], json!(["staff", "night shift", "system:authenticated"]));
}

/// The violated half of the pair is in the test with a plane of its own.
#[test]
fn an_admission_plugin_that_is_asked_for_is_on() {
    let Some(plane) = shared("controlplane::admission") else { return };
    let error = create_blocking(plane, "editor").expect_err("it may not update finalizers");
    assert_eq!(error.status(), Some(403));
    assert!(error.to_string().contains("cannot set blockOwnerDeletion"), "{error}");
}

/// A user who may create `ConfigMaps`, and nothing else, blocks the deletion of another's.
fn create_blocking(plane: &Plane, user: &str) -> Result<Value, Error> {
    let admin = plane.client("admin");
    namespace(&admin, "admission");
    let maps = "/api/v1/namespaces/admission/configmaps";
    let owner = admin.create(maps, &config_map("owner", None)).expect("it is new");
    let rules = json!([{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"] }]);
    grant(&admin, "admission", user, &rules);
    until("the role", || plane.client(user).create(maps, &config_map("free", None)).ok());
    plane.client(user).create(maps, &config_map("blocking", Some(&owner)))
}

#[test]
fn kubectl_takes_the_kubeconfig() {
    let Some(plane) = shared("controlplane::kubectl") else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/kubectl");
    let found = Command::new(script).output().expect("the script runs");
    if !found.status.success() {
        return skip("controlplane::kubectl", "no kubectl, and no Go to build one");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let kubeconfig = directory.path().join("config");
    plane.write_kubeconfig("guest", &kubeconfig).expect("it is written");
    let who = Command::new(String::from_utf8_lossy(&found.stdout).trim())
        .args(["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"])
        .env("KUBECONFIG", &kubeconfig)
        .output()
        .expect("kubectl runs");
    assert_eq!(String::from_utf8_lossy(&who.stdout), "guest", "{}", String::from_utf8_lossy(&who.stderr));
}

#[test]
fn an_outage_and_a_compaction_are_what_clients_see() {
    if !can_run("controlplane::outage") {
        return;
    }
    let plane =
        Plane::start(&Options { users: vec![User::new("editor")], ..Options::default() }).expect("it starts");
    assert!(matches!(plane.pause(Process::Kwok), Err(Error::NotRunning("kwok"))));
    create_blocking(&plane, "editor").expect("the admission plugin is not on");

    let admin = plane.client("admin");
    let maps = "/api/v1/namespaces/default/configmaps";
    let first = admin.create(maps, &config_map("one", None)).expect("it is new");
    admin.create(maps, &config_map("two", None)).expect("it is new");
    let old = first["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
    let page = admin.get(&format!("{maps}?limit=1")).expect("a page");
    let token = page["metadata"]["continue"].as_str().expect("there is more");
    let rest = format!("{maps}?limit=1&continue={token}");
    let at_old = format!("{maps}?resourceVersion={old}&resourceVersionMatch=Exact");
    let watch = format!("{maps}?watch=1&resourceVersion={old}&timeoutSeconds=1");
    for path in [&rest, &at_old, &watch] {
        admin.get(path).expect("the old version is still there");
    }

    admin.create(maps, &config_map("three", None)).expect("it is new");
    let revision = plane.compact().expect("etcd compacts");
    assert!(revision > old.parse().expect("a number"));
    for path in [&rest, &at_old] {
        assert_eq!(admin.get(path).expect_err("it was compacted").status(), Some(410), "{path}");
    }

    plane.stop_apiserver();
    assert_eq!(admin.get(maps).expect_err("nobody answers").status(), None);
    plane.start_apiserver().expect("it starts again");
    admin.get(&format!("{maps}/two")).expect("etcd kept it");
    let answer = admin.get(&watch).expect("an event");
    assert_eq!((&answer["type"], &answer["object"]["code"]), (&json!("ERROR"), &json!(410)), "{answer}");

    let directory = plane.logs().parent().expect("the plane's").to_owned();
    assert!(!processes(&directory).is_empty());
    drop(plane);
    assert_eq!(processes(&directory), Vec::<String>::new());
    assert!(!directory.exists());
}

#[test]
fn a_program_that_fails_at_its_start_is_an_error_with_its_last_words() {
    if !can_run("controlplane::failing_start") {
        return;
    }
    let options = Options { enable_admission: vec!["NoSuchPlugin".into()], ..Options::default() };
    let error = Plane::start(&options).err().expect("there is no such plugin").to_string();
    assert!(error.starts_with("kube-apiserver ended: exit status: 1"), "{error}");
    assert!(error.contains("NoSuchPlugin"), "{error}");
}

/// Names what the child process of a test does.
const CHILD: &str = "CONTROLPLANE_TEST_CHILD";

#[test]
fn a_plane_ends_with_the_process_that_started_it_also_by_sigkill() {
    if !can_run("controlplane::sigkill") {
        return;
    }
    let (mut child, directory) = start_child("wait");
    assert_eq!(processes(&directory).len(), 7, "{:?}", processes(&directory));
    child.kill().expect("it runs");
    child.wait().expect("it ran");
    until("the end of all programs", || processes(&directory).is_empty().then_some(()));
    until("the end of the directory", || (!directory.exists()).then_some(()));
}

#[test]
fn a_plane_in_a_static_ends_with_its_process() {
    if !can_run("controlplane::static") {
        return;
    }
    let (mut child, directory) = start_child("exit");
    assert!(child.wait().expect("it ran").success());
    until("the end of all programs", || processes(&directory).is_empty().then_some(()));
    until("the end of the directory", || (!directory.exists()).then_some(()));
}

/// The process of the two tests above; by itself it does nothing.
#[test]
fn child_with_a_plane() {
    static PLANE: OnceLock<Plane> = OnceLock::new();
    let Ok(does) = std::env::var(CHILD) else { return };
    let everything = does == "wait";
    let options = Options { controllers: everything, pods: everything, ..Options::default() };
    let plane = PLANE.get_or_init(|| Plane::start(&options).expect("it starts"));
    println!("\nplane {}", plane.logs().parent().expect("the plane's").display());
    // Until the parent ends it, or ends itself.
    if everything {
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).ok();
    }
}

/// This binary again, with the test above, and the directory of its plane.
fn start_child(does: &str) -> (std::process::Child, std::path::PathBuf) {
    use std::io::BufRead as _;
    let mut child = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "child_with_a_plane", "--nocapture"])
        .env(CHILD, does)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = std::io::BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let plane = |line: std::io::Result<String>| Some(line.ok()?.strip_prefix("plane ")?.into());
    let directory = lines.find_map(plane).expect("the child says where its plane is");
    // What it says later must find a reader.
    std::thread::spawn(move || lines.for_each(drop));
    (child, directory)
}

/// The command lines that name a directory. One that has ended and waits to be reaped has none.
fn processes(directory: &Path) -> Vec<String> {
    let all = std::fs::read_dir("/proc").expect("this is Linux").filter_map(Result::ok);
    let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(&*directory.to_string_lossy())).collect()
}
