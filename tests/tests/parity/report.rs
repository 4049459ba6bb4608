//! Compares what was played, and holds the committed report, `tests/parity/README.md`, against it.

use crate::allowed::{ALLOWED, Shows, Under, entry, unseen};
use crate::diff::differences;
use crate::play::Played;
use crate::scenario::{cases, rounds};
use controlplane::Program;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use tests::objects::{at, condition};

/// Begins what was counted when the report was written: another run counts a little more or less.
const COUNTED: &str = "## Writes when this was written";

type Cell = BTreeMap<(&'static str, &'static str), BTreeSet<usize>>;

/// Asserts that nothing differs but what is allowed, that all of that does, and that the report says so.
pub(crate) fn check(go: &Played, host: &Played, ours: &Played) {
    let (upstreams, mut wrong) = compare(Under::Upstreams, go, host);
    let (under_ours, more) = compare(Under::Ours, go, ours);
    wrong.extend(more);
    let written = writes(go, host, ours);
    println!("{written}\nIt took {:?}, {:?} and {:?}.", go.time, host.time, ours.time);
    assert!(wrong.is_empty(), "the host and the Go original:\n{}", wrong.join("\n"));
    assert_eq!(go.idle.get("update foos/status"), Some(&go.served), "a status for each Foo: {:?}", go.idle);
    assert_eq!(
        (&host.idle, &ours.idle),
        (&BTreeMap::new(), &BTreeMap::new()),
        "a resync costs the host no write"
    );

    let text = text(&upstreams, &under_ours, ours);
    let path = tests::guests::root().join("tests/parity/README.md");
    if std::env::var("BLESS").is_ok_and(|bless| bless == "1") {
        std::fs::write(&path, format!("{text}\n{written}")).expect("written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let committed = committed.split(COUNTED).next().unwrap_or_default();
    assert!(
        committed.trim_end() == text.trim_end(),
        "tests/parity/README.md says something else: `make parity`"
    );
}

/// The entries of each step, and what is wrong: differences that no entry allows, and entries that are no more.
fn compare(under: Under, go: &Played, other: &Played) -> (Cell, Vec<String>) {
    let (mut cells, mut wrong, mut seen) = (Cell::new(), Vec::new(), Vec::new());
    for (key @ (case, step), snapshot) in &go.snapshots {
        let cell = cells.entry(*key).or_default();
        for difference in differences(snapshot, &other.snapshots[key]) {
            if let Some((number, field)) = entry(under, case, step, &difference) {
                seen.push((number, field));
                if ALLOWED[number].fields[field].shows == Shows::Always {
                    cell.insert(number + 1);
                }
            } else {
                let (path, go, host) = (&difference.path, &difference.go, &difference.host);
                wrong.push(format!("{under:?}, {case}, {step}: {path} is {go} by Go and {host} by the host"));
            }
        }
    }
    let unseen = unseen(under, &seen);
    wrong.extend(unseen.iter().map(|field| format!("{under:?}: this difference is no more: {field}")));
    (cells, wrong)
}

fn text(upstreams: &Cell, under_ours: &Cell, ours: &Played) -> String {
    let version = |which: Program| which.version().expect("go.mod has it");
    let mut text = format!(
        "# Side by side with the Go sample-controller

`make parity` makes this file; `make test` fails where it is no longer true.

Played on real control planes with pods: Kubernetes {}, etcd {}, kwok {}. On the one side
`k8s.io/sample-controller` {} as it is, under its own CRD with the status subresource; on the other this host with
its built-in guest, once under that CRD and once under this project's. The scenario has {} cases
(`tests/tests/parity/scenario.rs`), each in a namespace of its own. After each step, when all has come to rest, Foos,
Deployments (with owners, labels, annotations, field managers, status), Events, and the numbers of ReplicaSets and pods are
compared field by field, uids mapped, times and versions aside. A difference that is not in the table below fails the test,
and so does an entry that no longer occurs.

## The differences

| | row of the parity table | the Go original | the host | under |
|---|---|---|---|---|
",
        version(Program::KubeApiserver),
        version(Program::Etcd),
        version(Program::Kwok),
        version(Program::SampleController),
        cases().len(),
    );
    for (number, entry) in ALLOWED.iter().enumerate() {
        let under = match entry.under {
            [Under::Upstreams] => "upstream's CRD",
            [Under::Ours] => "our CRD",
            _ => "both",
        };
        let (row, go, host) = (entry.row, entry.go, entry.host);
        writeln!(text, "| {} | {row} | {go} | {host} | {under} |", number + 1).expect("a string");
    }
    text.push_str(
        "
## The scenario

Numbers are those of the differences above; all else is equal. How often an Event was told (1 and 2) is a matter of pace
and left out here; that the host never tells it more often is asserted. At *restart* the controller is stopped and started
again. The last column has the Foos' condition `Ready` under our CRD.

| case | step | upstream's CRD | our CRD | Ready |
|---|---|---|---|---|
",
    );
    let all = cases();
    for case in &all {
        let mut named = case.name;
        let titles = (0..rounds(&all)).map(|round| case.title(round));
        for step in titles.filter(|title| !title.is_empty()) {
            let snapshot = &ours.snapshots[&(case.name, step)];
            let list = |cell: &Cell| {
                let numbers: Vec<_> = cell[&(case.name, step)].iter().map(usize::to_string).collect();
                if numbers.is_empty() { "equal".into() } else { numbers.join(", ") }
            };
            let (upstreams, ours) = (list(upstreams), list(under_ours));
            writeln!(text, "| {named} | {step} | {upstreams} | {ours} | {} |", says(snapshot))
                .expect("a string");
            named = "";
        }
    }
    text.push_str(
        "
Over one resync in which nothing changes the Go original writes the status of each Foo that it serves, and an Event; the
host writes nothing. Both are asserted.

`takeover.rs` beside the scenario lets the host take over from the Go original, with pods running, and back, and forth
again; `rolling.rs` lets a person, an autoscaler and another field manager edit a Deployment.
",
    );
    text
}

/// The condition `Ready` of each Foo, of several with its name.
fn says(snapshot: &Value) -> String {
    let foos = at(snapshot, "/foos").as_object().cloned().unwrap_or_default();
    let says = |(name, foo): (&String, &Value)| {
        let ready = condition(foo, "Ready");
        let text = |field: &str| ready[field].as_str().unwrap_or_default().to_owned();
        let says = if ready["status"] == "True" { "True".into() } else { text("reason") };
        let says = if at(foo, "/being deleted").is_null() { says } else { format!("{says}, being deleted") };
        if foos.len() > 1 { format!("{name}: {says}") } else { says }
    };
    foos.iter().map(says).collect::<Vec<_>>().join("; ")
}

fn writes(go: &Played, host: &Played, ours: &Played) -> String {
    let all = [go, host, ours];
    let mut text = format!(
        "{COUNTED}

Pace decides how many there are; this part is not compared. Over the scenario, as the server took them, and over one
resync of {} Foos that are served:

| | the Go original | the host, upstream's CRD | the host, our CRD |
|---|---|---|---|
",
        go.served
    );
    let kinds: BTreeSet<_> = all.iter().flat_map(|played| played.writes.keys()).collect();
    let mut row = |title: &str, counts: [usize; 3]| {
        writeln!(text, "| {title} | {} | {} | {} |", counts[0], counts[1], counts[2]).expect("a string");
    };
    for kind in kinds {
        row(kind, all.map(|played| played.writes.get(kind).copied().unwrap_or_default()));
    }
    row("all", all.map(|played| played.writes.values().sum()));
    row("refused (4xx)", all.map(|played| played.refused));
    row("over one resync", all.map(|played| played.idle.values().sum()));
    text
}
