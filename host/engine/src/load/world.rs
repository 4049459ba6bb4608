//! Whether a component's imports and exports are those of the contract's world.

use crate::LoadError;
use crate::wasi;
use contract::{SUPPORTED_WORLDS, WORLD_PACKAGE};
use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

/// The export that makes a component a guest.
const EXPORT: &str = "reconcile";

/// Names of imports and exports, without types.
#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) imports: Vec<String>,
    /// Exported functions.
    pub(super) functions: Vec<String>,
    /// Exported instances, components and modules.
    pub(super) other_exports: Vec<String>,
}

impl World {
    /// Of a compiled component.
    pub(super) fn of_component(engine: &Engine, component: &Component) -> Self {
        let ty = component.component_type();
        let mut world = Self::default();
        for (name, item) in ty.imports(engine) {
            if !matches!(item.ty, ComponentItem::Type(_)) {
                world.imports.push(name.to_owned());
            }
        }
        for (name, item) in ty.exports(engine) {
            match item.ty {
                ComponentItem::ComponentFunc(_) => world.functions.push(name.to_owned()),
                ComponentItem::Type(_) => {}
                _ => world.other_exports.push(name.to_owned()),
            }
        }
        world
    }
}

/// In the order that says most: the version first, then the export, then other imports.
pub(super) fn check(world: &World) -> Result<(), LoadError> {
    for import in &world.imports {
        if let Some((WORLD_PACKAGE, _, version)) = split(import)
            && !SUPPORTED_WORLDS.contains(&version)
        {
            return Err(LoadError::WorldVersion {
                found: contract::one_line(version, 64),
                supported: SUPPORTED_WORLDS.iter().map(|&version| version.to_owned()).collect(),
            });
        }
    }
    if !world.functions.iter().any(|name| name == EXPORT) {
        let found = world.functions.iter().chain(&world.other_exports);
        return Err(LoadError::MissingExport {
            found: found.map(|name| contract::one_line(name, 128)).collect(),
        });
    }
    match world.imports.iter().find_map(|import| Some((import, hint(import)?))) {
        Some((import, hint)) => {
            Err(LoadError::UnsatisfiedImport { name: contract::one_line(import, 128), hint })
        }
        None => Ok(()),
    }
}

/// Why an import is not offered, and what to do; none if it is offered.
fn hint(import: &str) -> Option<String> {
    const ADVICE: &str = "a guest may import samplecontroller:reconciler/log and WASI 0.2 (cli, clocks, filesystem, \
                          io, random, sockets); whatever else it needs comes in as an argument";
    let Some((package, interface, version)) = split(import) else { return Some(ADVICE.to_owned()) };
    if package == WORLD_PACKAGE {
        return (!matches!(interface, "types" | "log")).then(|| ADVICE.to_owned());
    }
    let Some(name) = package.strip_prefix("wasi:") else { return Some(ADVICE.to_owned()) };
    if name == "http" {
        return Some(
            "guests have no network; build without it (componentize-js: disableFeatures: ['http', 'fetch-event'])"
                .to_owned(),
        );
    }
    if !wasi::PACKAGES.contains(&name) {
        return Some(ADVICE.to_owned());
    }
    let patch = version.strip_prefix("0.2.").and_then(|patch| patch.parse::<u64>().ok());
    match patch {
        Some(patch) if patch <= wasi::NEWEST_PATCH => None,
        _ => Some(format!(
            "this host offers WASI 0.2.0 to 0.2.{}; build with a toolchain for one of these (Rust: wasm32-wasip2)",
            wasi::NEWEST_PATCH
        )),
    }
}

/// `package/interface@version` in its parts.
fn split(import: &str) -> Option<(&str, &str, &str)> {
    let (path, version) = import.split_once('@')?;
    let (package, interface) = path.split_once('/')?;
    Some((package, interface, version))
}

/// An import that the linker refused though its name is offered: an interface that does not exist, or
/// one of another type. wasmtime's text names it between backticks.
pub(super) fn unsatisfied(reason: &str) -> LoadError {
    let name = reason.split('`').nth(1).unwrap_or("an import").to_owned();
    LoadError::UnsatisfiedImport { name, hint: format!("its type is not the one offered ({reason})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(imports: &[&str], functions: &[&str]) -> World {
        World {
            imports: imports.iter().map(|&name| name.to_owned()).collect(),
            functions: functions.iter().map(|&name| name.to_owned()).collect(),
            other_exports: Vec::new(),
        }
    }

    #[test]
    fn the_world_and_wasi_up_to_the_newest_known_patch_are_taken() {
        let ours = ["samplecontroller:reconciler/types@0.1.0", "samplecontroller:reconciler/log@0.1.0"];
        assert_eq!(check(&world(&ours, &["reconcile", "more"])), Ok(()));
        assert_eq!(check(&world(&["wasi:cli/exit@0.2.12", "wasi:io/poll@0.2.0"], &["reconcile"])), Ok(()));
    }

    #[test]
    fn other_imports_are_refused_by_name_with_the_remedy() {
        let text = |import: &str| check(&world(&[import], &["reconcile"])).unwrap_err().to_string();
        assert_eq!(
            text("wasi:http/types@0.2.3"),
            "the guest imports `wasi:http/types@0.2.3`, which this host does not offer: guests have no network; \
             build without it (componentize-js: disableFeatures: ['http', 'fetch-event'])"
        );
        assert!(text("wasi:cli/exit@0.2.13").contains("WASI 0.2.0 to 0.2.12"));
        assert!(text("wasi:cli/exit@0.3.0").contains("WASI 0.2.0 to 0.2.12"));
        assert!(text("wasi:keyvalue/store@0.2.0").contains("comes in as an argument"));
        assert!(text("samplecontroller:reconciler/metrics@0.1.0").contains("comes in as an argument"));
        assert!(text("frob").contains("`frob`"));
    }
}
