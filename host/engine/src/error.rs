//! What can go wrong, by cause: making the engine, loading a guest, calling it. Each message is one
//! line that names what was found, the reason and the remedy; guests' text in it is cleaned.

use contract::SUPPORTED_WORLDS;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;
use thiserror::Error;

/// The engine cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EngineError {
    /// A limit under which no guest can run, or which no machine can give.
    #[error("limit {name} is {value}, but must be between {least} and {most}")]
    Limit {
        /// Which one.
        name: &'static str,
        /// As given.
        value: u64,
        /// Smallest allowed value.
        least: u64,
        /// Largest allowed value.
        most: u64,
    },
    /// wasmtime refuses: this processor is not supported, or the address space is too small.
    #[error(
        "wasmtime cannot start: {0}; lower max_concurrent_calls or the limit on address space (ulimit -v)"
    )]
    Start(String),
}

/// A guest file cannot be loaded. Crosses from the compiling child as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum LoadError {
    /// Not a Wasm file at all.
    #[error(
        "not a WebAssembly file: found {found}; build the guest for a Wasm target and give the .wasm file"
    )]
    NotWasm {
        /// What the first bytes look like.
        found: String,
    },
    /// The file ends within a section.
    #[error(
        "the file is cut off: it has {size} bytes, and its last section needs more; \
         it may still be being written (write to another name, then rename)"
    )]
    Truncated {
        /// Bytes of the file.
        size: usize,
    },
    /// A Wasm header of another version.
    #[error(
        "WebAssembly of an unknown version: found {found}; this host takes modules (version 1) and \
         components (version 0xd)"
    )]
    WasmVersion {
        /// The version field of the header.
        found: String,
    },
    /// A core module that does not say which world it implements.
    #[error(
        "a core module without a component type: it says nothing of the world it implements; \
         build it with wit-bindgen for samplecontroller:reconciler (and without removing custom sections), \
         or give a component"
    )]
    NoComponentType,
    /// A guest for another version of the world.
    #[error(
        "the guest was built for samplecontroller:reconciler@{found}, this host takes {}; \
         rebuild the guest with the host's wit/, or use a host that takes {found}",
        supported.join(", ")
    )]
    WorldVersion {
        /// The version that the guest imports.
        found: String,
        /// The versions that this host takes.
        supported: Vec<String>,
    },
    /// Code compiled by wasmtime, which cannot be checked and would be trusted blindly.
    #[error(
        "a file of precompiled code, which is never trusted as a guest; give the .wasm file it was made from"
    )]
    Precompiled,
    /// No function `reconcile`.
    #[error(
        "the guest exports no function `reconcile` (it exports {}); build it for the world \
         samplecontroller:reconciler/reconciler@{}",
        list(found),
        SUPPORTED_WORLDS.join(" or ")
    )]
    MissingExport {
        /// What it exports instead.
        found: Vec<String>,
    },
    /// `reconcile` of another type, though the version is right.
    #[error(
        "the guest's `reconcile` has another type than the contract's: {reason}; rebuild it with the host's wit/"
    )]
    ExportType {
        /// Where the types differ.
        reason: String,
    },
    /// An import that the host does not satisfy.
    #[error("the guest imports `{name}`, which this host does not offer: {hint}")]
    UnsatisfiedImport {
        /// The imported interface or function.
        name: String,
        /// The remedy.
        hint: String,
    },
    /// Larger than `max_component_bytes`.
    #[error("the guest has {size} bytes, the limit is {limit}; strip it, or raise the limit")]
    TooLarge {
        /// Bytes of the file.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// Needs more instances, tables or memory than a slot has.
    #[error("the guest needs more than a call may have: {reason}; make it smaller, or raise the limit")]
    Resources {
        /// What is exceeded.
        reason: String,
    },
    /// A core module that cannot be turned into a component.
    #[error("the core module cannot be turned into a component: {reason}")]
    Encode {
        /// `wit-component`'s reason.
        reason: String,
    },
    /// Malformed, or of a Wasm feature that is off.
    #[error("not a valid component: {reason}")]
    Invalid {
        /// wasmtime's reason.
        reason: String,
    },
    /// The compiler failed for a reason that does not lie in the guest.
    #[error("the compiler failed: {reason}")]
    Compile {
        /// What happened.
        reason: String,
    },
    /// Compilation took too long.
    #[error("compiling took longer than {}; make the guest smaller, or raise the limit", seconds(limit))]
    CompileTimeout {
        /// The limit.
        limit: Duration,
    },
    /// Compilation took too much memory.
    #[error("compiling took more than {limit} bytes of memory; make the guest smaller, or raise the limit")]
    CompileMemory {
        /// The limit, in bytes.
        limit: u64,
    },
}

