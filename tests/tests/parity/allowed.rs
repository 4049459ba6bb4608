//! The differences that are on purpose: each belongs to a row of the parity table (`tests/README.md` has the rows),
//! and names the fields in which it shows.

use crate::diff::Difference;

/// Under which CRD the host is compared; the Go original always runs under upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Under {
    Upstreams,
    Ours,
}

/// A difference on purpose. Its number in the report is its place in [`ALLOWED`], from 1.
pub(crate) struct Allowed {
    /// The row of the parity table.
    pub(crate) row: &'static str,
    /// In which comparisons it shows, in each.
    pub(crate) under: &'static [Under],
    /// What the Go original does.
    pub(crate) go: &'static str,
    /// What the host does.
    pub(crate) host: &'static str,
    pub(crate) fields: &'static [Field],
}

/// Where a difference shows.
pub(crate) struct Field {
    /// `CASE` or `CASE/STEP`; `*` is any case.
    at: &'static str,
    /// The path of [`Difference`]; `*` is any segment.
    path: &'static str,
    /// The values; `*` is any.
    go: &'static str,
    host: &'static str,
    pub(crate) shows: Shows,
}

/// When a difference shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shows {
    /// Always.
    Always,
    /// In one step or another: it is a matter of pace. The report's table of steps leaves it out.
    Somewhere,
    /// Or not: it depends on whether the Deployment controller saw what was there for a moment.
    Perhaps,
}

const fn field(at: &'static str, path: &'static str, go: &'static str, host: &'static str) -> Field {
    Field { at, path, go, host, shows: Shows::Always }
}

const fn less_often(path: &'static str) -> Field {
    Field { at: "*", path, go: "more often", host: "less often", shows: Shows::Somewhere }
}

const fn perhaps(at: &'static str, path: &'static str) -> Field {
    Field { at, path, go: "*", host: "*", shows: Shows::Perhaps }
}

/// Both comparisons.
const BOTH: &[Under] = &[Under::Upstreams, Under::Ours];

const WRITES_BY: &str = "deployments/*/sample-controller writes by";

