//! The export, and what the annotations mean.
#![allow(unsafe_code, reason = "the bindings of wit_bindgen pass pointers into linear memory")]

use bindings::samplecontroller::reconciler::{log, types};

mod bindings {
    #![allow(
        missing_docs,
        unreachable_pub,
        clippy::pedantic,
        reason = "generated; documented in the WIT file"
    )]

    wit_bindgen::generate!({
        path: "../../../wit",
        world: "reconciler",
        additional_derives: [serde::Deserialize],
    });
    super::bindings::export!(Scripted with_types_in self);
    use super::Scripted;
}

struct Scripted;

impl bindings::Guest for Scripted {
    fn reconcile(
        foo: types::Foo,
        deployment: Option<types::Deployment>,
    ) -> Result<Vec<types::Action>, types::ReconcileError> {
        std::panic::set_hook(Box::new(|info| log::log(log::Level::Error, &info.to_string())));
        let script = |name: &str| {
            let found =
                foo.metadata.annotations.iter().find(|(key, _)| key.strip_prefix("script/") == Some(name));
            found.map(|(_, value)| value.as_str())
        };
        if let Some(deed) = script("do")
            && let Some(actions) = act(deed)
        {
            return Ok(actions);
        }
        match script("error").and_then(|text| text.split_once(": ")) {
            Some(("retry", text)) => return Err(types::ReconcileError::Retry(text.to_owned())),
            Some((_, text)) => return Err(types::ReconcileError::Permanent(text.to_owned())),
            None => {}
        }
        if let Some(answer) = script("answer") {
            return serde_json::from_str(answer)
                .map_err(|error| types::ReconcileError::Permanent(format!("script/answer: {error}")));
        }
        Ok(plain(&foo, deployment.as_ref()))
    }
}

fn act(deed: &str) -> Option<Vec<types::Action>> {
    match deed {
        "panic" => panic!("scripted panic"),
        "loop" => loop {
            core::hint::spin_loop();
        },
        "recurse" => drop(recurse(0, false)),
        "recurse-and-log" => drop(recurse(0, true)),
        "grow" => {
            let mut all = Vec::new();
            loop {
                all.push(core::hint::black_box(vec![1_u8; 1 << 20]));
            }
        }
        "big" => return Some(vec![types::Action::ApplyDeployment("x".repeat(16 << 20))]),
        "many" => return Some(vec![types::Action::RequeueAfter(1); 1_000_000]),
        "log" => {
            for number in 0..100_000 {
                log::log(log::Level::Info, &format!("line {number} of a flood"));
            }
        }
        _ => {}
    }
    None
}

fn recurse(depth: u64, say: bool) -> u64 {
    if depth == u64::MAX {
        return 0;
    }
    let local = core::hint::black_box([depth; 32]);
    if say && depth.is_multiple_of(64) {
        log::log(log::Level::Debug, "deeper");
    }
    core::hint::black_box(recurse(depth + 1, say)) + local[0]
}

fn plain(foo: &types::Foo, deployment: Option<&types::Deployment>) -> Vec<types::Action> {
    let labels = serde_json::json!({"app": "nginx", "controller": foo.metadata.name});
    let mut spec = serde_json::json!({
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "nginx", "image": "nginx:latest"}]},
        },
    });
    if let Some(replicas) = foo.spec.replicas {
        spec["replicas"] = replicas.into();
    }
    vec![
        types::Action::ApplyDeployment(serde_json::json!({"spec": spec}).to_string()),
        types::Action::SetStatus(types::StatusUpdate {
            available_replicas: deployment.map_or(0, |deployment| deployment.status.available_replicas),
            conditions: Vec::new(),
        }),
    ]
}
