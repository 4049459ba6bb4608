//! Names that Kubernetes takes.
//!
//! Owns: the check of `spec.deploymentName`, for clusters whose CRD does not validate it. Must not
//! know the rest of the Foo.

/// Longest name of a Deployment, in bytes (`DNS1123SubdomainMaxLength`).
pub const MAX_DEPLOYMENT_NAME_BYTES: usize = 253;

/// A DNS-1123 subdomain, as `IsDNS1123Subdomain` of `k8s.io/apimachinery/pkg/util/validation` has it:
/// labels are not limited to 63 bytes there.
pub(crate) const SUBDOMAIN_PATTERN: &str =
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// Whether a Deployment can be called `name`.
///
/// # Errors
/// One line that names the field, the value (cut) and the rule.
pub fn validate_deployment_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("spec.deploymentName is empty".to_owned());
    }
    if name.len() > MAX_DEPLOYMENT_NAME_BYTES {
        return Err(format!(
            "spec.deploymentName has {} bytes, at most {MAX_DEPLOYMENT_NAME_BYTES} are possible",
            name.len()
        ));
    }
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let label = |label: &str| {
        !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && label.bytes().all(inner)
    };
    if name.split('.').all(label) {
        return Ok(());
    }
    Err(format!(
        "spec.deploymentName {:?} is not a DNS-1123 subdomain: lower case letters, digits, '-' and '.', \
         each part between dots starting and ending with a letter or digit",
        contract::truncate(name, 100)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_34_names_that_kubernetes_takes_are_taken() {
        for name in
            ["a", "0", "web", "a-b", "a.b", "a.b-c.d", &"x".repeat(63), &"x".repeat(64), &"x".repeat(253)]
        {
            assert_eq!(validate_deployment_name(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn case_34_names_that_kubernetes_refuses_are_refused() {
        for name in ["", "A_b", "a/b", "-a", "a-", "a..b", ".a", "a.", "a.-b", "ä", "a b", &"x".repeat(254)]
        {
            assert!(validate_deployment_name(name).is_err(), "{name}");
        }
    }
}
