//! The names and words that users, tools and the Go original know this API by.
//!
//! Owns: group, kind, manager, reasons, messages. The words are those of `kubernetes/sample-controller`
//! (`controller.go`).

/// The API group.
pub const GROUP: &str = "samplecontroller.k8s.io";
/// The only version.
pub const VERSION: &str = "v1alpha1";
/// `apiVersion` of a Foo.
pub const API_VERSION: &str = "samplecontroller.k8s.io/v1alpha1";
/// The kind.
pub const KIND: &str = "Foo";
/// The resource.
pub const PLURAL: &str = "foos";
/// The resource in the singular.
pub const SINGULAR: &str = "foo";
/// The name of the CRD.
pub const CRD_NAME: &str = "foos.samplecontroller.k8s.io";

/// Field manager of every write, and source of every Event.
pub const FIELD_MANAGER: &str = "sample-controller";

/// Reason of the Normal Event after a change.
pub const REASON_SYNCED: &str = "Synced";
/// Message of the Normal Event after a change.
pub const MESSAGE_SYNCED: &str = "Foo synced successfully";
/// Reason when the Deployment is not controlled by the Foo.
pub const REASON_RESOURCE_EXISTS: &str = "ErrResourceExists";

/// Message when the Deployment called `name` is not controlled by the Foo.
pub fn message_resource_exists(name: &str) -> String {
    // Go writes it with %q; a DNS-1123 name has nothing to escape.
    format!("Resource \"{name}\" already exists and is not managed by Foo")
}

/// Condition: the last plan was carried out for this generation and the Deployment is available.
pub const CONDITION_READY: &str = "Ready";
/// Condition, present only while True: work is under way.
pub const CONDITION_RECONCILING: &str = "Reconciling";
/// Condition, present only while True: nothing will change without somebody's help.
pub const CONDITION_STALLED: &str = "Stalled";
/// The conditions that are the host's; a guest may set none of them.
pub const HOST_CONDITIONS: [&str; 3] = [CONDITION_READY, CONDITION_RECONCILING, CONDITION_STALLED];
