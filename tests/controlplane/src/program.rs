//! The programs of a plane: their names, and where their sources come from.

use crate::Error;
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};

/// A program that a Go module under `modules/` pins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Program {
    /// The store.
    Etcd,
    /// The API server.
    KubeApiserver,
    /// The controllers of Deployments, `ReplicaSets`, namespaces, and the garbage collector.
    KubeControllerManager,
    /// Gives pods a node.
    KubeScheduler,
    /// A kubelet that only pretends: pods become Running.
    Kwok,
    /// The Go original of this project.
    SampleController,
}

impl Program {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::KubeScheduler,
        Self::Kwok,
        Self::SampleController,
    ];

    /// What the file is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::Kwok => "kwok",
            Self::SampleController => "sample-controller",
        }
    }

    /// The version that our go.mod asks for, with its `v`.
    pub fn version(self) -> Result<String, Error> {
        let path = self.module().join("go.mod");
        let text = std::fs::read_to_string(&path).map_err(Error::file(&path))?;
        let words = text.lines().map(|line| line.trim().trim_start_matches("require ").split_whitespace());
        let of_source = words.filter(|words| words.clone().next() == Some(self.source()));
        let version = of_source.filter_map(|mut words| words.nth(1)).find(|word| word.starts_with('v'));
        version.map(str::to_owned).ok_or_else(|| {
            let reason = format!("it requires no {}", self.source());
            Error::file(&path)(std::io::Error::new(std::io::ErrorKind::InvalidData, reason))
        })
    }

    /// The Go that our go.mod asks for, such as 1.26, for people.
    pub(crate) fn go(self) -> String {
        let text = std::fs::read_to_string(self.module().join("go.mod")).unwrap_or_default();
        let version = text.lines().find_map(|line| line.strip_prefix("go "));
        version.map_or_else(String::new, |version| version.trim().trim_end_matches(".0").to_owned())
    }

    /// Our Go module that pins it.
    pub(crate) fn module(self) -> PathBuf {
        let module = match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver | Self::KubeControllerManager | Self::KubeScheduler => "kubernetes",
            Self::Kwok => "kwok",
            Self::SampleController => "sample-controller",
        };
        Path::new(env!("CARGO_MANIFEST_DIR")).join("modules").join(module)
    }

    /// The Go module that it is part of.
    pub(crate) fn source(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::KubeApiserver | Self::KubeControllerManager | Self::KubeScheduler => "k8s.io/kubernetes",
            Self::Kwok => "sigs.k8s.io/kwok",
            Self::SampleController => "k8s.io/sample-controller",
        }
    }

    /// The package of its `main`.
    pub(crate) fn package(self) -> String {
        match self {
            Self::Etcd | Self::SampleController => self.source().to_owned(),
            Self::KubeApiserver | Self::KubeControllerManager | Self::KubeScheduler | Self::Kwok => {
                format!("{}/cmd/{}", self.source(), self.name())
            }
        }
    }

    /// Flags of the linker. Without a version clients take the server for v0.0.0.
    pub(crate) fn ldflags(self, version: &str) -> String {
        let set = |variable: &str, value: &str| format!(" -X {variable}={value}");
        let versions = match self {
            Self::KubeApiserver | Self::KubeControllerManager | Self::KubeScheduler => {
                let mut parts = version.trim_start_matches('v').split('.');
                let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
                let base = "k8s.io/component-base/version";
                set(&format!("{base}.gitVersion"), version)
                    + &set(&format!("{base}.gitMajor"), major)
                    + &set(&format!("{base}.gitMinor"), minor)
                    + &set("k8s.io/client-go/pkg/version.gitVersion", version)
            }
            Self::Kwok => set("sigs.k8s.io/kwok/pkg/consts.Version", version),
            Self::Etcd | Self::SampleController => String::new(),
        };
        format!("-s -w{versions}")
    }

    /// What a build depends on, but for Go itself: a newer Go is no reason for minutes of building, and a
    /// machine without Go must find what is there.
    pub(crate) fn key(self, version: &str) -> Result<String, Error> {
        let mut hash = Sha256::new();
        for file in ["go.mod", "go.sum"] {
            let path = self.module().join(file);
            hash.update(std::fs::read(&path).map_err(Error::file(&path))?);
        }
        for text in [&self.package(), &self.ldflags(version), std::env::consts::OS, std::env::consts::ARCH] {
            hash.update(text);
            hash.update([0]);
        }
        let hash = hash.finalize().iter().take(6).fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
        Ok(format!("{hash:012x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_has_a_version_and_flags_that_carry_it() {
        for which in Program::ALL {
            let version = which.version().expect("go.mod requires it");
            assert!(version.starts_with('v') && version.contains('.'), "{which:?} {version}");
            assert!(which.go().starts_with("1."), "{which:?} {}", which.go());
        }
        let flags = Program::KubeApiserver.ldflags("v1.36.3");
        for part in ["version.gitVersion=v1.36.3 ", "version.gitMajor=1 ", "version.gitMinor=36 "] {
            assert!(flags.contains(part), "{flags} lacks {part}");
        }
    }

    #[test]
    fn the_key_changes_with_the_program_and_its_version() {
        let key = |which: Program, version| which.key(version).expect("the module is there");
        assert_eq!(key(Program::Etcd, "v3.6.16"), key(Program::Etcd, "v3.6.16"));
        assert_ne!(key(Program::KubeApiserver, "v1.36.3"), key(Program::KubeScheduler, "v1.36.3"));
        assert_ne!(key(Program::KubeApiserver, "v1.36.3"), key(Program::KubeApiserver, "v1.36.4"));
    }
}
