//! The resources that are served: the built-in ones as a table, those of CRDs as they come and go.
//!
//! Must not know objects.

use crate::columns::Column;
use crate::store::{Store, TableId};
use crate::structural::Structural;
use serde_json::Value;
use std::sync::Arc;
use structured_merge::{FieldSet, Path, Schema};

/// What is special about a resource's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Namespace,
    Definition,
    Custom,
    Deployment,
    /// Events in the form of core/v1, in which they are stored.
    CoreEvent,
    /// The same events in the form of `events.k8s.io/v1`.
    NewEvent,
    Lease,
    ConfigMap,
}

/// Where the scale subresource finds its numbers, as pointers.
#[derive(Clone, Debug)]
pub(crate) struct ScalePaths {
    pub(crate) spec: String,
    pub(crate) status: String,
    /// Empty where there is none.
    pub(crate) selector: String,
}

/// One resource in one version.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    pub(crate) status: bool,
    pub(crate) scale: Option<ScalePaths>,
    pub(crate) table: TableId,
    pub(crate) behaviour: Behaviour,
    /// apiVersion of the stored objects.
    pub(crate) stored_as: String,
    /// What answers of a deprecated version warn of.
    pub(crate) deprecation: Option<String>,
    /// Only of custom resources.
    pub(crate) structural: Option<Arc<Structural>>,
    pub(crate) columns: Vec<Column>,
    /// How objects merge.
    pub(crate) merge: Schema,
    pub(crate) resets: Resets,
}

/// Fields that an endpoint resets and so never owns (`GetResetFields` of the server's strategies).
#[derive(Clone, Debug)]
pub(crate) struct Resets {
    pub(crate) main: FieldSet,
    pub(crate) status: FieldSet,
}

impl Resource {
    /// `apps/v1`, or `v1` for the core group.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `deployments.apps`.
    pub(crate) fn qualified(&self) -> crate::status::Qualified<'_> {
        crate::status::Qualified { group: &self.group, name: &self.plural }
    }

    /// `Deployment.apps`.
    pub(crate) fn qualified_kind(&self) -> crate::status::Qualified<'_> {
        crate::status::Qualified { group: &self.group, name: &self.kind }
    }

    /// Custom resources have them in an order of their own.
    pub(crate) fn verbs(&self) -> &'static [&'static str] {
        match self.behaviour {
            Behaviour::Custom => {
                &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
            }
            Behaviour::Namespace => &["create", "delete", "get", "list", "patch", "update", "watch"],
            _ => &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        }
    }
}

/// Tables that the rest knows by name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables {
    pub(crate) namespaces: TableId,
    pub(crate) definitions: TableId,
    pub(crate) deployments: TableId,
}

/// All resources.
#[derive(Debug)]
pub(crate) struct Registry {
    resources: Vec<Arc<Resource>>,
    pub(crate) tables: Tables,
}

struct BuiltIn {
    behaviour: Behaviour,
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    short: &'static [&'static str],
    categories: &'static [&'static str],
    namespaced: bool,
    status: bool,
}

/// Names, short names and categories as `kubectl api-resources` of Kubernetes 1.36 prints them.
const BUILT_IN: [BuiltIn; 7] = [
    BuiltIn {
        behaviour: Behaviour::Namespace,
        group: "",
        kind: "Namespace",
        plural: "namespaces",
        singular: "namespace",
        short: &["ns"],
        categories: &[],
        namespaced: false,
        status: true,
    },
    BuiltIn {
        behaviour: Behaviour::ConfigMap,
        group: "",
        kind: "ConfigMap",
        plural: "configmaps",
        singular: "configmap",
        short: &["cm"],
        categories: &[],
        namespaced: true,
        status: false,
    },
    BuiltIn {
        behaviour: Behaviour::CoreEvent,
        group: "",
        kind: "Event",
        plural: "events",
        singular: "event",
        short: &["ev"],
        categories: &[],
        namespaced: true,
        status: false,
    },
    BuiltIn {
        behaviour: Behaviour::NewEvent,
        group: "events.k8s.io",
        kind: "Event",
        plural: "events",
        singular: "event",
        short: &["ev"],
        categories: &[],
        namespaced: true,
        status: false,
    },
    BuiltIn {
        behaviour: Behaviour::Deployment,
        group: "apps",
        kind: "Deployment",
        plural: "deployments",
        singular: "deployment",
        short: &["deploy"],
        categories: &["all"],
        namespaced: true,
        status: true,
    },
    BuiltIn {
        behaviour: Behaviour::Lease,
        group: "coordination.k8s.io",
        kind: "Lease",
        plural: "leases",
        singular: "lease",
        short: &[],
        categories: &[],
        namespaced: true,
        status: false,
    },
    BuiltIn {
        behaviour: Behaviour::Definition,
        group: "apiextensions.k8s.io",
        kind: "CustomResourceDefinition",
        plural: "customresourcedefinitions",
        singular: "customresourcedefinition",
        short: &["crd", "crds"],
        categories: &["api-extensions"],
        namespaced: false,
        status: true,
    },
];

