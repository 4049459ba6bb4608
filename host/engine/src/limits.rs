//! What a guest may cost, and how the engine is set up. Plain values; every default has its reason.

use crate::EngineError;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// How an [`Engine`](crate::Engine) is set up.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// What a load and a call may cost.
    pub limits: Limits,
    /// Where compiled code is kept between starts; none keeps none. Created with mode 0700; a directory
    /// that others can write to, or a link, is not used (a line in the log says why), because code in it
    /// is executed as it is.
    pub cache_dir: Option<PathBuf>,
    /// Where guests are compiled.
    pub compiler: Compiler,
    /// Start of the pseudo-random numbers that a guest gets from `wasi:random`: the same for each call,
    /// so that the same input gives the same answer. Default 0.
    pub seed: u64,
}

/// Where guests are compiled.
#[derive(Clone, Debug, Default)]
pub enum Compiler {
    /// In this process, on a blocking thread. Cannot be cancelled, its memory has no limit, and some
    /// hundreds of MB may stay resident after a large guest: for tests and one-shot commands.
    #[default]
    InProcess,
    /// In a child process that calls [`compile::run_compiler`](crate::compile::run_compiler) on its
    /// standard input and output. It gets no environment but the path to shared libraries.
    Command {
        /// The program, usually this one (`std::env::current_exe`).
        program: PathBuf,
        /// Its arguments, such as `compile`.
        args: Vec<OsString>,
    },
}

/// What a load and a call may cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Units of fuel a call, about one an instruction. Default 1,000,000,000: a call of the default guest
    /// burns 40 thousand, of a JavaScript or Go guest 2 million. Decides before the deadline does,
    /// because it is reproducible.
    pub fuel: u64,
    /// Time a call may run, instantiation included, counted in [`TICK`](crate::TICK)s while it runs. Waiting for a free
    /// slot does not count. Default 1 s, which is far above what the fuel allows and keeps a worker
    /// from being held. Twice this time on the wall clock (and at least 1 s more) is the last resort.
    pub deadline: Duration,
    /// Bytes of linear memory a call, rounded down to Wasm pages of 64 KiB. Default 64 MiB: Python, the
    /// largest of the tried languages, needs 40.
    pub memory_bytes: usize,
    /// Elements in a table. Default 100,000: JavaScript and Python guests have one of some 20,000.
    pub table_elements: usize,
    /// Bytes of native stack for the guest's frames. Default 512 KiB, wasmtime's own.
    pub stack_bytes: usize,
    /// Bytes of an answer, as the host keeps it. Default 1 MiB: a manifest of 256 KiB, eight Events and
    /// sixteen conditions fit many times. What is larger than this and than 4 MiB is refused before
    /// anything is allocated.
    pub result_bytes: usize,
    /// Actions in an answer. Default 32; the contract allows eleven that do not contradict each other.
    pub max_actions: usize,
    /// Bytes of a line in the log; longer ones are cut, and a message of more than 4 MiB (and
    /// `result_bytes`) is a trap. Default 4 KiB, as the contract says.
    pub log_line_bytes: usize,
    /// Bytes that a call may write to the log; lines beyond are counted and dropped. Default 64 KiB, as
    /// the contract says.
    pub log_call_bytes: usize,
    /// Bytes of a guest file. Default 64 MiB: Python guests have 18.
    pub max_component_bytes: usize,
    /// Time for one compilation. Default 120 s: Python takes 13 on two cores.
    pub compile_time: Duration,
    /// Bytes of memory for one compilation in a child process (Linux: `RLIMIT_DATA`). Default 2 GiB:
    /// Python takes 470 MB.
    pub compile_memory_bytes: u64,
    /// Calls at a time; more wait for a slot. Each slot reserves address space (4 GiB), no memory.
    /// Default 32: calls are bound by the processor, so that more would only wait in another place.
    pub max_concurrent_calls: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            fuel: 1_000_000_000,
            deadline: Duration::from_secs(1),
            memory_bytes: 64 << 20,
            table_elements: 100_000,
            stack_bytes: 512 << 10,
            result_bytes: 1 << 20,
            max_actions: 32,
            log_line_bytes: 4 << 10,
            log_call_bytes: 64 << 10,
            max_component_bytes: 64 << 20,
            compile_time: Duration::from_mins(2),
            compile_memory_bytes: 2 << 30,
            max_concurrent_calls: 32,
        }
    }
}

/// Linear memories are counted in pages of this size.
const WASM_PAGE: usize = 64 << 10;

impl Limits {
    /// Refuses what wasmtime would refuse or panic about, and limits under which no guest can run.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        let bounds: [(&'static str, u64, u64, u64); 11] = [
            ("fuel", self.fuel, 1, u64::MAX),
            ("deadline (ms)", self.deadline.as_millis() as u64, 1, 3_600_000),
            ("memory_bytes", self.memory_bytes as u64, WASM_PAGE as u64, 4 << 30),
            ("table_elements", self.table_elements as u64, 1, 10_000_000),
            ("stack_bytes", self.stack_bytes as u64, 16 << 10, 64 << 20),
            ("result_bytes", self.result_bytes as u64, 1 << 10, 1 << 30),
            ("max_actions", self.max_actions as u64, 1, 10_000),
            ("log_line_bytes", self.log_line_bytes as u64, 16, 1 << 20),
            ("max_component_bytes", self.max_component_bytes as u64, 8, 1 << 30),
            ("compile_memory_bytes", self.compile_memory_bytes, 64 << 20, 1 << 40),
            ("max_concurrent_calls", u64::from(self.max_concurrent_calls), 1, 1_000),
        ];
        for (name, value, least, most) in bounds {
            if !(least..=most).contains(&value) {
                return Err(EngineError::Limit { name, value, least, most });
            }
        }
        if self.compile_time < Duration::from_secs(1) {
            let value = self.compile_time.as_secs();
            return Err(EngineError::Limit { name: "compile_time (s)", value, least: 1, most: u64::MAX });
        }
        Ok(())
    }

    /// [`Self::memory_bytes`] in whole pages.
    pub(crate) fn memory_pages_bytes(&self) -> usize {
        self.memory_bytes / WASM_PAGE * WASM_PAGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_within_bounds() {
        Limits::default().check().unwrap();
    }

    #[test]
    fn a_limit_out_of_bounds_is_refused_by_name() {
        let limits = Limits { memory_bytes: 1_000, ..Limits::default() };
        assert_eq!(
            limits.check().unwrap_err().to_string(),
            "limit memory_bytes is 1000, but must be between 65536 and 4294967296"
        );
        let limits = Limits { deadline: Duration::ZERO, ..Limits::default() };
        assert!(limits.check().unwrap_err().to_string().contains("deadline"));
    }
}
