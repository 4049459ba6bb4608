//! The spec of a Foo, read without trust: the installed CRD may validate nothing.
//!
//! Owns: which specs no guest is called for. Must not know the Deployment.

use crate::failure::{Failure, Reason};
use serde_json::Value;

/// Reads `spec` of the whole Foo.
///
/// # Errors
/// [`Reason::InvalidSpec`] for what Kubernetes would refuse in the Deployment for ever.
pub(crate) fn read(foo: &Value) -> Result<contract::FooSpec, Failure> {
    let invalid = |message: &str| Failure::new(Reason::InvalidSpec, message);
    let field = |name: &str| foo.get("spec").and_then(|spec| spec.get(name)).filter(|value| !value.is_null());
    let deployment_name = match field("deploymentName") {
        None => return Err(invalid("spec.deploymentName is missing")),
        Some(Value::String(name)) => {
            foo_api::validate_deployment_name(name).map_err(|message| invalid(&message))?;
            name.clone()
        }
        Some(other) => {
            return Err(invalid(&format!("spec.deploymentName is {}, not a string", kind_of(other))));
        }
    };
    let replicas = match field("replicas") {
        None => None,
        Some(value) => {
            let count =
                value.as_i64().and_then(|count| i32::try_from(count).ok()).filter(|count| *count >= 0);
            Some(count.ok_or_else(|| invalid("spec.replicas is not a number of replicas"))?)
        }
    };
    Ok(contract::FooSpec { deployment_name, replicas })
}

/// The JSON type of `value`, for messages.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
