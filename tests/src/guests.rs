//! Guests that are built for the tests, once in a run.

use crate::skip;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The checkout.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ has a parent")
}

/// The committed default guest.
pub fn built_in() -> PathBuf {
    root().join("artifacts/foo_reconciler.wasm")
}

/// The guest of `tests/guests/scripted`, which answers what annotations say.
pub fn scripted() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || cargo("scripted-guest", "wasm32-unknown-unknown", "scripted_guest.wasm");
    BUILT.get_or_init(build).clone()
}

/// The ways to build the default guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `cargo build --target wasm32-unknown-unknown`.
    UnknownUnknown,
    /// `cargo build --target wasm32-wasip2`.
    Wasip2,
    /// `cargo component build`.
    Component,
}

impl Way {
    /// All three.
    pub const ALL: [Self; 3] = [Self::UnknownUnknown, Self::Wasip2, Self::Component];

    /// Builds the default guest from its sources. None, after [`skip()`], where the machine lacks the target or
    /// the tool.
    pub fn build(self) -> Option<PathBuf> {
        let target = match self {
            Self::UnknownUnknown => "wasm32-unknown-unknown",
            Self::Wasip2 => "wasm32-wasip2",
            Self::Component => "wasm32-wasip1",
        };
        if !has_target(target) {
            skip(
                &format!("the default guest built by {self:?}"),
                &format!("the target {target} is not installed"),
            );
            return None;
        }
        let file = "foo_reconciler.wasm";
        if self != Self::Component {
            return Some(cargo("foo-reconciler", target, file));
        }
        let Some(tool) = cargo_component() else {
            skip(&format!("the default guest built by {self:?}"), "cargo-component is not installed");
            return None;
        };
        let mut build = Command::new(tool);
        build.current_dir(root().join("guest")).args(["component", "build"]);
        Some(run(build, target, file))
    }
}

fn has_target(target: &str) -> bool {
    let output = Command::new("rustc").args(["--print", "target-libdir", "--target", target]).output();
    let text = String::from_utf8(output.expect("rustc runs").stdout).expect("a path");
    Path::new(text.trim()).is_dir()
}

/// The program, from the cache that `make install-tools` fills or from PATH.
fn cargo_component() -> Option<PathBuf> {
    const NAME: &str = "cargo-component";
    let version = include_str!("../../scripts/cargo-component.version").trim();
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))?;
    let cached = cache.join(format!("foo-host/{NAME}-{version}/bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::iter::once(cached)
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join(NAME))
        .find(|program| program.is_file())
}

/// Builds the crate in `folder` for wasm32-unknown-unknown. None, after [`skip()`], where the target is missing.
pub fn build_crate(folder: &Path, file: &str) -> Option<PathBuf> {
    let target = "wasm32-unknown-unknown";
    if !has_target(target) {
        skip(&folder.display().to_string(), &format!("the target {target} is not installed"));
        return None;
    }
    let mut build = Command::new(env!("CARGO"));
    build.current_dir(folder).args(["build", "--target", target]);
    Some(run_unlocked(build, target, file))
}

fn cargo(package: &str, target: &str, file: &str) -> PathBuf {
    let mut build = Command::new(env!("CARGO"));
    build.current_dir(root()).args(["build", "-p", package, "--target", target]);
    run(build, target, file)
}

/// Runs a release build in a target directory of its own (the tests' is locked by whoever builds them) and gives
/// the path of its result.
fn run(mut build: Command, target: &str, file: &str) -> PathBuf {
    build.arg("--locked");
    run_unlocked(build, target, file)
}

fn run_unlocked(mut build: Command, target: &str, file: &str) -> PathBuf {
    // target/debug/deps/this-test
    let this = std::env::current_exe().expect("the test's path");
    let folder = this.ancestors().nth(3).expect("a target directory").join("guests");
    let output = build
        .arg("--release")
        .env("CARGO_TARGET_DIR", &folder)
        // Set by the cargo that runs the tests, for this package.
        .env_remove("CARGO_MANIFEST_DIR")
        .env_remove("RUSTFLAGS")
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{build:?} (`make install-tools` brings what it needs):\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    folder.join(target).join("release").join(file)
}
