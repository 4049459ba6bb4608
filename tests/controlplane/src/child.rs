//! One running program of a plane and its log.

use crate::Error;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The wait for a program to become ready. They take seconds; a busy machine may take many times that.
const PATIENCE: Duration = Duration::from_mins(3);

/// What starts a program, and starts it anew.
#[derive(Clone)]
pub(crate) struct Spec {
    /// What it is called in errors; its log is `NAME.log`.
    pub(crate) name: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) arguments: Vec<String>,
}

/// A running program. Dropped, it is killed.
pub(crate) struct Child {
    name: &'static str,
    process: std::process::Child,
    log: PathBuf,
}

impl Child {
    /// Starts it in the keeper's process group. The log is continued.
    pub(crate) fn start(spec: &Spec, logs: &Path, group: i32) -> Result<Self, Error> {
        let log = logs.join(spec.name).with_extension("log");
        let file = File::options().create(true).append(true).open(&log).map_err(Error::file(&log))?;
        let stdout = file.try_clone().map_err(Error::file(&log))?;
        let process = Command::new(&spec.path)
            .args(&spec.arguments)
            // Proxies, ETCD_… and configuration of the user's home are not for the plane.
            .env_clear()
            .env("HOME", logs)
            .current_dir(logs)
            .process_group(group)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(file)
            .spawn()
            .map_err(Error::file(&spec.path))?;
        Ok(Self { name: spec.name, process, log })
    }

    /// Asks until the answer is good, the program ends, or patience does.
    pub(crate) fn wait<T>(&mut self, mut ask: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
        let started = Instant::now();
        loop {
            let answer = ask();
            // Looked at after the answer: it may have come from another program on a port that this one did
            // not get.
            self.check()?;
            match answer {
                Ok(value) => return Ok(value),
                Err(error) if started.elapsed() > PATIENCE => {
                    let (seconds, reason) = (PATIENCE.as_secs(), error.to_string());
                    return Err(Error::NotReady {
                        program: self.name,
                        seconds,
                        reason,
                        log: self.last_lines(),
                    });
                }
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// An error if it has ended.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        let what = match self.process.try_wait() {
            Ok(None) => return Ok(()),
            Ok(Some(status)) => format!("ended: {status}"),
            Err(error) => format!("cannot be waited for: {error}"),
        };
        Err(Error::Ended { program: self.name, what, log: self.last_lines() })
    }

    pub(crate) fn pause(&self) -> Result<(), Error> {
        self.signal(Signal::STOP)
    }

    pub(crate) fn resume(&self) -> Result<(), Error> {
        self.signal(Signal::CONT)
    }

    pub(crate) fn kill(&mut self) {
        // SIGKILL: nothing of a plane is kept, and a crash is what an outage looks like.
        self.process.kill().ok();
        self.process.wait().ok();
    }

    /// It has not been waited for, so that its id is still its own.
    fn signal(&self, signal: Signal) -> Result<(), Error> {
        let sent = kill_process(Pid::from_child(&self.process), signal);
        sent.map_err(|error| Error::Ended {
            program: self.name,
            what: error.to_string(),
            log: self.last_lines(),
        })
    }

    fn last_lines(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}
