//! Builds programs from Go modules into a cache outside the checkout. One process at a time, and an
//! interrupted build leaves nothing that looks like a program.

use crate::{Error, Program};
use std::collections::VecDeque;
use std::fs::{File, TryLockError};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time between two lines of progress.
const TELL: Duration = Duration::from_secs(20);

/// The time between two looks at a process or a lock.
const POLL: Duration = Duration::from_millis(50);

/// The file with kwok's stages, beside kwok.
pub(crate) const STAGES: &str = "stages.yaml";

/// What `go` and the cache are.
pub(crate) struct Builder {
    go: PathBuf,
    cache: PathBuf,
}

/// What `go` said so far: the last lines, and how many modules it fetched.
#[derive(Default)]
struct Said {
    lines: VecDeque<String>,
    fetched: usize,
}

impl Builder {
    /// The Go on PATH and the user's cache.
    pub(crate) fn new() -> Result<Self, Error> {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
        let cache = cache.ok_or(Error::NoCache)?;
        Ok(Self { go: "go".into(), cache: cache.join("foo-host/controlplane") })
    }

    /// Where the cache has, or would have, a program.
    pub(crate) fn path(&self, which: Program) -> PathBuf {
        // Without go.mod there is no such file either; building says why.
        self.directory(which).map(|directory| directory.join(which.name())).unwrap_or_default()
    }

    fn directory(&self, which: Program) -> Result<PathBuf, Error> {
        let version = which.version()?;
        Ok(self.cache.join(format!("{}-{version}-{}", which.name(), which.key(&version)?)))
    }

    /// A program from the cache, built first if it is not there. `turn`, which may be empty, is added to what
    /// is said about the build.
    pub(crate) fn program(&self, which: Program, turn: &str) -> Result<PathBuf, Error> {
        let directory = self.directory(which)?;
        let path = directory.join(which.name());
        if path.is_file() {
            return Ok(path);
        }
        self.check_go(&[which])?;
        let lock = self.lock()?;
        // Whoever held the lock may have built it.
        if !path.is_file() {
            std::fs::create_dir_all(&directory).map_err(Error::file(&directory))?;
            let partial = directory.join("partial");
            // What an interrupted build left: go writes over nothing that does not look like a program.
            std::fs::remove_file(&partial).ok();
            self.build(which, turn, &partial, &lock)?;
            std::fs::rename(&partial, &path).map_err(Error::file(&path))?;
        }
        Ok(path)
    }

    /// Where the cache has, or would have, kwok's stages.
    pub(crate) fn stages_path(&self) -> PathBuf {
        self.path(Program::Kwok).with_file_name(STAGES)
    }

    /// An error unless there is a Go that can fetch kwok's stages.
    pub(crate) fn check_stages(&self) -> Result<(), Error> {
        self.go_works(Program::Kwok, "fetch it with").map_err(Error::no_stages)
    }

    /// The stages that tell kwok what to do with nodes and pods, in one file: upstream's own, kept beside the
    /// program so that a plane starts without Go.
    pub(crate) fn stages(&self) -> Result<PathBuf, Error> {
        let directory = self.directory(Program::Kwok)?;
        let path = directory.join(STAGES);
        if path.is_file() {
            return Ok(path);
        }
        self.check_stages()?;
        let stages = self.module_dir(Program::Kwok)?.join("kustomize/stage");
        let mut text = String::new();
        for stage in [
            "node/fast/node-initialize",
            "pod/fast/pod-ready",
            "pod/fast/pod-complete",
            "pod/fast/pod-delete",
        ] {
            let file = stages.join(stage).with_extension("yaml");
            text += "---\n";
            text += &std::fs::read_to_string(&file).map_err(Error::file(&file))?;
        }
        std::fs::create_dir_all(&directory).map_err(Error::file(&directory))?;
        let write = || {
            tempfile::NamedTempFile::new_in(&directory).and_then(|mut file| {
                file.write_all(text.as_bytes())?;
                Ok(file.persist(&path)?)
            })
        };
        write().map_err(Error::file(&path))?;
        Ok(path)
    }

    /// Where `go` has unpacked the module that a program comes from.
    pub(crate) fn module_dir(&self, which: Program) -> Result<PathBuf, Error> {
        let no_sources = |reason| Error::no_sources(which, reason);
        self.go_works(which, "unpack them with").map_err(no_sources)?;
        let output = self.go(which).args(["mod", "download", "-json", which.source()]).output();
        let output = output.map_err(|error| no_sources(not_started(&error, "unpack them with")))?;
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let stderr = String::from_utf8_lossy(&output.stderr);
        let failed = || Error::build(which, answer["Error"].as_str().unwrap_or(&stderr));
        answer["Dir"].as_str().map(PathBuf::from).ok_or_else(failed)
    }

