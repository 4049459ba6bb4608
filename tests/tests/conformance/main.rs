//! devcluster against a real kube-apiserver: the same requests go to both, and the answers are compared field by
//! field. Each test is one subject; `README.md` beside this file has what was compared and what differs on purpose.

mod differ;
mod objects;
mod placeholders;
mod servers;
mod session;
mod table;

mod apply;
mod crud;
mod definitions;
mod deletion;
mod discovery;
mod dry_run;
mod events;
mod lists;
mod patches;
mod schema;
mod subresources;
mod tables;
mod terminating_namespaces;
mod watches;

use servers::Servers;
use session::Session;
use table::{Findings, Intended};

/// Runs a scenario against both servers and compares what they answered.
///
/// # Panics
/// When they differ other than `intended` says, or the committed table says something else.
fn conform(subject: &str, intended: &[Intended], scenario: &impl AsyncFn(&mut Session)) {
    let Some(servers) = Servers::get(&format!("conformance::{subject}")) else { return };
    let talk = || {
        servers.runtime.block_on(async {
            let [real, dev] = servers.clients();
            let namespace = format!("conformance-{}", subject.replace([',', ' '], "-").replace("--", "-"));
            let run = async |client| {
                let mut session = Session::new(client, &namespace).await;
                scenario(&mut session).await;
                session.exchanges
            };
            let (real, dev) = tokio::join!(run(real), run(dev));
            [real, dev]
        })
    };
    // Only namespaces need the controllers. The test is late by its name: it waits for all others that run.
    let [real, dev] = if subject == "terminating namespaces" {
        servers.with_controllers(talk)
    } else {
        servers.quietly(talk)
    };
    assert_eq!(
        real.iter().map(|e| &e.step).collect::<Vec<_>>(),
        dev.iter().map(|e| &e.step).collect::<Vec<_>>(),
        "the scenario went two ways"
    );
    let mut findings = Findings { requests: real.len(), ..Findings::default() };
    for (real, dev) in real.iter().zip(&dev) {
        let found = differ::of_answers(&real.answer, &dev.answer);
        findings.differences.extend(found.into_iter().map(|d| (real.step.clone(), d)));
    }
    let mut faults = Vec::new();
    for (step, found) in findings.unintended(intended) {
        let shown =
            |value: &Option<_>| value.as_ref().map_or("absent".to_owned(), serde_json::Value::to_string);
        faults.push(format!(
            "{step}: {}\n    real {}\n    dev  {}",
            found.at,
            shown(&found.real),
            shown(&found.dev)
        ));
    }
    for missing in findings.missing(intended) {
        faults.push(format!("{} no longer differs at {}: {}", missing.step, missing.at, missing.why));
    }
    if faults.is_empty() {
        faults.extend(table::hold(subject, &findings, intended).err());
    }
    assert!(faults.is_empty(), "{subject}: {} faults\n{}", faults.len(), faults.join("\n"));
}

/// Makes a test of a module's scenario and of its intended differences.
macro_rules! subjects {
    ($($module:ident: $subject:literal),* $(,)?) => {
        $(#[test]
        fn $module() {
            conform($subject, $module::INTENDED, &$module::scenario);
        })*

        #[test]
        fn the_table_has_every_subject_and_adds_up() {
            table::check_subjects(&[$($subject),*]);
        }
    };
}

subjects! {
    apply: "server-side apply",
    crud: "create, read, replace",
    definitions: "definitions",
    deletion: "deletion",
    discovery: "discovery",
    dry_run: "dry run and options",
    events: "events",
    lists: "lists",
    patches: "patches",
    schema: "schema of custom resources",
    subresources: "status and scale",
    tables: "tables and metadata",
    terminating_namespaces: "terminating namespaces",
    watches: "watches",
}
