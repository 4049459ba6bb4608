//! The parent's side of the compiling child process.

use super::REASON_BYTES;
use super::compile::{Reply, Request};
use crate::{Limits, LoadError};
use contract::one_line;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::thread::available_parallelism;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

/// Longest reply line, in bytes. An error lists what a guest exports.
const REPLY_BYTES: u64 = 1 << 20;

/// The end of the child's standard error that is kept, in bytes.
const STDERR_BYTES: usize = 4 << 10;

/// What Rust prints when an allocation fails, before it aborts.
const OUT_OF_MEMORY: &str = "memory allocation of";

/// Compiles in a child process, which ends with this future.
pub(super) async fn compile(
    program: &Path,
    args: &[OsString],
    bytes: &[u8],
    limits: &Limits,
    compatibility: &str,
) -> Result<Vec<u8>, LoadError> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    // Neither settings nor secrets of the host are the compiler's business.
    command.env_clear();
    if let Some(path) = std::env::var_os("LD_LIBRARY_PATH") {
        command.env("LD_LIBRARY_PATH", path);
    }
    let child =
        command.spawn().map_err(|error| failed(&format!("{} cannot be run: {error}", program.display())))?;
    let work = converse(child, bytes, limits, compatibility);
    match tokio::time::timeout(limits.compile_time, work).await {
        Ok(result) => result,
        Err(_) => Err(LoadError::CompileTimeout { limit: limits.compile_time }),
    }
}

async fn converse(
    mut child: Child,
    bytes: &[u8],
    limits: &Limits,
    compatibility: &str,
) -> Result<Vec<u8>, LoadError> {
    let (Some(mut stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(failed("no pipes"));
    };
    let request = request(bytes, limits);
    let write = async {
        stdin.write_all(&request).await?;
        stdin.write_all(bytes).await?;
        stdin.shutdown().await?;
        drop(stdin);
        io::Result::Ok(())
    };
    let (written, reply, stderr) = tokio::join!(write, read(stdout, limits), tail(stderr));
    let status = child.wait().await.map_err(|error| failed(&error.to_string()))?;
    match reply {
        Ok(Some((Reply::Refused(error), _))) => Err(error),
        Ok(Some((Reply::Code { compatibility: theirs, .. }, code))) if status.success() => {
            if theirs == compatibility {
                Ok(code)
            } else {
                Err(failed("its code is for another version of this host; restart the host"))
            }
        }
        reply => Err(broken(status, &stderr, limits, reply.err().or(written.err()))),
    }
}

fn request(bytes: &[u8], limits: &Limits) -> Vec<u8> {
    let threads = available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let request = Request {
        size: bytes.len() as u64,
        memory_bytes: limits.compile_memory_bytes,
        // The parent ends the child by the wall clock; this is for a child whose parent is gone.
        cpu_seconds: limits.compile_time.as_secs().saturating_mul(threads).saturating_add(1),
    };
    let mut line = serde_json::to_vec(&request).unwrap_or_default();
    line.push(b'\n');
    line
}

/// The reply and the code, or nothing if the child said nothing.
async fn read(stdout: impl AsyncRead + Unpin, limits: &Limits) -> io::Result<Option<(Reply, Vec<u8>)>> {
    let mut stdout = BufReader::new(stdout);
    let mut line = String::new();
    (&mut stdout).take(REPLY_BYTES).read_line(&mut line).await?;
    if line.is_empty() {
        return Ok(None);
    }
    let reply: Reply = serde_json::from_str(&line)?;
    let mut code = Vec::new();
    if let Reply::Code { size, .. } = reply {
        if size > limits.compile_memory_bytes {
            return Err(io::Error::other(format!("it announced {size} bytes of code")));
        }
        stdout.take(size).read_to_end(&mut code).await?;
        if (code.len() as u64) < size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(Some((reply, code)))
}

/// The end of what the child printed. Reading it all keeps the child from blocking.
async fn tail(mut stderr: impl AsyncRead + Unpin) -> String {
    let mut kept = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        kept.extend_from_slice(buffer.get(..read).unwrap_or_default());
        let excess = kept.len().saturating_sub(STDERR_BYTES);
        kept.drain(..excess);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// Why a child ended without an answer.
fn broken(status: ExitStatus, stderr: &str, limits: &Limits, error: Option<io::Error>) -> LoadError {
    if stderr.contains(OUT_OF_MEMORY) {
        return LoadError::CompileMemory { limit: limits.compile_memory_bytes };
    }
    #[cfg(unix)]
    if std::os::unix::process::ExitStatusExt::signal(&status) == Some(rustix::process::Signal::XCPU.as_raw())
    {
        return LoadError::CompileTimeout { limit: limits.compile_time };
    }
    let error = error.map(|error| format!(", {error}")).unwrap_or_default();
    failed(&format!("{status}{error}: {stderr}"))
}

fn failed(reason: &str) -> LoadError {
    LoadError::Compile { reason: one_line(reason, REASON_BYTES) }
}
