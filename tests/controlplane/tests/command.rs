//! The command `controlplane`, as a person at a terminal meets it.

use controlplane::{Program, available, skip};
use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_mins(2);

/// Starts a command, kills it when there is nothing more to read, which is when the test drops its end of the pipe or
/// is gone itself, and ends with the command's exit code. The end of the standard error is the end of the command.
const KEEPER: &str = r#"
    "$@" </dev/null &
    command=$!
    trap '' HUP INT TERM
    exec 2>/dev/null
    read -r _
    kill -s KILL "$command"
    wait "$command""#;

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

/// With the stand-in for `go` of the builder's tests.
#[test]
fn progress_says_which_of_the_missing_programs_is_built() {
    let machine = Machine::new().with(&["etcd", "stages.yaml"]);
    let bin = machine.0.path().join("bin");
    std::fs::create_dir(&bin).expect("it is new");
    let go = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/builder/fake-go");
    std::os::unix::fs::symlink(go, bin.join("go")).expect("it is new");
    let state = machine.0.path().join(".cache/foo-host");
    std::fs::create_dir_all(&state).expect("it is new");
    std::fs::write(state.join("gate"), "").expect("it is written");

    let path = format!("{}:/usr/bin:/bin", bin.display());
    let output = machine.command(&["build"]).env("PATH", path).output().expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    for (number, which) in Program::ALL.iter().enumerate().skip(1) {
        let (name, version) = (which.name(), which.version().expect("go.mod has it"));
        for done in ["building", "built"] {
            let expected = format!("controlplane: {done} {name} {version} ({number} of 5) ");
            assert!(stderr.contains(&expected), "no {expected}: {stderr}");
        }
    }
    let rows = String::from_utf8_lossy(&output.stdout);
    assert_eq!(rows.matches("from KUBEBUILDER_ASSETS").count(), 1, "{rows}");
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
    let mut shell = Command::new("/bin/sh")
        .args(["-c", KEEPER, "keeper", env!("CARGO_BIN_EXE_controlplane"), "up", "--no-pods"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a shell");
    let stdin = shell.stdin.take().expect("it is piped");
    let stderr = later(shell.stderr.take().expect("it is piped"));
    let mut said = String::new();
    for line in BufReader::new(shell.stdout.take().expect("it is piped")).lines() {
        said += &(line.expect("text") + "\n");
        if said.contains("ends it all") {
            break;
        }
    }
    assert!(said.contains("no Foo becomes Ready") && !said.contains("rollout status"), "{said}");
    let pid = between(&said, "`kill ", "`");
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).expect("it runs");
    assert_eq!(program, Path::new(env!("CARGO_BIN_EXE_controlplane")));

    let logs = Path::new(between(&said, "programs are in ", ".\n"));
    kill_etcd(logs.parent().expect("the plane's"));
    let stderr = stderr.recv_timeout(PATIENCE).expect("it ends");
    assert!(stderr.contains("ending the rest\ncontrolplane: etcd ended: signal: 9 (SIGKILL)"), "{stderr}");
    assert!(!logs.exists(), "its directory goes with it");
    drop(stdin);
    assert_eq!(shell.wait().expect("it ran").code(), Some(1), "{stderr}");
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let rest = text.split_once(before).and_then(|(_, rest)| rest.split_once(after));
    rest.unwrap_or_else(|| panic!("no {before}: {text}")).0
}

/// All that there is to read, when it ends.
fn later(mut from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        from.read_to_string(&mut text).ok();
        sender.send(text).ok();
    });
    receiver
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
