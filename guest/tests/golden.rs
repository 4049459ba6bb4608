//! The golden inputs of `tests/golden`, answered natively: a wrong policy is found before any Wasm is built.

use foo_reconciler::{Live, Snapshot, desired};
use serde_json::Value;
use std::path::Path;

#[test]
fn the_policy_gives_the_golden_answers() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden");
    let mut seen = 0;
    for entry in std::fs::read_dir(golden).unwrap() {
        let path = entry.unwrap().path();
        let case: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let (foo, deployment) = (&case["input"]["foo"], &case["input"]["deployment"]);
        let desired = desired(&Snapshot {
            foo_name: foo["metadata"]["name"].as_str().unwrap(),
            replicas: foo["spec"]["replicas"].as_i64().map(|n| i32::try_from(n).unwrap()),
            live: deployment.as_object().map(|deployment| Live {
                available_replicas: deployment["status"]["availableReplicas"].as_i64().unwrap() as i32,
                json: deployment["json"].as_str().unwrap(),
            }),
        });
        let answer = &case["answer"]["Ok"];
        assert_eq!(answer[0]["applyDeployment"], desired.manifest, "{}", path.display());
        assert_eq!(
            answer[1]["setStatus"]["availableReplicas"],
            desired.available_replicas,
            "{}",
            path.display()
        );
        assert_eq!(answer.as_array().unwrap().len(), 2, "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 12, "only {seen} golden inputs");
}
