//! The compiling child process and the cache of its code.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "test code: the lint knows only functions marked as tests")]

mod support;

use guest_engine::{Compiler, Config, Engine, Limits, LoadError};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Cursor};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;
use support::{Captured, EMPTY_ANSWER, foo, limits, module};

/// The child: `run_compiler` and nothing else.
fn child() -> Compiler {
    command(env!("CARGO_BIN_EXE_guest-compile"), &[])
}

fn command(program: &str, args: &[&str]) -> Compiler {
    Compiler::Command { program: program.into(), args: args.iter().map(OsString::from).collect() }
}

fn shell(script: &str) -> Compiler {
    command("/bin/sh", &["-c", script])
}

fn engine(compiler: Compiler, cache_dir: Option<&Path>, limits: Limits) -> Engine {
    Engine::new(Config { limits, compiler, cache_dir: cache_dir.map(Path::to_owned), ..Config::default() })
        .unwrap()
}

fn guest() -> Vec<u8> {
    module("", "", EMPTY_ANSWER)
}

async fn refused(compiler: Compiler, limits: Limits) -> String {
    engine(compiler, None, limits).load(guest()).await.unwrap_err().to_string()
}

/// A directory that the cache may use.
fn private() -> tempfile::TempDir {
    tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o700)).tempdir().unwrap()
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[tokio::test]
async fn a_guest_compiled_in_a_child_process_runs() {
    let guest = engine(child(), None, limits()).load(guest()).await.unwrap();
    assert_eq!(guest.reconcile(&foo(), None).await.result, Ok(vec![]));
}

#[tokio::test]
async fn the_childs_refusals_are_the_engines() {
    let wrong = wat::parse_str(r#"(component (import "wasi:http/types@0.2.3" (instance)))"#).unwrap();
    let in_child = engine(child(), None, limits()).load(wrong.clone()).await.unwrap_err();
    let in_process = engine(Compiler::InProcess, None, limits()).load(wrong).await.unwrap_err();
    assert_eq!(in_child, in_process);
}

#[tokio::test]
async fn case_60_compilation_within_the_time_ends_and_beyond_it_is_stopped_while_calls_go_on() {
    let limits = Limits { compile_time: Duration::from_secs(1), ..limits() };
    let engine = engine(shell("exec sleep 20"), None, limits.clone());
    // Another engine's guest stands for those loaded before.
    let other = support::engine(limits).load(guest()).await.unwrap();
    let foo = foo();
    let mut calls = 0_u32;
    let load = engine.load(guest());
    tokio::pin!(load);
    let error = loop {
        tokio::select! {
            biased;
            loaded = &mut load => break loaded.unwrap_err(),
            call = other.reconcile(&foo, None) => {
                assert_eq!(call.result, Ok(vec![]));
                calls += 1;
            }
        }
    };
    assert_eq!(error, LoadError::CompileTimeout { limit: Duration::from_secs(1) });
    assert_eq!(
        error.to_string(),
        "compiling took longer than 1 s; make the guest smaller, or raise the limit"
    );
    assert!(calls > 100, "{calls}");
}

#[tokio::test]
async fn a_child_that_runs_out_of_memory_says_so() {
    // A custom section of 24 MiB fits, but not its copies on the way to a component; one of 40 MiB is not even
    // read. The lengths are LEB128, with the 5 bytes of the section's name.
    for (size, length) in [(24 << 20, [0x85, 0x80, 0x80, 0x0c]), (40 << 20, [0x85, 0x80, 0x80, 0x14])] {
        let mut big = guest();
        big.push(0);
        big.extend(length);
        big.extend(b"\x04fill");
        big.resize(big.len() + size, 0);
        let tight = Limits { compile_memory_bytes: 64 << 20, ..limits() };
        let error = engine(child(), None, tight).load(big.clone()).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "compiling took more than 67108864 bytes of memory; make the guest smaller, or raise the limit"
        );
        engine(child(), None, limits()).load(big).await.unwrap();
    }
}

#[tokio::test]
async fn a_compiler_that_fails_says_how() {
    assert_eq!(
        refused(command("/nonexistent/foo-host", &[]), limits()).await,
        "the compiler failed: /nonexistent/foo-host cannot be run: No such file or directory (os error 2)"
    );
    let text = refused(shell("cat >/dev/null; echo no such subcommand >&2; exit 2"), limits()).await;
    assert_eq!(text, "the compiler failed: exit status: 2: no such subcommand");
    let text = refused(shell("cat >/dev/null; kill -9 $$"), limits()).await;
    assert!(text.starts_with("the compiler failed: signal: 9"), "{text}");
    let text = refused(shell("cat >/dev/null; echo hello"), limits()).await;
    assert!(text.starts_with("the compiler failed: exit status: 0, expected value"), "{text}");
    let text = refused(shell("kill -XCPU $$"), limits()).await;
    assert_eq!(text, "compiling took longer than 120 s; make the guest smaller, or raise the limit");
}

#[tokio::test]
async fn a_child_of_another_version_is_not_trusted() {
    let reply = r#"{"Code":{"size":4,"compatibility":"0123"}}"#;
    let text = refused(shell(&format!("cat >/dev/null; echo '{reply}'; printf code")), limits()).await;
    assert_eq!(text, "the compiler failed: its code is for another version of this host; restart the host");
}

