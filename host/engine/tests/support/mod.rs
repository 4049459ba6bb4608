//! Guests made of WAT text, so that no Wasm toolchain is needed, and what the suites share.
#![allow(dead_code, reason = "each suite is a crate of its own and uses a part")]
#![allow(clippy::unwrap_used, reason = "test code, which the benchmark uses too")]

use contract::{Context, Deployment, DeploymentStatus, Foo, FooSpec, Metadata};
use guest_engine::{Call, CallError, Config, Engine, Guest, Limits};
use std::io::{self, Write};
use std::sync::{Arc, LazyLock, Mutex};
use tracing::Dispatch;
use tracing::subscriber::NoSubscriber;
use tracing_subscriber::fmt::MakeWriter;
use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::{Resolve, WorldId};

/// The contract's own WIT.
pub(crate) const WIT: &str = include_str!("../../../../wit/reconciler.wit");

/// Address of 32 zero bytes in every guest: as a result, `ok` with an empty list.
pub(crate) const EMPTY_ANSWER: &str = "(i32.const 16)";

/// Address at which `data` of [`module`] goes. What the host passes in comes after 64 KiB.
pub(crate) const DATA: usize = 1024;

/// A core module of the world, with its component type. `body` is the body of `reconcile`, whose
/// parameter `$in` is the address of the arguments; its value is the address of the answer. `items` are further fields
/// of the module, imports first (`$log` is there).
pub(crate) fn module(imports: &str, items: &str, body: &str) -> Vec<u8> {
    embed(WIT, &wat(imports, items, body))
}

/// The text of [`module`].
pub(crate) fn wat(imports: &str, items: &str, body: &str) -> String {
    format!(
        r#"(module $test-guest
        (import "samplecontroller:reconciler/log@0.1.0" "log" (func $log (param i32 i32 i32)))
        {imports}
        (memory (export "memory") 16)
        (global $next (mut i32) (i32.const 65536))
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
            (local $at i32)
            (local.set $at (i32.and (i32.add (global.get $next) (i32.const 15)) (i32.const -16)))
            (global.set $next (i32.add (local.get $at) (local.get 3)))
            (local.get $at))
        {items}
        (func (export "reconcile") (param $in i32) (result i32) {body}))"#
    )
}

/// `text` as a module with the component type of the world `reconciler` in `wit`.
pub(crate) fn embed(wit: &str, text: &str) -> Vec<u8> {
    let mut module = wat::parse_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let (resolve, world) = resolve(wit);
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    module
}

/// Parses `wit` and selects its world `reconciler`.
pub(crate) fn resolve(wit: &str) -> (Resolve, WorldId) {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("test.wit", wit).unwrap();
    let world = resolve.select_world(&[package], Some("reconciler")).unwrap();
    (resolve, world)
}

/// An engine with these limits, compiling in this process.
pub(crate) fn engine(limits: Limits) -> Engine {
    Engine::new(Config { limits, ..Config::default() }).unwrap()
}

/// Few slots: the suites' engines reserve less.
pub(crate) fn limits() -> Limits {
    Limits { max_concurrent_calls: 4, ..Limits::default() }
}

/// A guest under [`limits`].
pub(crate) async fn guest(items: &str, body: &str) -> Guest {
    engine(limits()).load(module("", items, body)).await.unwrap()
}

/// A Foo with something in every field.
pub(crate) fn foo() -> Foo {
    Foo {
        metadata: Metadata {
            name: "example".to_owned(),
            namespace: "default".to_owned(),
            uid: "0000-1111".to_owned(),
            generation: 3,
            labels: vec![("app".to_owned(), "web".to_owned())],
            annotations: vec![("note".to_owned(), "é".to_owned())],
            finalizers: vec!["a/b".to_owned()],
            created: 1_700_000_000,
            deleted: None,
        },
        spec: FooSpec { deployment_name: "web".to_owned(), replicas: Some(2) },
        context: Context {
            observed_at: 1_750_000_000,
            parameters: vec![("image".to_owned(), "nginx".to_owned())],
        },
        json: "{}".to_owned(),
        ..Foo::default()
    }
}

/// Its Deployment.
pub(crate) fn deployment() -> Deployment {
    Deployment {
        metadata: Metadata { name: "web".to_owned(), namespace: "default".to_owned(), ..Metadata::default() },
        replicas: 2,
        status: DeploymentStatus { replicas: 2, available_replicas: 1, ..DeploymentStatus::default() },
        json: "{}".to_owned(),
        ..Deployment::default()
    }
}

/// tracing-core asks a lone subscriber through whichever thread meets a callsite first; a thread that has none then
/// switches the callsite off for all (`callsite.rs`, `Rebuilder::JustOne`). With a second one that stays it asks both.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::default()));

/// What is logged on this thread while `guard` lives.
#[derive(Clone, Default)]
pub(crate) struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    pub(crate) fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        let captured = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(captured.clone())
            .with_ansi(false)
            .without_time()
            .with_max_level(tracing::Level::DEBUG)
            .finish();
        LazyLock::force(&SECOND);
        let guard = tracing::subscriber::set_default(subscriber);
        (captured, guard)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Captured {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// A body that never ends.
pub(crate) const FOREVER: &str = "(loop $again (br $again)) (unreachable)";

/// One call for the usual Foo.
pub(crate) async fn call(guest: &Guest) -> Call {
    guest.reconcile(&foo(), None).await
}

/// How that call fails.
pub(crate) async fn error(guest: &Guest) -> CallError {
    call(guest).await.result.unwrap_err()
}

/// Calls the contract's `log`.
pub(crate) fn log(level: u8, at: usize, len: usize) -> String {
    format!("(call $log (i32.const {level}) (i32.const {at}) (i32.const {len}))")
}

/// Answers with the arguments, as they lie in memory, as a manifest: the first string found at `offset`.
pub(crate) fn echo(offset: usize) -> String {
    format!(
        "(i32.store (i32.const 20) (i32.const 512)) (i32.store (i32.const 24) (i32.const 1))
         (i32.store (i32.const 516) (i32.load offset={offset} (local.get $in)))
         (i32.store (i32.const 520) (i32.load offset={} (local.get $in)))
         (i32.const 16)",
        offset + 4
    )
}
