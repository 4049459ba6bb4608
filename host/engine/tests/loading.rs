//! Each way in which a file is no guest, and the text that says so.
#![allow(clippy::unwrap_used, reason = "test code: the lint knows only functions marked as tests")]

mod support;

use guest_engine::{Engine, Limits, LoadError};
use support::{EMPTY_ANSWER, WIT, embed, engine, foo, limits, module, resolve, wat as guest_wat};
use wit_component::{ComponentEncoder, StringEncoding, dummy_module, embed_component_metadata};
use wit_parser::{LiftLowerAbi, ManglingAndAbi};

async fn refused(bytes: &[u8]) -> LoadError {
    refused_by(&engine(limits()), bytes).await
}

async fn refused_by(engine: &Engine, bytes: &[u8]) -> LoadError {
    match engine.load(bytes).await {
        Ok(guest) => panic!("loaded: {guest:?}"),
        Err(error) => error,
    }
}

/// A module of the world `reconciler` in `wit`, every function a trap.
fn dummy(wit: &str) -> Vec<u8> {
    let (resolve, world) = resolve(wit);
    let mut module = dummy_module(&resolve, world, ManglingAndAbi::Legacy(LiftLowerAbi::Sync));
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    module
}

/// [`dummy`] as a component.
fn dummy_component(wit: &str) -> Vec<u8> {
    component(&dummy(wit))
}

fn component(module: &[u8]) -> Vec<u8> {
    ComponentEncoder::default().module(module).unwrap().encode().unwrap()
}

/// The contract's WIT with one more import of the world.
fn importing(import: &str, package: &str) -> String {
    format!(
        "{}\n{package}",
        WIT.replacen("  import log;\n", &format!("  import log;\n  import {import};\n"), 1)
    )
}

#[tokio::test]
async fn a_component_and_the_module_it_was_made_of_both_load() {
    let engine = engine(limits());
    let module = module("", "", EMPTY_ANSWER);
    let component = component(&module);
    for bytes in [module, component] {
        let size = bytes.len();
        let guest = engine.load(bytes).await.unwrap();
        assert_eq!(guest.reconcile(&foo(), None).await.result, Ok(vec![]));
        assert_eq!(guest.size(), size);
        assert!(!guest.from_cache());
    }
}

#[tokio::test]
async fn the_digest_is_that_of_the_file_as_given() {
    use sha2::Digest;
    let bytes = module("", "", EMPTY_ANSWER);
    let expected: Vec<_> = sha2::Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let expected = expected.concat();
    assert_eq!(engine(limits()).load(bytes).await.unwrap().digest(), format!("sha256:{expected}"));
}