pub(crate) fn field_set(fields: &[&[&str]]) -> FieldSet {
    let mut set = FieldSet::default();
    for path in fields {
        set.insert(&Path::fields(path.iter().copied()));
    }
    set
}

impl Registry {
    /// The built-in resources, with a table each (the two forms of events share one).
    pub(crate) fn new(store: &mut Store) -> Self {
        let tables = Tables {
            namespaces: store.add_table(),
            definitions: store.add_table(),
            deployments: store.add_table(),
        };
        let events = store.add_table();
        let resources = BUILT_IN
            .iter()
            .map(|b| {
                let table = match b.behaviour {
                    Behaviour::Namespace => tables.namespaces,
                    Behaviour::Definition => tables.definitions,
                    Behaviour::Deployment => tables.deployments,
                    Behaviour::CoreEvent | Behaviour::NewEvent => events,
                    _ => store.add_table(),
                };
                Arc::new(built_in(b, table))
            })
            .collect();
        Self { resources, tables }
    }

    pub(crate) fn all(&self) -> &[Arc<Resource>] {
        &self.resources
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        self.resources
            .iter()
            .find(|r| r.group == group && r.version == version && r.plural == plural)
            .cloned()
    }

    /// The resource of a kind, in any version.
    pub(crate) fn by_kind(&self, group: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.resources.iter().find(|r| r.group == group && r.kind == kind)
    }

    /// The resource under which the objects of a table are stored.
    pub(crate) fn of_table(&self, table: TableId) -> Option<Arc<Resource>> {
        let of_table = self.resources.iter().filter(|r| r.table == table);
        let mut of_table = of_table.collect::<Vec<_>>();
        of_table.sort_by_key(|r| r.api_version() != r.stored_as);
        of_table.first().map(|r| Arc::clone(r))
    }

    /// The table of a group's plural, if it is served in some version.
    pub(crate) fn table_of(&self, group: &str, plural: &str) -> Option<TableId> {
        self.resources.iter().find(|r| r.group == group && r.plural == plural).map(|r| r.table)
    }

    /// Replaces all versions of a group's plural.
    pub(crate) fn set(&mut self, group: &str, plural: &str, versions: Vec<Resource>) {
        self.resources.retain(|r| !(r.group == group && r.plural == plural));
        self.resources.extend(versions.into_iter().map(Arc::new));
    }
}

fn built_in(b: &BuiltIn, table: TableId) -> Resource {
    let owned = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
    let version = "v1".to_owned();
    let deployment = b.behaviour == Behaviour::Deployment;
    let (main, status): (&[&[&str]], &[&[&str]]) = match b.behaviour {
        Behaviour::Deployment => (&[&["status"]], &[&["spec"], &["metadata", "labels"]]),
        // What the strategy of namespaces sets itself, nobody owns.
        Behaviour::Namespace => (&[&["status"], &["spec"]], &[&["spec"]]),
        Behaviour::Definition => (&[&["status"]], &[&["spec"]]),
        _ => (&[], &[]),
    };
    Resource {
        group: b.group.to_owned(),
        version: version.clone(),
        kind: b.kind.to_owned(),
        list_kind: format!("{}List", b.kind),
        plural: b.plural.to_owned(),
        singular: b.singular.to_owned(),
        short_names: owned(b.short),
        categories: owned(b.categories),
        namespaced: b.namespaced,
        status: b.status,
        scale: deployment.then(|| ScalePaths {
            spec: "/spec/replicas".to_owned(),
            status: "/status/replicas".to_owned(),
            selector: String::new(),
        }),
        table,
        behaviour: b.behaviour,
        stored_as: match b.behaviour {
            Behaviour::NewEvent => version,
            _ if b.group.is_empty() => version,
            _ => format!("{}/v1", b.group),
        },
        deprecation: None,
        structural: None,
        columns: crate::columns::built_in(b.behaviour),
        merge: match b.behaviour {
            Behaviour::Deployment => Schema::deployment().clone(),
            Behaviour::NewEvent => crate::events::schema(true),
            _ => Schema::small(b.kind).cloned().unwrap_or_else(Schema::deduced),
        },
        resets: Resets { main: field_set(main), status: field_set(status) },
    }
}

/// `.spec.replicas` as a pointer.
pub(crate) fn pointer(json_path: &str) -> String {
    json_path.replace('.', "/")
}

/// A string anywhere in a value, empty where there is none.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
