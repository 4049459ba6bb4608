//! Ends a plane's programs and removes its directory when the process that started it is gone, however it
//! went.
//!
//! The programs share a process group. A shell outside of it waits on a pipe whose other end only this
//! process holds; the kernel closes that end when this process ends. The shell then kills the group. The
//! parent-death signal of Linux is no substitute: it is sent when the *thread* ends that started the program,
//! such as a test's.

use crate::Error;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const SHELL: &str = "/bin/sh";

/// In the group from the first moment, so that the group exists before and between the programs.
const ANCHOR: &str = "trap '' HUP INT TERM; read -r _";

/// Until the group is gone: a program that was being started in that moment joins it a little later. Not for
/// ever: where nothing reaps orphans, a group of the dead stays.
const KEEPER: &str = r#"
    trap '' HUP INT TERM
    read -r _
    round=0
    while [ $round -lt 50 ] && kill -s KILL -- "-$1" 2>/dev/null; do
        rm -rf -- "$2"
        sleep 0.1
        round=$((round + 1))
    done
    rm -rf -- "$2""#;

/// Dropped, the directory is removed; the programs should have ended before.
pub(crate) struct Keeper {
    directory: tempfile::TempDir,
    anchor: Child,
    shell: Child,
}

impl Keeper {
    /// Makes a directory that only this user may look into, and keeps it.
    pub(crate) fn new() -> Result<Self, Error> {
        let directory = tempfile::Builder::new()
            .prefix("controlplane-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir();
        let directory = directory.map_err(Error::file(&std::env::temp_dir()))?;
        let mut anchor =
            start(Command::new(SHELL).args(["-c", ANCHOR])).map_err(Error::file(Path::new(SHELL)))?;
        let group = anchor.id().to_string();
        let mut command = Command::new(SHELL);
        command.args(["-c", KEEPER, "keeper", &group]).arg(directory.path());
        match start(&mut command) {
            Ok(shell) => Ok(Self { directory, anchor, shell }),
            Err(error) => {
                end(&mut anchor);
                Err(Error::file(Path::new(SHELL))(error))
            }
        }
    }

    /// Made by [`Keeper::new`], removed with it.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The process group that is killed.
    pub(crate) fn group(&self) -> i32 {
        self.anchor.id() as i32
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Nothing is left for them to do.
        end(&mut self.shell);
        end(&mut self.anchor);
    }
}

/// In a process group of its own, with a pipe to read from. Only this process has the other end: Rust opens
/// it close-on-exec.
fn start(command: &mut Command) -> std::io::Result<Child> {
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

fn end(child: &mut Child) {
    child.kill().ok();
    child.wait().ok();
}
