//! What a plane is made of.

use crate::Program;

/// What a plane is made of. The default is etcd and kube-apiserver with the user `admin` and nothing else.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// kube-controller-manager, twice: Deployments, `ReplicaSets` and namespaces in one process, the garbage
    /// collector in another, so that each can be paused alone.
    pub controllers: bool,
    /// kube-scheduler, kwok and one Node with room for 100,000 pods: pods run. With [`Options::controllers`],
    /// `availableReplicas` is real.
    pub pods: bool,
    /// Admission plugins beyond those that are on by default, such as `OwnerReferencesPermissionEnforcement`.
    /// `ServiceAccount` and `TaintNodesByCondition` are refused: nothing in a plane does what they ask for.
    pub enable_admission: Vec<String>,
    /// Who may log in, beside `admin` (of the group `system:masters`), who always may. What they may do is up
    /// to RBAC objects that the test creates; the user's name is the subject.
    pub users: Vec<User>,
}

/// A user with a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name that RBAC sees.
    pub name: String,
    /// Groups beyond `system:authenticated`.
    pub groups: Vec<String>,
}

impl User {
    /// A user without groups.
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), groups: Vec::new() }
    }
}

/// A process that can be paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Process {
    /// Deployments, `ReplicaSets` and namespaces.
    ControllerManager,
    /// The garbage collector.
    GarbageCollector,
    /// The scheduler.
    Scheduler,
    /// The fake kubelet.
    Kwok,
}

impl Process {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ControllerManager => "kube-controller-manager",
            Self::GarbageCollector => "garbage-collector",
            Self::Scheduler => "kube-scheduler",
            Self::Kwok => "kwok",
        }
    }

    pub(crate) fn program(self) -> Program {
        match self {
            Self::ControllerManager | Self::GarbageCollector => Program::KubeControllerManager,
            Self::Scheduler => Program::KubeScheduler,
            Self::Kwok => Program::Kwok,
        }
    }

    /// What a plane with these options runs beside the API server.
    pub(crate) fn of(options: &Options) -> Vec<Self> {
        let controllers =
            [Self::ControllerManager, Self::GarbageCollector].into_iter().filter(|_| options.controllers);
        let pods = [Self::Scheduler, Self::Kwok].into_iter().filter(|_| options.pods);
        controllers.chain(pods).collect()
    }
}
