//! The command `controlplane`, as a person at a terminal meets it.

use controlplane::{Program, available, skip};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// A machine without Go, an empty cache, and a directory for assets.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Self {
        let machine = Self(tempfile::tempdir().expect("a directory"));
        std::fs::create_dir(machine.assets()).expect("it is new");
        machine
    }

    fn assets(&self) -> std::path::PathBuf {
        self.0.path().join("assets")
    }

    fn with(self, files: &[&str]) -> Self {
        for file in files {
            std::fs::write(self.assets().join(file), "").expect("it is written");
        }
        self
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_controlplane"));
        command.args(arguments).env_clear().env("PATH", "/nowhere").env("HOME", self.0.path());
        command.env("KUBEBUILDER_ASSETS", self.assets());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it runs")
    }

    /// What it says on stderr when it fails.
    fn fails(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        stderr
    }
}

fn all() -> Vec<&'static str> {
    Program::ALL.iter().map(|which| which.name()).collect()
}

#[test]
fn without_go_everything_that_is_missing_is_named_with_the_remedy() {
    let machine = Machine::new();
    let assets = machine.assets();
    let useless = format!("controlplane: KUBEBUILDER_ASSETS={}", assets.display());
    let missing = "and there is no go on the PATH to build them with; install Go 1.26 or newer, or set \
                   KUBEBUILDER_ASSETS to a directory that has them\n";
    let expected = format!(
        "{useless} has none of the programs; it is not used\ncontrolplane: {} are not built yet, {missing}",
        all().join(", ")
    );
    assert_eq!(machine.fails(&["build"]), expected);

    std::fs::remove_dir(&assets).expect("it is empty");
    let expected = format!(
        "{useless} is no directory; it is not used\ncontrolplane: etcd, kube-apiserver, kube-controller-manager \
         are not built yet, {missing}"
    );
    assert_eq!(machine.fails(&["up", "--no-pods"]), expected);
}

#[test]
fn assets_without_kwoks_stages_are_an_error_about_the_stages() {
    let machine = Machine::new().with(&all());
    for command in ["build", "up"] {
        let expected = "controlplane: kwok's stages.yaml is neither beside kwok nor in the cache, and there is no go \
                        on the PATH to fetch it with; install Go 1.26 or newer, or start the plane without pods \
                        (--no-pods)\n";
        assert_eq!(machine.fails(&[command]), expected);
    }
}

#[test]
fn assets_are_found_and_said_to_be_assets_and_a_reader_may_go_away() {
    let machine = Machine::new().with(&all()).with(&["stages.yaml"]);
    let output = machine.run(&["build"]);
    assert!(output.status.success(), "{output:?}");
    let rows = String::from_utf8_lossy(&output.stdout);
    assert_eq!(rows.lines().count(), Program::ALL.len(), "{rows}");
    for row in rows.lines() {
        assert!(row.contains(" from KUBEBUILDER_ASSETS ") && row.contains("/assets/"), "{row}");
    }

    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = machine.command(&["build"]).stdout(writer).output().expect("it runs");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn admission_plugins_that_stay_off_are_refused_before_anything_is_built() {
    let machine = Machine::new();
    for (plugin, why) in [
        ("ServiceAccount", "nothing here makes them"),
        ("PodNodeSelector,TaintNodesByCondition", "nothing here lifts the taint"),
    ] {
        let stderr = machine.fails(&["up", "--admission", plugin]);
        assert!(stderr.contains("stays off: ") && stderr.contains(why), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn up_ends_with_an_error_when_a_program_of_the_plane_ends() {
    if let Err(error) = available() {
        return skip("controlplane::up", &error.to_string());
    }
    let mut up = Up(Command::new(env!("CARGO_BIN_EXE_controlplane"))
        .args(["up", "--no-pods"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts"));
    let lines = BufReader::new(up.0.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
    let mut said: Vec<String> = Vec::new();
    for line in lines {
        said.push(line);
        if said.last().is_some_and(|line| line.contains("ends it all")) {
            break;
        }
    }
    let text = said.join("\n");
    assert!(text.contains(&format!("`kill {}`", up.0.id())), "{text}");
    assert!(text.contains("no Foo becomes Ready") && !text.contains("rollout status"), "{text}");

    let directory = said.iter().find_map(|line| line.strip_prefix("Logs of the programs are in "));
    let logs = directory.expect("it says so").trim_end_matches('.').to_owned();
    kill_etcd(Path::new(&logs).parent().expect("the plane's"));
    let mut stderr = String::new();
    up.0.stderr.take().expect("it is piped").read_to_string(&mut stderr).expect("it ends");
    assert_eq!(up.0.wait().expect("it ran").code(), Some(1), "{stderr}");
    assert!(stderr.contains("ending the rest\ncontrolplane: etcd ended: signal: 9 (SIGKILL)"), "{stderr}");
    assert!(!Path::new(&logs).exists(), "its directory goes with it");
}

/// Dropped, it is killed.
struct Up(Child);

impl Drop for Up {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// SIGKILL for the etcd whose data is in a directory.
fn kill_etcd(directory: &Path) {
    let data = format!("--data-dir={}", directory.join("etcd").display());
    let entries = std::fs::read_dir("/proc").expect("this is Linux").filter_map(Result::ok);
    let of_plane = |path: &Path| {
        let line = std::fs::read(path.join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).split('\0').any(|argument| argument == data)
    };
    let path = entries.map(|entry| entry.path()).find(|path| of_plane(path)).expect("etcd runs");
    let id = path.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a number");
    let pid = rustix::process::Pid::from_raw(id).expect("not 0");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it is ours");
}