    /// An error that names all that is missing, unless there is a Go that can build it.
    pub(crate) fn check_go(&self, missing: &[Program]) -> Result<(), Error> {
        let purpose = if missing.len() == 1 { "build it with" } else { "build them with" };
        let check = |which: &Program| self.go_works(*which, purpose);
        missing.iter().try_for_each(check).map_err(|reason| Error::no_go(missing, reason))
    }

    /// Why there is no Go that takes our go.mod, if so.
    fn go_works(&self, which: Program, purpose: &str) -> Result<(), String> {
        let output = self.go(which).args(["list", "-m"]).output();
        let output = output.map_err(|error| not_started(&error, purpose))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().last().unwrap_or("`go list -m` failed").trim_start_matches("go: ");
        Err(format!("there is no go to {purpose}: {said}"))
    }

    /// `go`, in our module that pins the program.
    fn go(&self, which: Program) -> Command {
        let mut go = Command::new(&self.go);
        // A workspace around the checkout would replace what go.mod pins.
        go.current_dir(which.module()).env("CGO_ENABLED", "0").env("GOWORK", "off").stdin(Stdio::null());
        go
    }

    /// The cache's lock, which is released when its last handle is closed.
    fn lock(&self) -> Result<File, Error> {
        std::fs::create_dir_all(&self.cache).map_err(Error::file(&self.cache))?;
        let path = self.cache.join("lock");
        let file = File::options().create(true).append(true).open(&path).map_err(Error::file(&path))?;
        let started = Instant::now();
        let mut told = None;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) => return Err(Error::file(&path)(error)),
                Err(TryLockError::WouldBlock) => {}
            }
            if told.is_none_or(|told: Instant| told.elapsed() >= TELL) {
                told = Some(Instant::now());
                say(&format!("another process builds; waiting for it: {} s", started.elapsed().as_secs()));
            }
            std::thread::sleep(POLL);
        }
    }

    fn build(&self, which: Program, turn: &str, to: &Path, lock: &File) -> Result<(), Error> {
        let no_go = |error| Error::no_go(&[which], not_started(&error, "build it with"));
        let started = Instant::now();
        let version = which.version()?;
        let what = format!("{} {version}", which.name());
        say(&format!("building {what}{turn} from Go modules into {}", self.cache.display()));
        let mut go = self.go(which);
        go.args(["build", "-mod=readonly", "-trimpath", "-ldflags", &which.ldflags(&version), "-o"]).arg(to);
        // The compiler holds the lock as well: if this process is killed, the next one waits until the one
        // that still writes has ended.
        let lock = lock.try_clone().map_err(Error::file(to))?;
        go.arg(which.package()).stdin(lock).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = go.spawn().map_err(no_go)?;

        let said = Arc::new(Mutex::new(Said::default()));
        let stderr = child.stderr.take().expect("it is piped");
        let reader = std::thread::spawn({
            let said = said.clone();
            move || BufReader::new(stderr).lines().map_while(Result::ok).for_each(|line| add(&said, line))
        });
        let mut told = started;
        let status = loop {
            if let Some(status) = child.try_wait().map_err(no_go)? {
                break status;
            }
            if told.elapsed() >= TELL {
                told = Instant::now();
                let fetched = said.lock().unwrap_or_else(PoisonError::into_inner).fetched;
                let seconds = started.elapsed().as_secs();
                let fetched =
                    if fetched == 0 { String::new() } else { format!(", {fetched} modules fetched") };
                say(&format!("building {what}{turn}: {seconds} s{fetched}"));
            }
            std::thread::sleep(POLL);
        };
        // It ends when the last of go's children has closed its stderr.
        reader.join().ok();
        if !status.success() {
            let lines =
                Vec::from(std::mem::take(&mut said.lock().unwrap_or_else(PoisonError::into_inner).lines));
            return Err(Error::build(which, &format!("{status}: {}", lines.join("\n"))));
        }
        say(&format!("built {what}{turn} in {} s", started.elapsed().as_secs()));
        Ok(())
    }
}

/// Why `go` did not run.
fn not_started(error: &std::io::Error, purpose: &str) -> String {
    if error.kind() == std::io::ErrorKind::NotFound {
        return format!("there is no go on the PATH to {purpose}");
    }
    format!("the go to {purpose} cannot be started: {error}")
}

/// Keeps what matters of a line that `go` wrote.
fn add(said: &Mutex<Said>, line: String) {
    let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
    if line.starts_with("go: downloading") {
        said.fetched += 1;
        return;
    }
    said.lines.push_back(line);
    if said.lines.len() > 20 {
        said.lines.pop_front();
    }
}

/// A line of progress. Not `eprintln!`, which a test's harness keeps to itself until the test fails.
pub(crate) fn say(text: &str) {
    writeln!(std::io::stderr(), "controlplane: {text}").ok();
}

#[cfg(test)]
mod tests;
