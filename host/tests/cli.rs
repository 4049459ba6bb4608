//! The command as a user meets it: help, errors, signals, the first run.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// Generous: the machine may be busy.
const PATIENCE: Duration = Duration::from_mins(1);

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn start(args: &[&str], home: &std::path::Path) -> Self {
        let child = command(home).args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Self(child.expect("it starts"))
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.0.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Reads standard output up to a line that contains `text`.
    fn read_until(&mut self, text: &str) -> Vec<String> {
        let out = BufReader::new(self.0.stdout.take().expect("piped"));
        let mut seen = Vec::new();
        for line in out.lines() {
            let line = line.expect("text");
            let found = line.contains(text);
            seen.push(line);
            if found {
                return seen;
            }
        }
        let mut error = String::new();
        let _ = self.0.stderr.take().expect("piped").read_to_string(&mut error);
        panic!("no {text:?} in {seen:#?}; on standard error: {error}");
    }

    fn ended(&mut self) -> ExitStatus {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Some(status) = self.0.try_wait().expect("a child") {
                return status;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("it did not end");
    }
}

fn command(home: &std::path::Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foo-host"));
    command.env_clear().env("HOME", home).env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

fn run(args: &[&str]) -> Output {
    let home = tempfile::tempdir().expect("a directory");
    command(home.path()).args(args).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// One line on standard error that has all of `parts`, nothing on standard output, this exit code.
fn refused(args: &[&str], code: i32, parts: &[&str]) {
    let output = run(args);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
    assert_eq!(text(&output.stdout), "", "{args:?}");
    for part in parts {
        assert!(error.contains(part), "{args:?}: no {part:?} in {error}");
    }
    if code == 1 {
        assert_eq!(error.lines().count(), 1, "{args:?}: {error}");
    }
}

#[test]
fn parity_flags_kubeconfig_master_and_ours_each_with_its_environment_variable() {
    let help = text(&run(&["--help"]).stdout);
    for flag in [
        "guest",
        "guest-param",
        "kubeconfig",
        "master",
        "context",
        "namespace",
        "workers",
        "resync",
        "metrics-addr",
        "cache-dir",
        "log-format",
        "log-level",
        "guest-fuel",
        "guest-timeout",
        "guest-memory",
        "guest-stack",
        "guest-result",
        "guest-max-actions",
        "guest-max-size",
        "guest-max-calls",
        "compile-timeout",
        "compile-memory",
    ] {
        let variable = format!("FOO_HOST_{}", flag.to_uppercase().replace('-', "_"));
        assert!(help.contains(&format!("--{flag} ")), "--{flag} is missing in\n{help}");
        assert!(help.contains(&format!("[env: {variable}=]")), "{variable} is missing in\n{help}");
    }
    for command in ["dev", "crd", "completions"] {
        assert!(help.contains(&format!("  {command} ")), "{command} is missing in\n{help}");
    }
    assert!(!help.contains("  compile "), "the engine's own command is not for people");
}

#[test]
fn crd_prints_the_artifact() {
    let artifact = concat!(env!("CARGO_MANIFEST_DIR"), "/../artifacts/crd.yaml");
    assert_eq!(text(&run(&["crd"]).stdout), std::fs::read_to_string(artifact).expect("the artifact"));
}

#[test]
fn completions_for_each_shell() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(text(&run(&["completions", shell]).stdout).contains("foo-host"), "{shell}");
    }
}

#[test]
fn start_bad_input_is_one_line_that_names_the_thing_the_reason_and_the_remedy() {
    refused(&[], 1, &["no cluster found", "--kubeconfig", "foo-host dev"]);
    refused(&["--kubeconfig", "/nowhere/config"], 1, &["/nowhere/config", "No such file"]);
    refused(&["--master", "ftp://x"], 1, &["--master", "https://HOST:PORT"]);
    refused(&["--context", "prod"], 1, &["--context", "--kubeconfig"]);
    refused(
        &["--master", "http://127.0.0.1:1", "--guest", "/nowhere.wasm"],
        1,
        &["--guest", "/nowhere.wasm", "No such file"],
    );
    refused(&["--master", "http://127.0.0.1:1", "--guest", "/"], 1, &["--guest", "not a file"]);
    refused(&["--resync", "soon"], 1, &["--resync", "30s"]);
    refused(&["--log-level", "wran"], 1, &["--log-level", "wran", "info"]);
    refused(&["--metrics-addr", "nonsense"], 1, &["--metrics-addr", "off"]);
    refused(&["--no-such-flag"], 2, &["--no-such-flag"]);
    refused(&["--workers", "4", "dev"], 2, &["--workers"]);
    refused(&["--workers", "many"], 2, &["--workers"]);
}

#[test]
fn start_a_broken_kubeconfig_and_an_unknown_context_are_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("config");
    let path_text = path.display().to_string();
    std::fs::write(&path, "{not yaml").expect("written");
    refused(&["--kubeconfig", &path_text], 1, &[&path_text]);
    let good = "{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], \
                contexts: [{name: a, context: {cluster: c, user: u}}], users: [{name: u, user: {}}], current-context: a}";
    std::fs::write(&path, good).expect("written");
    refused(
        &["--kubeconfig", &path_text, "--context", "other"],
        1,
        &[&path_text, "--context other", "it has: a"],
    );
}