#[tokio::test]
async fn name_and_version_are_the_files_own() {
    let engine = engine(limits());
    let module = module("", r#"(@custom "version" "1.2.3\n")"#, EMPTY_ANSWER);
    let guest = engine.load(module.clone()).await.unwrap();
    assert_eq!((guest.name(), guest.version()), (Some("test-guest"), Some("1.2.3")));
    // A component made of it has no name of its own, and its module's says what it is.
    let guest = engine.load(component(&module)).await.unwrap();
    assert_eq!(guest.name(), Some("test-guest"));
}

#[tokio::test]
async fn bytes_that_are_no_wasm_are_named() {
    let text = |found: &str| {
        format!(
            "not a WebAssembly file: found {found}; build the guest for a Wasm target and give the .wasm file"
        )
    };
    assert_eq!(refused(b"").await.to_string(), text("an empty file"));
    assert_eq!(refused(b"\x7fELF\x02\x01\x01\x00").await.to_string(), text("an ELF file (native code)"));
    assert_eq!(refused(b"(module)").await.to_string(), text("a module as text (run `wasm-tools parse`)"));
    assert_eq!(refused(b"hello\nworld").await.to_string(), text("text that starts with \"hello world\""));
    assert_eq!(refused(&[0xff, 1, 2, 3, 4]).await.to_string(), text("bytes that start with ff 01 02 03"));
    assert_eq!(refused(b"\x1f\x8b\x08\x00").await.to_string(), text("a gzip file (unpack it)"));
}

#[tokio::test]
async fn case_55_an_elf_file_is_named_and_precompiled_code_is_never_trusted() {
    let precompiled =
        wasmtime::Engine::default().precompile_component(&wat::parse_str("(component)").unwrap());
    let error = refused(&precompiled.unwrap()).await;
    assert_eq!(error, LoadError::Precompiled);
    assert_eq!(
        error.to_string(),
        "a file of precompiled code, which is never trusted as a guest; give the .wasm file it was made from"
    );
}

#[tokio::test]
async fn case_54_a_file_cut_at_any_offset_never_panics_and_is_refused_or_complete() {
    let engine = engine(limits());
    let module = module("", "", EMPTY_ANSWER);
    let component = component(&module);
    for bytes in [&module, &component] {
        for end in 0..bytes.len() {
            match engine.load(&bytes[..end]).await {
                // A cut before the last custom sections is not seen: the file says all that is needed.
                Ok(_)
                | Err(
                    LoadError::Truncated { .. }
                    | LoadError::NoComponentType
                    | LoadError::MissingExport { .. }
                    | LoadError::NotWasm { .. }
                    | LoadError::Invalid { .. },
                ) => {}
                Err(error) => panic!("cut at {end}: {error}"),
            }
        }
    }
    let error = refused(&component[..component.len() / 2]).await;
    assert_eq!(
        error.to_string(),
        format!(
            "the file is cut off: it has {} bytes, and its last section needs more; it may still be being written \
             (write to another name, then rename)",
            component.len() / 2
        )
    );
}

#[tokio::test]
async fn an_unknown_version_of_wasm_is_named() {
    let error = refused(b"\0asm\x02\0\0\0").await;
    assert_eq!(
        error.to_string(),
        "WebAssembly of an unknown version: found 02 00 00 00; this host takes modules (version 1) and components \
         (version 0xd)"
    );
}

#[tokio::test]
async fn a_core_module_without_component_type_is_refused() {
    let error = refused(&wat::parse_str(guest_wat("", "", EMPTY_ANSWER)).unwrap()).await;
    assert_eq!(error, LoadError::NoComponentType);
    assert_eq!(
        error.to_string(),
        "a core module without a component type: it says nothing of the world it implements; build it with \
         wit-bindgen for samplecontroller:reconciler (and without removing custom sections), or give a component"
    );
}

#[tokio::test]
async fn another_version_of_the_world_is_named_with_those_taken() {
    let newer = WIT.replace("samplecontroller:reconciler@0.1.0", "samplecontroller:reconciler@0.2.0");
    for bytes in [dummy(&newer), dummy_component(&newer)] {
        assert_eq!(
            refused(&bytes).await.to_string(),
            "the guest was built for samplecontroller:reconciler@0.2.0, this host takes 0.1.0; rebuild the guest \
             with the host's wit/, or use a host that takes 0.2.0"
        );
    }
}

#[tokio::test]
async fn case_59_another_world_names_the_missing_reconcile_and_lists_what_is_exported() {
    let wit = "package a:b; world reconciler { export greet: func(name: string) -> string; export i: interface { f: func(); } }";
    assert_eq!(
        refused(&dummy_component(wit)).await.to_string(),
        "the guest exports no function `reconcile` (it exports `greet`, `i`); build it for the world \
         samplecontroller:reconciler/reconciler@0.1.0"
    );
    let nothing = refused(&wat::parse_str("(component)").unwrap()).await;
    assert_eq!(nothing, LoadError::MissingExport { found: vec![] });
    assert!(nothing.to_string().contains("(it exports nothing)"));
}

#[tokio::test]
async fn a_reconcile_of_another_type_is_told_from_a_missing_one() {
    // The same version, but one case of the variant is gone.
    let wit = WIT.replace("    requeue-after(u32),\n", "");
    let error = refused(&dummy_component(&wit)).await;
    assert!(matches!(error, LoadError::ExportType { .. }), "{error}");
    let text = error.to_string();
    assert!(text.starts_with("the guest's `reconcile` has another type than the contract's: "), "{text}");
    assert!(text.ends_with("; rebuild it with the host's wit/"), "{text}");
    let wit = "package a:b; world reconciler { export reconcile: func(); }";
    let error = refused(&dummy_component(wit)).await;
    assert!(matches!(error, LoadError::ExportType { .. }), "{error}");
}

#[tokio::test]
async fn an_import_that_is_not_offered_is_named_with_the_remedy() {
    let http =
        importing("wasi:http/types@0.2.3", "package wasi:http@0.2.3 { interface types { ping: func(); } }");
    assert_eq!(
        refused(&dummy_component(&http)).await.to_string(),
        "the guest imports `wasi:http/types@0.2.3`, which this host does not offer: guests have no network; build \
         without it (componentize-js: disableFeatures: ['http', 'fetch-event'])"
    );
    let other = importing("a:b/c", "package a:b { interface c { ping: func(); } }");
    assert!(refused(&dummy_component(&other)).await.to_string().contains("`a:b/c`"));
}

#[tokio::test]
async fn an_import_of_another_type_than_the_one_offered_is_named() {
    let wasi = importing(
        "wasi:cli/environment@0.2.3",
        "package wasi:cli@0.2.3 { interface environment { get-environment: func() -> u32; } }",
    );
    let error = refused(&dummy_component(&wasi)).await;
    let text = error.to_string();
    assert!(
        text.starts_with("the guest imports `wasi:cli/environment@0.2.3`, which this host does not offer: "),
        "{text}"
    );
}

#[tokio::test]
async fn a_file_within_the_limit_is_read_and_a_larger_one_refused() {
    let bytes = module("", "", EMPTY_ANSWER);
    let size = bytes.len();
    let within = engine(Limits { max_component_bytes: size, ..limits() });
    within.load(bytes.clone()).await.unwrap();
    let beyond = engine(Limits { max_component_bytes: size - 1, ..limits() });
    assert_eq!(
        refused_by(&beyond, &bytes).await.to_string(),
        format!("the guest has {size} bytes, the limit is {}; strip it, or raise the limit", size - 1)
    );
}

#[tokio::test]
async fn a_memory_within_the_limit_loads_and_one_that_starts_beyond_it_is_refused() {
    let pages = |pages: usize| {
        let text = guest_wat("", "", EMPTY_ANSWER)
            .replace(r#"(memory (export "memory") 16)"#, &format!(r#"(memory (export "memory") {pages})"#));
        embed(WIT, &text)
    };
    let engine = engine(Limits { memory_bytes: 64 << 20, ..limits() });
    engine.load(pages(1_024)).await.unwrap();
    let error = refused_by(&engine, &pages(1_025)).await;
    assert!(matches!(error, LoadError::Resources { .. }), "{error}");
    assert!(error.to_string().starts_with("the guest needs more than a call may have: "), "{error}");
}

#[tokio::test]
async fn a_module_that_wit_component_refuses_says_why() {
    // The component type promises `reconcile`; the module has none.
    let text = guest_wat("", "", EMPTY_ANSWER).replace(r#"(export "reconcile")"#, r#"(export "frob")"#);
    let error = refused(&embed(WIT, &text)).await;
    assert!(matches!(error, LoadError::Encode { .. }), "{error}");
    assert!(error.to_string().starts_with("the core module cannot be turned into a component: "), "{error}");
    assert!(error.to_string().contains("reconcile"), "{error}");
}

#[tokio::test]
async fn an_invalid_component_says_why() {
    // The body of a function is not what its type says.
    let mut bytes = component(&module("", "", "(i32.const 16)"));
    let body = bytes.windows(3).rposition(|window| window == [0x41, 16, 0x0b]).unwrap();
    bytes[body] = 0x42;
    let error = refused(&bytes).await;
    assert!(matches!(error, LoadError::Invalid { .. }), "{error}");
    assert!(error.to_string().starts_with("not a valid component: "), "{error}");
    assert!(error.to_string().contains("type mismatch"), "{error}");
}

#[tokio::test]
async fn every_load_error_survives_the_pipe_from_the_compiling_child() {
    let error = refused(b"\0asm\x02\0\0\0").await;
    let json = serde_json::to_string(&error).unwrap();
    assert_eq!(serde_json::from_str::<LoadError>(&json).unwrap(), error);
}