/// A call gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CallError {
    /// The guest said `retry`.
    #[error("the guest asks to retry: {0}")]
    Retry(String),
    /// The guest said `permanent`.
    #[error("the guest gave up: {0}")]
    Permanent(String),
    /// Out of fuel.
    #[error("the guest used up its fuel of {limit} units: it may loop, or needs a higher limit")]
    Fuel {
        /// The limit.
        limit: u64,
    },
    /// Ran too long.
    #[error("the guest ran longer than {}", seconds(limit))]
    Deadline {
        /// The limit.
        limit: Duration,
    },
    /// Wanted more memory than allowed, and failed for it.
    #[error("the guest reached the memory limit of {limit} bytes: it asked for {wanted}")]
    Memory {
        /// The limit, in bytes.
        limit: usize,
        /// Bytes it asked for.
        wanted: usize,
    },
    /// Recursion too deep.
    #[error("the guest overflowed its stack of {limit} bytes: its recursion has no end, or goes too deep")]
    StackOverflow {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The guest panicked, or did what Wasm forbids. The backtrace is in the log.
    #[error("the guest trapped: {message}")]
    Trap {
        /// The guest's last words, where it had any, or the trap's name.
        message: String,
    },
    /// The answer was refused before it was read.
    #[error("the guest's answer is larger than {limit} bytes")]
    ResultTooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// Too many actions.
    #[error("the guest's answer has {found} actions, the limit is {limit}")]
    TooManyActions {
        /// Actions in the answer.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// Not the guest's fault.
    #[error("the host failed to run the guest: {0}")]
    Host(String),
}

impl CallError {
    /// The cause, without the text.
    pub fn cause(&self) -> Cause {
        match self {
            Self::Retry(_) => Cause::Retry,
            Self::Permanent(_) => Cause::Permanent,
            Self::Fuel { .. } => Cause::Fuel,
            Self::Deadline { .. } => Cause::Deadline,
            Self::Memory { .. } => Cause::Memory,
            Self::StackOverflow { .. } => Cause::StackOverflow,
            Self::Trap { .. } => Cause::Trap,
            Self::ResultTooLarge { .. } | Self::TooManyActions { .. } => Cause::ResultTooLarge,
            Self::Host(_) => Cause::Host,
        }
    }
}

/// How a call ended: a closed set, for metric labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// An answer.
    Ok,
    /// The guest said `retry`.
    Retry,
    /// The guest said `permanent`.
    Permanent,
    /// Out of fuel.
    Fuel,
    /// Ran too long.
    Deadline,
    /// The memory limit.
    Memory,
    /// The stack limit.
    StackOverflow,
    /// A panic, or what Wasm forbids.
    Trap,
    /// An answer with too many bytes or actions.
    ResultTooLarge,
    /// Not the guest's fault.
    Host,
}

impl Cause {
    /// All of them, so that a metric can show each from the start.
    pub const ALL: [Self; 10] = [
        Self::Ok,
        Self::Retry,
        Self::Permanent,
        Self::Fuel,
        Self::Deadline,
        Self::Memory,
        Self::StackOverflow,
        Self::Trap,
        Self::ResultTooLarge,
        Self::Host,
    ];

    /// As a metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Retry => "retry",
            Self::Permanent => "permanent",
            Self::Fuel => "fuel",
            Self::Deadline => "deadline",
            Self::Memory => "memory",
            Self::StackOverflow => "stack_overflow",
            Self::Trap => "trap",
            Self::ResultTooLarge => "result_too_large",
            Self::Host => "host",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `duration` as people write it: "1 s", "0.25 s".
fn seconds(duration: &Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

/// Names from a guest's file, few enough for one line.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 8;
    if names.is_empty() {
        return "nothing".to_owned();
    }
    let mut text = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(" and ");
        text.push_str(&(names.len() - SHOWN).to_string());
        text.push_str(" more");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The one failure that no guest can provoke: an exhausted pool (the semaphore keeps calls from it) or a
    /// failing allocator.
    #[test]
    fn a_fault_of_the_host_says_that_it_is_not_the_guests() {
        let error = CallError::Host("no instance is free".to_owned());
        assert_eq!(error.to_string(), "the host failed to run the guest: no instance is free");
        assert_eq!(error.cause(), Cause::Host);
    }
}