/// All of them.
pub(crate) const ALLOWED: &[Allowed] = &[
    Allowed {
        row: "sync 7",
        under: BOTH,
        go: "an Event `Synced` at each run",
        host: "an Event `Synced` when a sync changed something",
        fields: &[less_often("events/*/Normal Synced/count")],
    },
    Allowed {
        row: "sync 4",
        under: BOTH,
        go: "an Event `ErrResourceExists` at each attempt",
        host: "one for each time that it begins",
        fields: &[less_often("events/*/Warning ErrResourceExists/count")],
    },
    Allowed {
        row: "sync 4",
        under: &[Under::Ours],
        go: "no status while somebody else's Deployment is in the way",
        host: "a condition that says so",
        fields: &[
            field("foreign-deployment/create", "foos/a/status", "absent", "there"),
            field(
                "foreign-deployment/create",
                "foos/a/sample-controller writes by",
                "empty",
                "Update status",
            ),
            field("two-foos-of-one-deployment/create", "foos/b/status", "absent", "there"),
            field(
                "two-foos-of-one-deployment/create",
                "foos/b/sample-controller writes by",
                "empty",
                "Update status",
            ),
        ],
    },
    Allowed {
        row: "sync 5",
        under: BOTH,
        go: "changes a Deployment by `Update`",
        host: "changes a Deployment by server-side apply, under the same field manager",
        fields: &[
            field("replicas", WRITES_BY, "Update", "Apply"),
            field("names-of-63-characters", WRITES_BY, "Update", "Apply"),
            field("image-by-hand", WRITES_BY, "Update", "Apply"),
            field("label-by-hand", WRITES_BY, "Update", "Apply"),
            field("restart", WRITES_BY, "Update", "Apply"),
        ],
    },
    Allowed {
        row: "sync 5",
        under: BOTH,
        go: "an image edited by hand stays until the Foo's replicas change",
        host: "an image edited by hand comes back at once: one generation more",
        fields: &[
            field(
                "image-by-hand/edit the image",
                "deployments/web/spec/template/spec/containers/0/image",
                "nginx:edited",
                "nginx:latest",
            ),
            field("image-by-hand/edit the image", "deployments/web/generation", "2", "3"),
            field("image-by-hand/edit the image", "deployments/web/status/observedGeneration", "2", "3"),
            field("image-by-hand/edit the Foo's replicas", "deployments/web/generation", "3", "4"),
            field(
                "image-by-hand/edit the Foo's replicas",
                "deployments/web/status/observedGeneration",
                "3",
                "4",
            ),
            field("image-by-hand/restart", "deployments/web/generation", "3", "4"),
            field("image-by-hand/restart", "deployments/web/status/observedGeneration", "3", "4"),
            perhaps("image-by-hand", "deployments/web/annotations/deployment.kubernetes.io~1revision"),
            perhaps("image-by-hand", "replicaSets"),
        ],
    },
    Allowed {
        row: "sync 5",
        under: BOTH,
        go: "an `Update` replaces the whole Deployment: it takes away labels, annotations and fields of others, and \
             sets what it does not name to the defaults",
        host: "what the guest does not name stays as others left it",
        fields: &[
            field("label-by-hand", "deployments/web/labels", "absent", "there"),
            field("label-by-hand", "deployments/web/annotations/note", "absent", "x"),
            field("label-by-hand", "deployments/web/spec/minReadySeconds", "absent", "1"),
            field(
                "image-by-hand",
                "deployments/web/spec/template/spec/containers/0/imagePullPolicy",
                "Always",
                "IfNotPresent",
            ),
        ],
    },
    Allowed {
        row: "known fault",
        under: BOTH,
        go: "after a change of `deploymentName` the old Deployment stays (issue 75)",
        host: "it goes when the new one is Available",
        fields: &[
            field("rename/edit deploymentName", "deployments/web-a", "there", "absent"),
            field("rename/and back", "deployments/web-b", "there", "absent"),
            field("rename/restart", "deployments/web-b", "there", "absent"),
            field("rename", "pods", "2", "1"),
            field("rename", "replicaSets", "2", "1"),
        ],
    },
    Allowed {
        row: "a Foo being deleted",
        under: BOTH,
        go: "creates the Deployment again while a finalizer keeps the Foo",
        host: "creates nothing for a Foo that is being deleted",
        fields: &[
            field("finalizer", "deployments/web", "there", "absent"),
            field("finalizer", "pods", "1", "0"),
            field("finalizer", "replicaSets", "1", "0"),
        ],
    },
    Allowed {
        row: "sync 2",
        under: &[Under::Upstreams],
        go: "an empty `deploymentName` is logged; one that Kubernetes refuses is tried again for ever, and no Event \
             tells",
        host: "both are permanent errors, told by one Event `InvalidSpec`",
        fields: &[
            field("empty-name/create without a name", "events/a", "absent", "there"),
            field("empty-name", "events/a/Warning InvalidSpec", "absent", "there"),
            field("invalid-name/create with a name that Kubernetes refuses", "events/a", "absent", "there"),
            field("invalid-name", "events/a/Warning InvalidSpec", "absent", "there"),
        ],
    },
    Allowed {
        row: "API",
        under: &[Under::Ours],
        go: "upstream's CRD takes any `deploymentName`",
        host: "the API refuses what can be no name (422); there is no such Foo then, and nothing of it",
        fields: &[
            field("empty-name/create without a name", "answers/1", "absent", "422"),
            field("empty-name/name it", "answers/1", "absent", "404"),
            field("empty-name/clear the name", "answers/1", "absent", "404"),
            field("empty-name", "foos/a", "there", "absent"),
            field("empty-name", "deployments/web", "there", "absent"),
            field("empty-name", "events/a", "there", "absent"),
            field("empty-name", "pods", "1", "0"),
            field("empty-name", "replicaSets", "1", "0"),
            field("invalid-name/create with a name that Kubernetes refuses", "answers/1", "absent", "422"),
            field("invalid-name/name it", "answers/1", "absent", "404"),
            field("invalid-name", "foos/a", "there", "absent"),
            field("invalid-name", "deployments/web", "there", "absent"),
            field("invalid-name", "events/a", "there", "absent"),
            field("invalid-name", "pods", "1", "0"),
            field("invalid-name", "replicaSets", "1", "0"),
        ],
    },
    Allowed {
        row: "API",
        under: &[Under::Ours],
        go: "a status of `availableReplicas`",
        host: "and of conditions, `observedGeneration`, what `scale` reads, and which guest decided",
        fields: &[
            field("*", "foos/*/status/conditions", "absent", "there"),
            field("*", "foos/*/status/guest", "absent", "there"),
            field("*", "foos/*/status/observedGeneration", "absent", "*"),
            field("*", "foos/*/status/replicas", "absent", "*"),
            field("*", "foos/*/status/selector", "absent", "*"),
        ],
    },
    Allowed {
        row: "Deployment",
        under: BOTH,
        go: "a Foo name of 64 characters is no label value: the create is refused for ever",
        host: "it is hashed to one: the Foo is served",
        fields: &[
            field("foo-name-of-64-characters", "deployments/web", "absent", "there"),
            field("foo-name-of-64-characters", "events/*", "absent", "there"),
            field("foo-name-of-64-characters", "foos/*/status", "absent", "there"),
            field(
                "foo-name-of-64-characters",
                "foos/*/sample-controller writes by",
                "empty",
                "Update status",
            ),
            field("foo-name-of-64-characters", "pods", "0", "*"),
            field("foo-name-of-64-characters", "replicaSets", "0", "1"),
        ],
    },
];

