//! The builder with a stand-in for `go`: one at a time, and what an interruption leaves.

use super::*;
use std::process::Child;

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_mins(1);

/// Names the directory in which the child process of a test builds.
const STATE: &str = "CONTROLPLANE_TEST_STATE";

/// A cache of its own, and the files that steer the stand-in.
struct Fixture(tempfile::TempDir);

impl Fixture {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn builder(&self) -> Builder {
        builder(self.0.path())
    }

    fn set(&self, file: &str) {
        std::fs::write(self.0.path().join(file), "").expect("it is written");
    }

    fn builds(&self) -> usize {
        std::fs::read_to_string(self.0.path().join("log")).unwrap_or_default().lines().count()
    }
}

fn builder(state: &Path) -> Builder {
    let go = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/builder/fake-go");
    Builder { go, cache: state.join("cache") }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < PATIENCE, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn two_that_want_the_same_program_build_it_once() {
    let fixture = Fixture::new();
    let paths = std::thread::scope(|scope| {
        let build = || fixture.builder().program(Program::Etcd, "").expect("it builds");
        let both = [scope.spawn(build), scope.spawn(build)];
        until("the build", || fixture.builds() == 1);
        fixture.set("gate");
        both.map(|thread| thread.join().expect("no panic"))
    });
    assert_eq!(paths[0], paths[1]);
    assert_eq!(std::fs::read_to_string(&paths[0]).expect("it is there"), "whole");
    assert_eq!(fixture.builds(), 1);
    assert!(!paths[0].with_file_name("partial").exists());
    // And a third time nothing is built at all.
    fixture.builder().program(Program::Etcd, "").expect("it is there");
    assert_eq!(fixture.builds(), 1);
}

#[test]
fn a_failed_build_says_what_go_said_and_leaves_no_program() {
    let fixture = Fixture::new();
    fixture.set("gate");
    fixture.set("fail");
    let error = fixture.builder().program(Program::Kwok, "").expect_err("go fails").to_string();
    assert!(error.contains("kwok cannot be built") && error.contains("undefined: frobnicate"), "{error}");
    assert!(!error.contains("downloading"), "{error}");
    assert!(!fixture.builder().path(Program::Kwok).exists());

    std::fs::remove_file(fixture.0.path().join("fail")).expect("it was there");
    let path = fixture.builder().program(Program::Kwok, "").expect("go succeeds");
    assert_eq!(path, fixture.builder().path(Program::Kwok));
}

#[test]
fn without_go_a_built_program_is_found_and_another_is_an_error_with_the_remedy() {
    let fixture = Fixture::new();
    fixture.set("gate");
    let built = fixture.builder().program(Program::Etcd, "").expect("it builds");
    let without = Builder { go: fixture.0.path().join("no-go"), ..fixture.builder() };
    assert_eq!(without.program(Program::Etcd, "").expect("it is there"), built);
    let error = without.program(Program::Kwok, "").expect_err("it is not there").to_string();
    assert_eq!(
        error,
        "kwok is not built yet, and there is no go on the PATH to build it with; install Go 1.26 or newer, or set \
         KUBEBUILDER_ASSETS to a directory that has it"
    );
}

#[test]
fn a_builder_that_is_killed_keeps_others_out_until_its_compiler_has_ended_and_is_made_good() {
    let fixture = Fixture::new();
    let mut child = ChildTest::start(fixture.0.path());
    until("the build", || fixture.builds() == 1);
    child.kill();

    // The compiler outlives its builder and still writes to `partial`.
    let lock = File::options().append(true).open(fixture.0.path().join("cache/lock")).expect("it is there");
    assert!(matches!(lock.try_lock(), Err(TryLockError::WouldBlock)), "the compiler holds the lock");
    fixture.set("gate");
    until("the compiler's end", || lock.try_lock().is_ok());
    lock.unlock().expect("it was locked");
    assert!(!fixture.builder().path(Program::Etcd).exists(), "nobody vouches for what it wrote");

    let path = fixture.builder().program(Program::Etcd, "").expect("it builds");
    assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "whole");
    assert_eq!(fixture.builds(), 2);
}

/// The process that the test above kills; by itself it does nothing.
#[test]
fn child_that_builds() {
    if let Some(state) = std::env::var_os(STATE) {
        builder(Path::new(&state)).program(Program::Etcd, "").expect("it builds");
    }
}

/// This binary again, with one test of it. Dropped, it is killed.
struct ChildTest(Child);

impl ChildTest {
    fn start(state: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        command.args(["--exact", "builder::tests::child_that_builds"]).env(STATE, state);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts"))
    }

    fn kill(&mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it ran");
    }
}

impl Drop for ChildTest {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
