//! Guests that are built for the tests, once in a run.

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
    BUILT.get_or_init(|| build("scripted-guest", "scripted_guest.wasm")).clone()
}

/// Builds a package for wasm32-unknown-unknown into a target directory of its own: the one of the tests
/// themselves is locked while they are being built.
fn build(package: &str, file: &str) -> PathBuf {
    let target = root().join("target/guests");
    let output = Command::new(env!("CARGO"))
        .current_dir(root())
        .env("CARGO_TARGET_DIR", &target)
        .args(["build", "--release", "--target", "wasm32-unknown-unknown", "-p", package])
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{package} does not build (make install-tools brings the target wasm32-unknown-unknown):\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    target.join("wasm32-unknown-unknown/release").join(file)
}
