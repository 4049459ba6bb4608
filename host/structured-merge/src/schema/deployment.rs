//! The schemas of Deployment and of the small built-in kinds, read from `data/`.
//!
//! Must not know how a schema is used.

use super::{Field, Fields, Node, Scalar, Schema, Zero};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

/// What is made of the data file.
pub(super) struct Types {
    pub(super) deployment: Schema,
    pub(super) metadata: Arc<Node>,
    pub(super) small: HashMap<&'static str, Schema>,
}

/// The kinds of `data/small.json`.
const SMALL: [&str; 6] = ["ConfigMap", "CustomResourceDefinition", "Event", "Lease", "Namespace", "NewEvent"];

pub(super) static TYPES: LazyLock<Types> = LazyLock::new(|| {
    // The file is part of the program, and a test reads all of it.
    let read = |text| serde_json::from_str::<HashMap<String, TypeData>>(text).unwrap_or_default();
    let mut data = read(include_str!("../../data/deployment.json"));
    data.extend(read(include_str!("../../data/small.json")));
    let mut builder = Builder { data, built: HashMap::new() };
    Types {
        deployment: Schema { root: builder.named("Deployment") },
        metadata: builder.named("ObjectMeta"),
        small: SMALL.iter().map(|kind| (*kind, Schema { root: builder.named(kind) })).collect(),
    }
});

#[derive(Deserialize)]
struct TypeData {
    #[serde(default)]
    atomic: bool,
    fields: BTreeMap<String, FieldData>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FieldData {
    is: Shape,
    default: Option<Value>,
    #[serde(default)]
    zero: Zero,
    #[serde(default)]
    merge: bool,
    merge_key: Option<String>,
    #[serde(default)]
    retain_keys: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Shape {
    /// A scalar by its name, or a type of the file.
    Named(String),
    Composite(Composite),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Composite {
    Map(Box<Shape>),
    MapAtomic(Box<Shape>),
    ListAtomic(Box<Shape>),
    ListSet(Box<Shape>),
    ListMap { keys: Vec<String>, element: Box<Shape> },
}

struct Builder {
    data: HashMap<String, TypeData>,
    /// Types are shared: a container's is used three times.
    built: HashMap<String, Arc<Node>>,
}

impl Builder {
    fn named(&mut self, name: &str) -> Arc<Node> {
        let scalar = |kind| Arc::new(Node::Scalar(kind));
        match name {
            "string" => return scalar(Scalar::String),
            "number" => return scalar(Scalar::Number),
            "boolean" => return scalar(Scalar::Boolean),
            "any" => return scalar(Scalar::Any),
            "quantity" => return Arc::new(Node::Quantity),
            "intOrString" => return Arc::new(Node::IntOrString),
            _ => {}
        }
        if let Some(node) = self.built.get(name) {
            return Arc::clone(node);
        }
        // Removed while it is built: a type that reached itself would end as deduced, not in a loop.
        let Some(data) = self.data.remove(name) else { return Arc::new(Node::Deduced) };
        let declared = data.fields.into_iter().map(|(name, field)| (name, self.field(field))).collect();
        let fields = Fields { declared, additional: None, type_name: name.to_owned() };
        let node = Arc::new(if data.atomic { Node::MapAtomic(fields) } else { Node::Map(fields) });
        self.built.insert(name.to_owned(), Arc::clone(&node));
        node
    }

    fn field(&mut self, data: FieldData) -> Field {
        Field {
            node: self.shape(&data.is),
            default: data.default,
            zero: data.zero,
            patch_merge: data.merge,
            patch_merge_key: data.merge_key,
            retain_keys: data.retain_keys,
        }
    }

    fn shape(&mut self, shape: &Shape) -> Arc<Node> {
        let composite = match shape {
            Shape::Named(name) => return self.named(name),
            Shape::Composite(composite) => composite,
        };
        let mut map = |element| Fields { additional: Some(self.shape(element)), ..Fields::default() };
        Arc::new(match composite {
            Composite::Map(element) => Node::Map(map(element)),
            Composite::MapAtomic(element) => Node::MapAtomic(map(element)),
            Composite::ListAtomic(element) => Node::ListAtomic { element: self.shape(element) },
            Composite::ListSet(element) => Node::ListSet { element: self.shape(element) },
            Composite::ListMap { keys, element } => {
                Node::ListMap { keys: keys.clone(), element: self.shape(element) }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at<'a>(path: &[&str]) -> &'a Node {
        path.iter().fold(Schema::deployment().root(), |node, name| match *name {
            "[]" => node.element(),
            name => node.child(name),
        })
    }

    fn count_deduced(node: &Node) -> usize {
        let children = node
            .fields()
            .into_iter()
            .flat_map(|fields| fields.declared.values().map(|field| &field.node).chain(&fields.additional));
        let below: usize = children.map(|node| count_deduced(node)).sum();
        match node {
            Node::Deduced => 1,
            Node::ListMap { element, .. } | Node::ListSet { element } | Node::ListAtomic { element } => {
                count_deduced(element)
            }
            _ => below,
        }
    }

    #[test]
    fn the_data_file_has_every_type_that_it_names() {
        let data: HashMap<String, TypeData> =
            serde_json::from_str(include_str!("../../data/deployment.json")).unwrap();
        assert_eq!(data.len(), 116);
        // `fieldsV1`, of the Deployment, of its pods and of the claims in volumes.
        assert_eq!(count_deduced(Schema::deployment().root()), 3);
    }

    #[test]
    fn every_small_kind_is_read() {
        for kind in SMALL {
            let schema = Schema::small(kind).unwrap();
            assert!(schema.root().field("metadata").is_some(), "{kind}");
        }
    }

    #[test]
    fn list_keys_and_atomic_maps_are_those_of_the_api_server() {
        let spec = ["spec", "template", "spec"];
        let ports = at(&[&spec[..], &["containers", "[]", "ports"]].concat());
        assert!(matches!(ports, Node::ListMap { keys, .. } if keys == &["containerPort", "protocol"]));
        assert!(matches!(at(&[&spec[..], &["tolerations"]].concat()), Node::ListAtomic { .. }));
        assert!(matches!(at(&[&spec[..], &["nodeSelector"]].concat()), Node::MapAtomic(_)));
        assert!(matches!(at(&["spec", "selector"]), Node::MapAtomic(_)));
        assert!(matches!(at(&["metadata", "finalizers"]), Node::ListSet { .. }));
        assert!(matches!(at(&["metadata", "labels"]), Node::Map(_)));
        let requests = [&spec[..], &["containers", "[]", "resources", "requests", "cpu"]].concat();
        assert_eq!(at(&requests), &Node::Quantity);
        let volumes = at(&spec).field("volumes").unwrap();
        assert!(volumes.patch_merge && volumes.retain_keys);
        assert_eq!(volumes.patch_merge_key.as_deref(), Some("name"));
    }

    #[test]
    fn an_empty_deployment_is_what_the_servers_types_encode() {
        let expected = json!({
            "metadata": {},
            "spec": {"selector": null, "strategy": {}, "template": {"metadata": {}, "spec": {"containers": null}}},
            "status": {},
        });
        assert_eq!(Schema::deployment().root().empty(), expected);
    }
}
