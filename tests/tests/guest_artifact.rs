//! The committed default guest: it is what `guest/` and `wit/` make, in each of the three ways that a guest
//! may be built, and it answers the golden inputs.
//!
//! After a change of the guest or the contract: `make guest`.
#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use contract::{Answer, Input};
use guest_engine::{CallError, Config, Engine, Guest};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tests::guests::{self, Way, root};

const ARTIFACT: &str = "artifacts/foo_reconciler.wasm";

/// What the artifact was built from, as `sha256sum` prints it; `scripts/guest` writes it.
const RECORD: &str = "artifacts/foo_reconciler.inputs";

/// The artifact is part of the host's binary and of the repository's history, each time it changes.
const MAX_ARTIFACT_BYTES: usize = 120_000;

// ---- freshness ----

/// The files that `scripts/guest` writes down, with their digests.
fn inputs() -> BTreeMap<String, String> {
    let mut files = [ARTIFACT, "guest/Cargo.toml", "guest/build.rs"].map(PathBuf::from).to_vec();
    files_below("guest/src", "rs", &mut files);
    files_below("wit", "wit", &mut files);
    files
        .into_iter()
        // What cargo-component leaves behind.
        .filter(|file| file != Path::new("guest/src/bindings.rs"))
        .map(|file| {
            let digest = Sha256::digest(std::fs::read(root().join(&file)).unwrap());
            let hex = digest.iter().fold(String::new(), |mut hex, byte| {
                write!(hex, "{byte:02x}").unwrap();
                hex
            });
            (file.to_str().unwrap().to_owned(), hex)
        })
        .collect()
}

fn files_below(folder: &str, extension: &str, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(root().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = Path::new(folder).join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            files_below(path.to_str().unwrap(), extension, files);
        } else if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
}

#[test]
fn the_artifact_is_of_the_present_guest_and_contract() {
    let record = std::fs::read_to_string(root().join(RECORD)).unwrap();
    let recorded: BTreeMap<String, String> = record
        .lines()
        .map(|line| line.split_once("  ").map(|(digest, file)| (file.to_owned(), digest.to_owned())).unwrap())
        .collect();
    let present = inputs();
    let changed: Vec<_> = present
        .keys()
        .chain(recorded.keys())
        .filter(|file| present.get(*file) != recorded.get(*file))
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect();
    assert!(
        changed.is_empty(),
        "{ARTIFACT} is older than {changed:?}: run `make guest` and commit what it writes"
    );
}

// ---- what is in it ----

#[test]
fn the_artifact_is_small() {
    let size = std::fs::metadata(root().join(ARTIFACT)).unwrap().len() as usize;
    assert!(size < MAX_ARTIFACT_BYTES, "{size} bytes");
}

#[test]
fn the_artifact_imports_no_function_but_log() {
    let bytes = std::fs::read(root().join(ARTIFACT)).unwrap();
    assert_eq!(imports(&bytes), ["samplecontroller:reconciler/log@0.1.0 log"]);
}

#[test]
fn the_artifact_names_no_path_of_the_machine_that_built_it() {
    let bytes = std::fs::read(root().join(ARTIFACT)).unwrap();
    let home = std::env::var("HOME").unwrap_or_default();
    for path in [root().to_str().unwrap(), &format!("{home}/"), "/home/", "/Users/", "/root/"] {
        let found = path.len() > 1 && bytes.windows(path.len()).any(|window| window == path.as_bytes());
        assert!(!found, "{path}");
    }
}

/// The imports of a core module, each as `module name`.
fn imports(module: &[u8]) -> Vec<String> {
    let mut imports = Vec::new();
    for payload in wasmparser::Parser::new(0).parse_all(module) {
        if let wasmparser::Payload::ImportSection(section) = payload.unwrap() {
            for import in section.into_imports() {
                let import = import.unwrap();
                imports.push(format!("{} {}", import.module, import.name));
            }
        }
    }
    imports
}

// ---- the README ----

/// The guest of the README, word by word, as a user would build it.
#[tokio::test]
async fn the_guest_of_the_readme_builds_and_answers() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let code = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let crate_dir = tempfile::tempdir().unwrap();
    let path = |name: &str| crate_dir.path().join(name);
    std::fs::create_dir_all(path("src")).unwrap();
    std::fs::create_dir_all(path("wit")).unwrap();
    std::fs::write(path("src/lib.rs"), code).unwrap();
    std::fs::copy(root().join("wit/reconciler.wit"), path("wit/reconciler.wit")).unwrap();
    std::fs::copy(root().join("Cargo.lock"), path("Cargo.lock")).unwrap();
    let manifest = "[package]\nname = \"readme-guest\"\nedition = \"2024\"\n[lib]\ncrate-type = [\"cdylib\"]\n\
                    [dependencies]\nwit-bindgen = \"0.61\"\n[workspace]\n";
    std::fs::write(path("Cargo.toml"), manifest).unwrap();
    let Some(built) = guests::build_crate(crate_dir.path(), "readme_guest.wasm") else { return };
    let guest = load(&built).await;
    for (name, Golden { input, .. }) in golden() {
        let call = guest.reconcile(&input.foo, input.deployment.as_ref()).await;
        assert!(call.result.is_ok(), "{name}: {:?}", call.result);
    }
}

// ---- what it answers ----

/// One file of `golden/`.
#[derive(Deserialize)]
struct Golden {
    input: Input,
    answer: Answer,
}

fn golden() -> BTreeMap<String, Golden> {
    let golden: BTreeMap<_, _> = std::fs::read_dir(root().join("tests/golden"))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let golden = serde_json::from_slice(&std::fs::read(&path).unwrap())
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            (path.file_stem().unwrap().to_str().unwrap().to_owned(), golden)
        })
        .collect();
    assert!(golden.len() >= 12, "only {} golden inputs", golden.len());
    golden
}

async fn load(path: &Path) -> Guest {
    let bytes = std::fs::read(path).unwrap();
    let engine = Engine::new(Config::default()).unwrap();
    engine.load(bytes).await.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Holds the guest against the golden answers.
async fn answers_golden(path: &Path) {
    let guest = load(path).await;
    for (name, Golden { input, answer }) in golden() {
        let call = guest.reconcile(&input.foo, input.deployment.as_ref()).await;
        let result: Answer = call.result.map_err(|error| match error {
            CallError::Retry(text) => contract::ReconcileError::Retry(text),
            CallError::Permanent(text) => contract::ReconcileError::Permanent(text),
            failure => panic!("{name}: {failure}"),
        });
        assert_eq!(result, answer, "{name} ({})", path.display());
    }
}

#[tokio::test]
async fn the_artifact_answers_the_golden_inputs() {
    answers_golden(&root().join(ARTIFACT)).await;
}

#[tokio::test]
async fn a_fresh_build_for_wasm32_unknown_unknown_answers_the_golden_inputs_and_imports_only_log() {
    let Some(built) = Way::UnknownUnknown.build() else { return };
    assert_eq!(imports(&std::fs::read(&built).unwrap()), ["samplecontroller:reconciler/log@0.1.0 log"]);
    answers_golden(&built).await;
}

#[tokio::test]
async fn a_build_for_wasm32_wasip2_answers_the_golden_inputs() {
    let Some(built) = Way::Wasip2.build() else { return };
    answers_golden(&built).await;
}

#[tokio::test]
async fn a_build_by_cargo_component_answers_the_golden_inputs() {
    let Some(built) = Way::Component.build() else { return };
    answers_golden(&built).await;
}