impl Field {
    fn covers(&self, case: &str, step: &str, difference: &Difference) -> bool {
        let (of_case, of_step) = self.at.split_once('/').unwrap_or((self.at, "*"));
        let fits = |pattern: &str, text: &str| pattern == "*" || pattern == text;
        let path = {
            let (pattern, path) = (self.path.split('/'), difference.path.split('/'));
            pattern.clone().count() == path.clone().count()
                && pattern.zip(path).all(|(pattern, segment)| fits(pattern, segment))
        };
        fits(of_case, case)
            && fits(of_step, step)
            && path
            && fits(self.go, &difference.go)
            && fits(self.host, &difference.host)
    }
}

/// Which entry, and which of its fields, a difference is; none if nobody allowed it.
pub(crate) fn entry(under: Under, case: &str, step: &str, difference: &Difference) -> Option<(usize, usize)> {
    let entries = ALLOWED.iter().enumerate().filter(|(_, entry)| entry.under.contains(&under));
    entries.into_iter().find_map(|(number, entry)| {
        let field = entry.fields.iter().position(|field| field.covers(case, step, difference))?;
        Some((number, field))
    })
}

/// The fields in which a difference was to show and did not.
pub(crate) fn unseen(under: Under, seen: &[(usize, usize)]) -> Vec<String> {
    let mut unseen = Vec::new();
    for (number, entry) in ALLOWED.iter().enumerate().filter(|(_, entry)| entry.under.contains(&under)) {
        for (index, field) in entry.fields.iter().enumerate() {
            if field.shows != Shows::Perhaps && !seen.contains(&(number, index)) {
                unseen.push(format!("{} ({}): {} {}", number + 1, entry.row, field.at, field.path));
            }
        }
    }
    unseen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(case: &str, step: &str, path: &str, go: &str, host: &str) -> [bool; 2] {
        let difference = Difference { path: path.into(), go: go.into(), host: host.into() };
        [Under::Upstreams, Under::Ours].map(|under| entry(under, case, step, &difference).is_some())
    }

    #[test]
    fn an_entry_allows_its_case_its_step_its_path_its_values_and_its_crd_and_no_other() {
        let count = "events/a/Normal Synced/count";
        assert_eq!(found("rename", "create", count, "more often", "less often"), [true, true]);
        assert_eq!(found("rename", "create", count, "less often", "more often"), [false, false]);
        assert_eq!(
            found("rename", "edit deploymentName", "deployments/web-a", "there", "absent"),
            [true, true]
        );
        assert_eq!(
            found("rename", "edit deploymentName", "deployments/web-a", "absent", "there"),
            [false, false]
        );
        assert_eq!(found("rename", "create", "deployments/web-a", "there", "absent"), [false, false]);
        assert_eq!(
            found("replicas", "edit replicas", "deployments/web-a", "there", "absent"),
            [false, false]
        );
        assert_eq!(found("rename", "and back", "deployments/web-b/spec", "there", "absent"), [false, false]);
        assert_eq!(found("replicas", "create", "foos/a/status/guest", "absent", "there"), [false, true]);
        assert_eq!(found("replicas", "create", "foos/a/status/availableReplicas", "1", "2"), [false, false]);
        assert_eq!(
            found("invalid-name", "name it", "events/a/Warning InvalidSpec", "absent", "there"),
            [true, false]
        );
    }

    #[test]
    fn an_entry_of_which_nothing_was_seen_is_named() {
        let seen: Vec<_> = (0..ALLOWED.len())
            .flat_map(|number| (0..ALLOWED[number].fields.len()).map(move |field| (number, field)))
            .collect();
        assert_eq!(unseen(Under::Ours, &seen), Vec::<String>::new());
        let but_the_first = unseen(Under::Ours, &seen[1..]);
        assert_eq!(but_the_first, ["1 (sync 7): * events/*/Normal Synced/count"]);
    }
}
