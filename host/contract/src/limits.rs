//! Limits that the contract states; the engine's (fuel, time, memory) are its own.

/// Largest manifest of `apply-deployment`, in bytes. etcd takes 1.5 MiB an object; a Deployment with
/// its status and managed fields must fit.
pub const MAX_MANIFEST_BYTES: usize = 256 * 1024;

/// Deepest nesting of a manifest; `serde_json` itself stops at 128.
pub const MAX_MANIFEST_DEPTH: usize = 64;

/// Most `record-event` actions in one answer.
pub const MAX_EVENTS: usize = 8;

/// Most conditions in one `set-status`.
pub const MAX_CONDITIONS: usize = 16;

/// Longest `reason` of an Event, in bytes (events.k8s.io/v1 validation).
pub const MAX_EVENT_REASON_BYTES: usize = 128;

/// Longest `message` of an Event, in bytes (core/v1 events: `NoteLengthLimit` of
/// `pkg/apis/core/validation/events.go`).
pub const MAX_EVENT_MESSAGE_BYTES: usize = 1024;

/// Longest `message` that the host writes into a condition, in bytes (the API takes 32,768).
pub const MAX_CONDITION_MESSAGE_BYTES: usize = 1024;

/// Longest `type` of a condition, in bytes (`metav1.Condition`).
pub const MAX_CONDITION_TYPE_BYTES: usize = 316;

/// Longest `reason` of a condition, in bytes (`metav1.Condition`).
pub const MAX_CONDITION_REASON_BYTES: usize = 1024;

/// Longest text of a `reconcile-error`, in bytes.
pub const MAX_ERROR_BYTES: usize = 1024;

/// Smallest and largest `requeue-after`, in seconds.
pub const REQUEUE_AFTER_SECONDS: std::ops::RangeInclusive<u32> = 1..=86_400;