#[test]
fn a_call_of_the_subcommand_by_hand_is_an_error_that_says_so() {
    let mut output = Vec::new();
    let error = guest_engine::compile::run_compiler(Cursor::new("\0asm"), &mut output).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(
        error.to_string().starts_with("not a request of foo-host's engine, which alone calls this"),
        "{error}"
    );
    assert_eq!(output, b"");
}

#[tokio::test]
async fn the_second_load_comes_from_the_cache_and_answers_the_same() {
    let dir = private();
    let first = engine(child(), Some(dir.path()), limits()).load(guest()).await.unwrap();
    assert!(!first.from_cache());
    // A compiler that fails shows that it is not asked.
    let second = engine(shell("exit 1"), Some(dir.path()), limits()).load(guest()).await.unwrap();
    assert!(second.from_cache());
    assert_eq!(second.digest(), first.digest());
    assert_eq!(second.reconcile(&foo(), None).await.result, first.reconcile(&foo(), None).await.result);
    let [entry] = &entries(dir.path())[..] else { panic!("{:?}", entries(dir.path())) };
    assert_eq!(fs::metadata(entry).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn case_55_a_corrupt_entry_is_a_miss_and_is_replaced() {
    let dir = private();
    let load = || engine(Compiler::InProcess, Some(dir.path()), limits());
    load().load(guest()).await.unwrap();
    let entry = entries(dir.path()).remove(0);
    let intact = fs::read(&entry).unwrap();
    let mut flipped = intact.clone();
    flipped[intact.len() / 2] ^= 1;
    // Not in place: a guest that is loaded maps the old file.
    let replace = |bytes: &[u8]| {
        fs::remove_file(&entry).unwrap();
        fs::write(&entry, bytes).unwrap();
    };
    for corrupt in [&b""[..], b"hello", &intact[..intact.len() / 2], &flipped] {
        replace(corrupt);
        let guest = load().load(guest()).await.unwrap();
        assert!(!guest.from_cache(), "{} bytes", corrupt.len());
        assert_eq!(fs::read(&entry).unwrap(), intact);
    }
    assert!(load().load(guest()).await.unwrap().from_cache());
}

#[tokio::test]
async fn case_55_code_of_another_engine_is_another_entry() {
    let dir = private();
    engine(Compiler::InProcess, Some(dir.path()), limits()).load(guest()).await.unwrap();
    let entry = entries(dir.path()).remove(0);
    let name = entry.file_name().unwrap().to_str().unwrap();
    let (digest, _) = name.split_once('-').unwrap();
    // As the last release would have named it.
    fs::rename(&entry, dir.path().join(format!("{digest}-{}.cwasm", "0".repeat(32)))).unwrap();
    assert!(
        !engine(Compiler::InProcess, Some(dir.path()), limits()).load(guest()).await.unwrap().from_cache()
    );
    assert_eq!(entries(dir.path()).len(), 2);
}

#[tokio::test]
async fn two_engines_that_load_at_once_share_a_directory() {
    let dir = private();
    let engines: Vec<_> = (0..4).map(|_| engine(Compiler::InProcess, Some(dir.path()), limits())).collect();
    let loads: Vec<_> =
        engines.into_iter().map(|engine| tokio::spawn(async move { engine.load(guest()).await })).collect();
    for load in loads {
        let guest = load.await.unwrap().unwrap();
        assert_eq!(guest.reconcile(&foo(), None).await.result, Ok(vec![]));
    }
    assert_eq!(entries(dir.path()).len(), 1, "no temporary file is left");
}

#[tokio::test]
async fn a_directory_that_others_can_enter_or_a_link_is_not_used_and_the_log_says_why() {
    let dir = private();
    let open = dir.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
    let link = dir.path().join("link");
    let private = dir.path().join("private");
    symlink(&private, &link).unwrap();
    fs::create_dir(&private).unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).unwrap();
    for (cache, reason) in [(&open, "make its mode 0700"), (&link, "it is a link")] {
        let (captured, _guard) = Captured::start();
        let engine = engine(Compiler::InProcess, Some(cache), limits());
        assert!(captured.text().contains("cache directory not used"), "{}", captured.text());
        assert!(captured.text().contains(reason), "{}", captured.text());
        engine.load(guest()).await.unwrap();
        assert_eq!(entries(cache), Vec::<PathBuf>::new());
    }
}

#[tokio::test]
async fn a_directory_that_is_not_there_is_made_with_mode_0700() {
    let dir = private();
    let cache = dir.path().join("a/b");
    engine(Compiler::InProcess, Some(&cache), limits()).load(guest()).await.unwrap();
    assert_eq!(fs::metadata(&cache).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(entries(&cache).len(), 1);
}

#[tokio::test]
async fn a_directory_that_cannot_be_written_costs_a_line_and_no_guest() {
    let dir = private();
    let cache = dir.path().join("cache");
    let engine = engine(Compiler::InProcess, Some(&cache), limits());
    fs::remove_dir(&cache).unwrap();
    assert!(!engine.load(guest()).await.unwrap().from_cache());
}

#[tokio::test]
async fn the_cache_keeps_the_last_sixteen() {
    let dir = private();
    let engine = engine(Compiler::InProcess, Some(dir.path()), limits());
    for version in 0..18 {
        let bytes = module("", &format!(r#"(@custom "version" "{version}")"#), EMPTY_ANSWER);
        engine.load(bytes).await.unwrap();
    }
    assert_eq!(entries(dir.path()).len(), 16);
}
