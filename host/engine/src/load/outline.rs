//! What a file is, from its sections' headers: nothing is validated or compiled here.

use super::REASON_BYTES;
use super::world::World;
use crate::LoadError;
use contract::one_line;
use wasmparser::{BinaryReaderError, Chunk, Encoding, KnownCustom, Name, Parser, Payload};
use wasmparser::{ComponentExternalKind, ComponentName, ComponentTypeRef};
use wasmtime::Engine;

const MAGIC: &[u8] = b"\0asm";

/// Longest name or version taken from a file, in bytes.
const METADATA_BYTES: usize = 128;

/// The module of WASI 0.1 that raw modules of Go and C import.
pub(super) const WASIP1: &str = "wasi_snapshot_preview1";

/// What is known without validating.
#[derive(Debug, Default)]
pub(super) struct Outline {
    /// A core module, not a component.
    pub(super) module: bool,
    /// A core module that imports WASI 0.1.
    pub(super) wasip1: bool,
    /// The component's name, else its first module's.
    pub(super) name: Option<String>,
    /// The custom section `version`.
    pub(super) version: Option<String>,
    /// Imports and exports of a component.
    pub(super) world: World,
}

impl Outline {
    /// Reads the outline of `bytes`, or says why they are no guest.
    pub(super) fn of(bytes: &[u8]) -> Result<Self, LoadError> {
        header(bytes)?;
        let mut outline = Self::default();
        let mut component_type = false;
        let mut module_name = None;
        walk(bytes, &mut |payload| {
            match payload {
                Payload::Version { encoding, .. } => outline.module = encoding == Encoding::Module,
                Payload::CustomSection(section) => {
                    component_type |= section.name().starts_with("component-type");
                    match section.as_known() {
                        // The first module is the guest's own; adapters come after it.
                        KnownCustom::Name(names) => {
                            module_name = module_name.take().or_else(|| module_name_in(names));
                        }
                        KnownCustom::ComponentName(names) => outline.name = component_name(names),
                        _ if section.name() == "version" => {
                            outline.version = std::str::from_utf8(section.data()).ok().and_then(metadata);
                        }
                        _ => {}
                    }
                }
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        outline.wasip1 |= import?.module == WASIP1;
                    }
                }
                Payload::ComponentImportSection(section) => {
                    for import in section {
                        let import = import?;
                        let is_type = matches!(import.ty, ComponentTypeRef::Type(_));
                        if !is_type {
                            outline.world.imports.push(import.name.name.to_owned());
                        }
                    }
                }
                Payload::ComponentExportSection(section) => {
                    for export in section {
                        let export = export?;
                        if export.kind == ComponentExternalKind::Func {
                            outline.world.functions.push(export.name.name.to_owned());
                        } else if export.kind != ComponentExternalKind::Type {
                            outline.world.other_exports.push(export.name.name.to_owned());
                        }
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
        if outline.module && !component_type {
            return Err(LoadError::NoComponentType);
        }
        outline.name = outline.name.or(module_name);
        Ok(outline)
    }
}

/// Tells by the first bytes what this cannot be.
fn header(bytes: &[u8]) -> Result<(), LoadError> {
    if Engine::detect_precompiled(bytes).is_some() {
        return Err(LoadError::Precompiled);
    }
    if !bytes.starts_with(MAGIC) {
        if !bytes.is_empty() && MAGIC.starts_with(bytes) {
            return Err(LoadError::Truncated { size: bytes.len() });
        }
        return Err(LoadError::NotWasm { found: describe(bytes) });
    }
    match bytes.get(4..8) {
        None => Err(LoadError::Truncated { size: bytes.len() }),
        Some([1, 0, 0, 0] | [0x0d, 0, 1, 0]) => Ok(()),
        Some(version) => {
            let found = version.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
            Err(LoadError::WasmVersion { found })
        }
    }
}

/// What bytes that are no Wasm look like.
fn describe(bytes: &[u8]) -> String {
    let known: [(&[u8], &str); 7] = [
        (b"\x7fELF", "an ELF file (native code)"),
        (b"\x1f\x8b", "a gzip file (unpack it)"),
        (b"PK\x03\x04", "a zip file (unpack it)"),
        (b"\x28\xb5\x2f\xfd", "a zstd file (unpack it)"),
        (b"(module", "a module as text (run `wasm-tools parse`)"),
        (b"(component", "a component as text (run `wasm-tools parse`)"),
        (b"#!", "a script"),
    ];
    if bytes.is_empty() {
        return "an empty file".to_owned();
    }
    if let Some((_, name)) = known.iter().find(|(start, _)| bytes.starts_with(start)) {
        return (*name).to_owned();
    }
    let head = bytes.get(..32.min(bytes.len())).unwrap_or_default();
    if let Ok(text) = std::str::from_utf8(head) {
        return format!("text that starts with {:?}", one_line(text, 32));
    }
    let head = head.iter().take(4).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>();
    format!("bytes that start with {}", head.join(" "))
}

type Visit<'v, 'a> = dyn FnMut(Payload<'a>) -> Result<(), BinaryReaderError> + 'v;

/// Visits the top level, and of nested modules the `name` sections only.
fn walk<'a>(bytes: &'a [u8], visit: &mut Visit<'_, 'a>) -> Result<(), LoadError> {
    let truncated = || LoadError::Truncated { size: bytes.len() };
    let malformed =
        |error: BinaryReaderError| LoadError::Invalid { reason: one_line(&error.to_string(), REASON_BYTES) };
    let mut parser = Parser::new(0);
    let mut rest = bytes;
    while !rest.is_empty() {
        let (consumed, payload) = match parser.parse(rest, false).map_err(malformed)? {
            Chunk::NeedMoreData(_) => return Err(truncated()),
            Chunk::Parsed { consumed, payload } => (consumed, payload),
        };
        rest = rest.get(consumed..).ok_or_else(truncated)?;
        match payload {
            Payload::ModuleSection { ref unchecked_range, .. }
            | Payload::ComponentSection { ref unchecked_range, .. } => {
                let size = unchecked_range.end.saturating_sub(unchecked_range.start);
                let nested = rest.get(..size).ok_or_else(truncated)?;
                rest = rest.get(size..).ok_or_else(truncated)?;
                if matches!(payload, Payload::ModuleSection { .. }) {
                    names(nested, visit).map_err(malformed)?;
                }
            }
            Payload::CodeSectionStart { size, .. } => {
                rest = rest.get(size as usize..).ok_or_else(truncated)?;
                parser.skip_section();
            }
            payload => visit(payload).map_err(malformed)?,
        }
    }
    Ok(())
}

/// Visits the `name` section of a nested module.
fn names<'a>(module: &'a [u8], visit: &mut Visit<'_, 'a>) -> Result<(), BinaryReaderError> {
    for payload in Parser::new(0).parse_all(module) {
        // What is wrong inside a module is found when it is compiled.
        let Ok(payload) = payload else { break };
        if let Payload::CustomSection(section) = &payload
            && section.name() == "name"
        {
            visit(payload)?;
        }
    }
    Ok(())
}

fn module_name_in(names: wasmparser::NameSectionReader<'_>) -> Option<String> {
    names.into_iter().find_map(|name| match name {
        Ok(Name::Module { name, .. }) => metadata(name),
        _ => None,
    })
}

fn component_name(names: wasmparser::ComponentNameSectionReader<'_>) -> Option<String> {
    names.into_iter().find_map(|name| match name {
        Ok(ComponentName::Component { name, .. }) => metadata(name),
        _ => None,
    })
}

/// Text from a file, as it may be shown.
fn metadata(text: &str) -> Option<String> {
    let line = one_line(text, METADATA_BYTES);
    (!line.is_empty()).then_some(line)
}
