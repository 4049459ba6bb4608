//! Compilation: the work itself, and the child process that does it.
//!
//! The child reads one request line (JSON) and the file's bytes from its input, and writes one reply
//! line (JSON) and the code to its output. It limits itself before it looks at a byte of the guest.

use super::outline::Outline;
use super::{encode, reason, settings, world};
use crate::LoadError;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read, Write};

/// The parent's first line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    /// Bytes of the file that follow.
    pub(super) size: u64,
    /// Bytes of memory for the child.
    pub(super) memory_bytes: u64,
    /// Seconds of processor time for the child, over all its threads.
    pub(super) cpu_seconds: u64,
}

/// The child's first line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// The code follows.
    Code {
        /// Its bytes.
        size: u64,
        /// Which engines can run it.
        compatibility: String,
    },
    /// The guest is refused.
    Refused(LoadError),
}

/// Compiles the guest in `bytes`: what runs in the child, or on a blocking thread.
pub(super) fn compile(bytes: &[u8]) -> Result<Vec<u8>, LoadError> {
    let outline = Outline::of(bytes)?;
    let component = if outline.module {
        let component = encode::component(bytes, &outline)?;
        world::check(&Outline::of(&component)?.world)?;
        Cow::Owned(component)
    } else {
        // Before the long work, so that a wrong guest is refused at once.
        world::check(&outline.world)?;
        Cow::Borrowed(bytes)
    };
    let engine = settings::compiler().map_err(|error| LoadError::Compile { reason: reason(&error) })?;
    engine.precompile_component(&component).map_err(|error| LoadError::Invalid { reason: reason(&error) })
}

/// What the compiling child process does, and all it does: reads a request, limits itself (lowest
/// priority, memory, processor time, no core file, ends with its parent), compiles, replies.
///
/// `input` and `output` are the process's standard input and output. An error is one of the pipe, or
/// of somebody calling the subcommand by hand; a refused guest is a reply.
pub fn run_compiler(input: impl Read, mut output: impl Write) -> io::Result<()> {
    let mut input = BufReader::new(input);
    let mut line = String::new();
    input.by_ref().take(4 << 10).read_line(&mut line)?;
    let request: Request = serde_json::from_str(&line).map_err(|error| {
        let text = format!("not a request of foo-host's engine, which alone calls this: {error}");
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })?;
    limit(&request)?;
    let mut bytes = Vec::new();
    let reply = match input.take(request.size).read_to_end(&mut bytes) {
        Ok(size) if size as u64 == request.size => compile(&bytes),
        Ok(size) => Err(LoadError::Truncated { size }),
        Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
            Err(LoadError::CompileMemory { limit: request.memory_bytes })
        }
        Err(error) => return Err(error),
    };
    let (reply, code) = match reply {
        Ok(code) => {
            let engine = settings::compiler().map_err(|error| io::Error::other(reason(&error)))?;
            let compatibility = settings::compatibility(&engine);
            (Reply::Code { size: code.len() as u64, compatibility }, code)
        }
        Err(error) => (Reply::Refused(error), Vec::new()),
    };
    serde_json::to_writer(&mut output, &reply)?;
    output.write_all(b"\n")?;
    output.write_all(&code)?;
    output.flush()
}

/// Limits this process.
#[cfg(unix)]
fn limit(request: &Request) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, nice, setrlimit};
    let at_most = |most: u64| Rlimit { current: Some(most), maximum: Some(most) };
    // Data, not address space: threads and allocators reserve far more than they use.
    setrlimit(Resource::Data, at_most(request.memory_bytes))?;
    setrlimit(Resource::Cpu, at_most(request.cpu_seconds))?;
    setrlimit(Resource::Core, at_most(0))?;
    // Refused in some sandboxes; then it runs at the parent's priority.
    let _ = nice(10);
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    Ok(())
}

/// No limits where there is no such call; the parent still ends it in time.
#[cfg(not(unix))]
fn limit(_: &Request) -> io::Result<()> {
    Ok(())
}