#[test]
fn case_41_an_https_proxy_that_cannot_be_used_is_refused_at_the_start() {
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("config");
    let config = "{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: 'https://api.example:1'}}], \
                  contexts: [{name: a, context: {cluster: c, user: u}}], users: [{name: u, user: {}}], current-context: a}";
    std::fs::write(&path, config).expect("written");
    let mut host = command(home.path());
    host.env("https_proxy", "socks4://127.0.0.1:1080").arg("--kubeconfig").arg(&path);
    let output = host.output().expect("it runs");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains("socks4://127.0.0.1 cannot be used") && error.contains("unset https_proxy"),
        "{error}"
    );
}

#[test]
fn start_a_taken_address_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    refused(
        &["--master", "http://127.0.0.1:1", "--metrics-addr", &address],
        1,
        &["--metrics-addr", &address, "off"],
    );
}

#[test]
fn parity_signals_sigterm_ends_it_with_0_also_while_the_api_server_is_away() {
    let home = tempfile::tempdir().expect("a directory");
    let mut host =
        Running::start(&["--master", "http://127.0.0.1:1", "--metrics-addr", "127.0.0.1:0"], home.path());
    let error = BufReader::new(host.0.stderr.take().expect("piped"));
    let mut lines = error.lines().map_while(Result::ok);
    let said = lines.find(|line| line.contains("cannot list")).expect("it says so");
    assert!(said.contains("foos.samplecontroller.k8s.io") || said.contains("deployments.apps"), "{said}");
    host.signal("TERM");
    // Whatever else it says must not fill the pipe.
    std::thread::spawn(move || lines.for_each(drop));
    assert_eq!(host.ended().code(), Some(0));
}

#[test]
fn parity_signals_the_second_one_exits_1() {
    let home = tempfile::tempdir().expect("a directory");
    let mut host = Running::start(&["dev", "--api-only"], home.path());
    let seen = host.read_until("Ctrl-C ends it").join(" ");
    let address =
        seen.split("http://").nth(1).and_then(|rest| rest.split_whitespace().next()).expect("a URL");
    // A request whose body never comes: the orderly end waits for it, for some seconds.
    let mut client = std::net::TcpStream::connect(address).expect("it listens");
    let head = "POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
                Content-Length: 9\r\nExpect: 100-continue\r\n\r\n";
    client.write_all(head.as_bytes()).expect("sent");
    client.read_exact(&mut [0; 12]).expect("HTTP/1.1 100");
    host.signal("TERM");
    let start = Instant::now();
    while std::net::TcpStream::connect(address).is_ok() {
        assert!(start.elapsed() < PATIENCE, "it takes connections after SIGTERM");
        std::thread::sleep(Duration::from_millis(10));
    }
    host.signal("INT");
    assert_eq!(host.ended().code(), Some(1));
}

#[test]
fn dev_shows_what_happened_and_what_to_try_and_ends_with_0() {
    let home = tempfile::tempdir().expect("a directory");
    let mut host = Running::start(&["dev", "--available-after", "10ms"], home.path());
    let seen = host.read_until("run a guest of yours").join("\n");
    for part in [
        "Deployment  example-foo",
        "Normal Synced: Foo synced successfully",
        "availableReplicas 1, Ready True (DeploymentAvailable",
    ] {
        assert!(seen.contains(part), "no {part:?} in\n{seen}");
    }
    let kubeconfig = home.path().join(".cache/foo-host/dev/kubeconfig");
    assert!(seen.contains(&kubeconfig.display().to_string()), "{seen}");
    assert!(std::fs::read_to_string(&kubeconfig).expect("written").contains("127.0.0.1"));
    // A second one does not take the first one's away.
    let mut second = Running::start(&["dev", "--api-only"], home.path());
    assert!(second.read_until("Ctrl-C ends it").join("\n").contains("dev/kubeconfig-"));
    host.signal("INT");
    assert_eq!(host.ended().code(), Some(0));
    assert!(!kubeconfig.exists(), "it leads nowhere now");
}

#[test]
fn a_guest_is_compiled_in_a_child_process_and_found_in_the_cache_the_next_time() {
    let home = tempfile::tempdir().expect("a directory");
    for _ in 0..2 {
        let mut host =
            Running::start(&["dev", "--log-level", "info", "--available-after", "10ms"], home.path());
        host.read_until("run a guest of yours");
        host.signal("TERM");
        assert_eq!(host.ended().code(), Some(0));
    }
    let cache = home.path().join(".cache/foo-host");
    let found = walk(&cache)
        .into_iter()
        .filter(|path| !path.parent().is_some_and(|dir| dir.ends_with("dev")))
        .count();
    assert_eq!(found, 1, "one guest, compiled once: {:?}", walk(&cache));
}

fn walk(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| if entry.path().is_dir() { walk(&entry.path()) } else { vec![entry.path()] })
        .collect()
}
