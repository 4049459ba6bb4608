//! Compiled code on disk. Code in it is executed as it is, so that the directory must be ours alone.
//!
//! An entry is one file: the code, then the sha256 of the code. It is written under another name,
//! synced and renamed, never changed after that (it is mapped). Two processes may share a directory:
//! both write the same entry, and the last one wins.

use super::hex;
use sha2::{Digest, Sha256};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Entries kept, the last used ones: a host runs few guests, and an author's loop makes many.
const MAX_ENTRIES: usize = 16;

/// A temporary file older than this was left behind by a process that is gone.
const STALE: Duration = Duration::from_hours(1);

const SUFFIX: &str = "cwasm";
const TEMPORARY: &str = "tmp";
const DIGEST_BYTES: usize = 32;

/// A directory of compiled code.
#[derive(Debug)]
pub(crate) struct Cache {
    dir: PathBuf,
}

impl Cache {
    /// Opens the directory, making it where there is none. None if it must not be used: a line in the
    /// log says why, and guests are compiled at each start.
    pub(crate) fn open(dir: &Path) -> Option<Self> {
        match prepare(dir) {
            Ok(()) => {
                let cache = Self { dir: dir.to_owned() };
                cache.tidy();
                Some(cache)
            }
            Err(error) => {
                tracing::warn!(dir = %dir.display(), %error, "cache directory not used; guests are compiled at each start");
                None
            }
        }
    }

    /// The file with intact code of this guest for this engine.
    pub(crate) fn find(&self, digest: &str, compatibility: &str) -> Option<PathBuf> {
        let path = self.path(digest, compatibility);
        match intact(&path) {
            Ok(file) => {
                // For `tidy`; a file system that refuses costs at most a compilation.
                let _ = file.set_modified(SystemTime::now());
                Some(path)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                Self::reject(&path, &error.to_string());
                None
            }
        }
    }

    /// Takes an entry out that cannot be used.
    pub(crate) fn reject(path: &Path, reason: &str) {
        tracing::warn!(file = %path.display(), reason, "cache entry not used, compiling again");
        let _ = fs::remove_file(path);
    }

    /// Keeps `code` and returns its file, or none if it cannot be kept (a line in the log says why).
    pub(crate) fn store(&self, digest: &str, compatibility: &str, code: &[u8]) -> Option<PathBuf> {
        let path = self.path(digest, compatibility);
        match self.write(&path, code) {
            Ok(()) => {
                self.tidy();
                Some(path)
            }
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "compiled code not kept");
                None
            }
        }
    }

    fn path(&self, digest: &str, compatibility: &str) -> PathBuf {
        self.dir.join(format!("{digest}-{compatibility}.{SUFFIX}"))
    }

    fn write(&self, path: &Path, code: &[u8]) -> io::Result<()> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let unique = COUNT.fetch_add(1, Ordering::Relaxed);
        let temporary = self.dir.join(format!("{}-{unique}.{TEMPORARY}", std::process::id()));
        let written = write_new(&temporary, code).and_then(|()| fs::rename(&temporary, path));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// Removes what is beyond [`MAX_ENTRIES`], and what was left behind. Errors do not matter here.
    fn tidy(&self) {
        let Ok(files) = fs::read_dir(&self.dir) else { return };
        let now = SystemTime::now();
        let mut entries = Vec::new();
        for file in files.flatten() {
            let path = file.path();
            let Ok(modified) = file.metadata().and_then(|metadata| metadata.modified()) else { continue };
            let extension = path.extension().and_then(|extension| extension.to_str());
            if extension == Some(SUFFIX) {
                entries.push((modified, path));
            } else if extension == Some(TEMPORARY)
                && now.duration_since(modified).is_ok_and(|age| age > STALE)
            {
                let _ = fs::remove_file(path);
            }
        }
        entries.sort();
        let excess = entries.len().saturating_sub(MAX_ENTRIES);
        for (_, path) in entries.into_iter().take(excess) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Makes the directory and checks that nobody else can put code into it.
#[cfg(unix)]
fn prepare(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    let refuse = |text: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let metadata = fs::symlink_metadata(dir)?;
    if !metadata.is_dir() {
        return refuse("it is a link; give the directory itself");
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return refuse("it belongs to another user; give one of your own");
    }
    if metadata.mode() & 0o077 != 0 {
        return refuse("others may enter it; make its mode 0700");
    }
    Ok(())
}

/// Without Unix's modes nothing can be checked, so that nothing is trusted.
#[cfg(not(unix))]
fn prepare(_: &Path) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "who may write to it cannot be checked on this system"))
}

/// Writes `code` and its digest to a file that must not exist yet.
fn write_new(path: &Path, code: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(code)?;
    file.write_all(&Sha256::digest(code))?;
    // A rename can outlive a crash that the data does not.
    file.sync_all()
}

/// Opens an entry and compares its digest.
fn intact(path: &Path) -> io::Result<File> {
    let mut file = File::open(path)?;
    let corrupt = || io::Error::new(io::ErrorKind::InvalidData, "its digest does not match");
    let mut left = file.metadata()?.len().checked_sub(DIGEST_BYTES as u64).ok_or_else(corrupt)?;
    let mut sha = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    while left > 0 {
        let want = left.min(buffer.len() as u64) as usize;
        let chunk = buffer.get_mut(..want).unwrap_or_default();
        file.read_exact(chunk)?;
        sha.update(&*chunk);
        left -= want as u64;
    }
    let mut stored = [0; DIGEST_BYTES];
    file.read_exact(&mut stored)?;
    if hex(&stored) == hex(&sha.finalize()) { Ok(file) } else { Err(corrupt()) }
}
