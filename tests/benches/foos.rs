//! 1,000 Foos from nothing: wall time, processor time, resident memory and writes of the host as a process of its
//! own, in front of the in-memory API. And what 10,000 foreign Deployments add to its memory.
//!
//! `FOOS=5000 cargo bench -p tests --bench foos` takes another number. Prints a table; asserts the number of
//! writes, never a time.

use devcluster::{DevCluster, Options};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tests::objects::{at, condition, deployment_path, foo, foo_path};
use tests::{Api, Crd};

fn main() {
    // Test runners pass this to every target; then there is nothing to measure.
    if std::env::args().any(|arg| arg == "--test" || arg == "--list") {
        return;
    }
    let binary = build();
    let foos = std::env::var("FOOS").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    println!(
        "{foos} Foos from nothing, {} processors",
        std::thread::available_parallelism().map_or(0, usize::from)
    );
    println!("{:<34} {:>8} {:>8} {:>9} {:>9}", "", "wall s", "cpu s", "peak MiB", "writes");
    runtime.block_on(async {
        for (name, kubelet, workers) in [
            ("no status moves, 2 workers", false, "2"),
            ("no status moves, 16 workers", false, "16"),
            ("Deployments become available", true, "2"),
        ] {
            run(&binary, name, foos, kubelet, workers).await;
        }
        foreign(&binary).await;
    });
}

fn build() -> PathBuf {
    let built = Command::new(env!("CARGO"))
        .current_dir(tests::guests::root())
        .args(["build", "--release", "-p", "host"])
        .status();
    assert!(built.expect("cargo runs").success(), "the host does not build");
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| tests::guests::root().join("target"), PathBuf::from);
    target.join("release/foo-host")
}

struct Host(Child);

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Host {
    fn start(binary: &PathBuf, url: &str, workers: &str) -> Self {
        let child = Command::new(binary)
            .args(["--master", url, "--metrics-addr", "off", "--workers", workers, "--log-level", "error"])
            .stdin(Stdio::null())
            .spawn();
        Self(child.expect("it starts"))
    }

    /// Processor seconds so far, children included.
    fn cpu(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        // utime, stime, cutime, cstime are fields 14 to 17, in ticks of 10 ms.
        (11..15).filter_map(|field| fields.get(field)?.parse::<f64>().ok()).sum::<f64>() / 100.0
    }

    fn memory(&self, line: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap_or_default();
        let value = status.lines().find_map(|found| found.strip_prefix(line));
        value.and_then(|text| text.split_whitespace().nth(1)?.parse::<f64>().ok()).unwrap_or_default()
            / 1_024.0
    }
}

async fn server(kubelet: bool) -> (DevCluster, Api) {
    let options =
        Options { fake_kubelet: kubelet, available_after: Duration::from_millis(500), ..Options::default() };
    let cluster = DevCluster::start(options).await.expect("the API starts");
    let api = Api::new(&cluster.url());
    api.create(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        &tests::world::crd_object(Crd::Ours),
    )
    .await;
    (cluster, api)
}

async fn run(binary: &PathBuf, name: &str, foos: usize, kubelet: bool, workers: &str) {
    let (cluster, api) = server(kubelet).await;
    let many = (0..foos).map(|number| {
        tests::objects::within("default", foo(&format!("a{number:05}"), &format!("web{number:05}")))
    });
    cluster.seed(many).expect("seeded");
    let start = Instant::now();
    let host = Host::start(binary, &cluster.url(), workers);
    let writes = || cluster.count(|request| request.is_write() && request.user_agent.starts_with("foo-host"));
    let status =
        |foo: &Value| if kubelet { tests::objects::ready(foo) } else { !condition(foo, "Ready").is_null() };
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if writes() >= 3 * foos && api.list(&foo_path("default", "")).await.iter().all(status) {
            break;
        }
        assert!(start.elapsed() < Duration::from_mins(10), "it does not converge: {} writes", writes());
    }
    let (wall, cpu) = (start.elapsed().as_secs_f64(), host.cpu());
    // Whatever is still on its way.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let total = writes();
    println!("{name:<34} {wall:>8.2} {cpu:>8.2} {:>9.1} {total:>9}", host.memory("VmHWM"));
    if !kubelet {
        assert_eq!(total, 3 * foos, "one create, one status, one event each");
    }
    assert_eq!(api.list(&deployment_path("default", "")).await.len(), foos);
    cluster.shutdown().await;
}

/// Resident memory with 100 Foos, and what Deployments of others add to it.
async fn foreign(binary: &PathBuf) {
    for others in [0, 10_000, 40_000] {
        let (cluster, api) = server(false).await;
        let theirs = (0..others).map(|number| {
            tests::objects::within("default", tests::deployment(&format!("theirs{number:05}")))
        });
        cluster.seed(theirs).expect("seeded");
        let ours = (0..100).map(|number| {
            tests::objects::within("default", foo(&format!("a{number:05}"), &format!("web{number:05}")))
        });
        cluster.seed(ours).expect("seeded");
        let host = Host::start(binary, &cluster.url(), "2");
        let written = |foo: &Value| !at(foo, "/status/conditions").is_null();
        while !api.list(&foo_path("default", "")).await.iter().all(written) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        println!(
            "100 Foos, {others:>5} foreign Deployments: resident {:.1} MiB, peak {:.1} MiB",
            host.memory("VmRSS"),
            host.memory("VmHWM")
        );
        cluster.shutdown().await;
    }
}
