//! Sets of fields: the tree behind `FieldsV1`, and its algebra.
//!
//! Must not know who owns a set.

use crate::{Error, Path, PathElement, Schema, typed};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A set of [`Path`]s. A path in the set says nothing of the paths below or above it, as in
/// structured-merge-diff.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    nodes: BTreeMap<PathElement, SetNode>,
}

/// Never empty: a member, or the parent of some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SetNode {
    pub(crate) member: bool,
    pub(crate) children: FieldSet,
}

impl SetNode {
    fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

impl FieldSet {
    /// Reads the `fieldsV1` of an entry of `managedFields`; `null` is the empty set.
    pub fn from_fields_v1(fields: &Value) -> Result<Self, Error> {
        match fields {
            Value::Null => Ok(Self::default()),
            Value::Object(map) => Self::from_map(map).map(|(_, set)| set),
            _ => Err(Error::FieldsV1("FieldsV1 is not an object".to_owned())),
        }
    }

    /// The set of a map, and whether the map's owner itself is a member (`.`). An empty map is a leaf.
    fn from_map(map: &Map<String, Value>) -> Result<(bool, Self), Error> {
        let mut set = Self::default();
        let mut member = map.is_empty();
        for (key, value) in map {
            if key == "." {
                member = true;
                continue;
            }
            let element = PathElement::parse(key)?;
            let Value::Object(below) = value else {
                return Err(Error::FieldsV1(format!("the value of {key:?} in FieldsV1 is not an object")));
            };
            let (member, children) = Self::from_map(below)?;
            set.nodes.insert(element, SetNode { member, children });
        }
        set.nodes.retain(|_, node| !node.is_empty());
        Ok((member, set))
    }

    /// The set as an entry of `managedFields` carries it.
    pub fn to_fields_v1(&self) -> Value {
        let fields = self.nodes.iter().map(|(element, node)| {
            let mut below = node.children.to_fields_v1();
            if let (true, false, Value::Object(map)) = (node.member, node.children.is_empty(), &mut below) {
                map.insert(".".to_owned(), Value::Object(Map::new()));
            }
            (element.serialized(), below)
        });
        Value::Object(fields.collect())
    }

    /// The fields of `object` that a manager which applied all of it would own: leaves and list items,
    /// without what the server strips from every entry (`apiVersion`, `kind`, and of the metadata all
    /// that identifies the object or is set by the server). `status` is not stripped: see
    /// [`crate::Request::reset`].
    pub fn of_object(object: &Value, schema: &Schema) -> Self {
        typed::fields_of(object, schema.root()).difference(Self::stripped())
    }

    /// What no entry of managed fields ever has (`stripmeta.go` of apimachinery's managedfields).
    pub(crate) fn stripped() -> &'static Self {
        static STRIPPED: LazyLock<FieldSet> = LazyLock::new(|| {
            let metadata = [
                "name",
                "namespace",
                "creationTimestamp",
                "selfLink",
                "uid",
                "clusterName",
                "generation",
                "managedFields",
                "resourceVersion",
            ];
            let metadata = metadata.map(|name| Path::fields(["metadata", name]));
            ["apiVersion", "kind", "metadata"]
                .map(|name| Path::fields([name]))
                .into_iter()
                .chain(metadata)
                .collect()
        });
        &STRIPPED
    }

    /// What stands at each first step.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&PathElement, &SetNode)> {
        self.nodes.iter()
    }

    pub(crate) fn node(&self, element: &PathElement) -> Option<&SetNode> {
        self.nodes.get(element)
    }

    /// Puts `node` at a first step; nothing, if it is empty.
    pub(crate) fn set(&mut self, element: PathElement, node: SetNode) {
        if !node.is_empty() {
            self.nodes.insert(element, node);
        }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether exactly `path` is in it.
    pub fn contains(&self, path: &Path) -> bool {
        let Some((last, parents)) = path.0.split_last() else { return false };
        let mut set = self;
        for element in parents {
            match set.nodes.get(element) {
                Some(node) => set = &node.children,
                None => return false,
            }
        }
        set.nodes.get(last).is_some_and(|node| node.member)
    }

    /// Adds `path`; the empty path is no field.
    pub fn insert(&mut self, path: &Path) {
        self.insert_elements(&path.0);
    }

    fn insert_elements(&mut self, elements: &[PathElement]) {
        let Some((first, rest)) = elements.split_first() else { return };
        let node = self.nodes.entry(first.clone()).or_default();
        if rest.is_empty() { node.member = true } else { node.children.insert_elements(rest) }
    }

    /// Removes exactly `path`, not what lies below it; says whether it was there.
    pub fn remove(&mut self, path: &Path) -> bool {
        self.remove_elements(&path.0)
    }

    fn remove_elements(&mut self, elements: &[PathElement]) -> bool {
        let Some((first, rest)) = elements.split_first() else { return false };
        let Some(node) = self.nodes.get_mut(first) else { return false };
        let removed = if rest.is_empty() {
            std::mem::take(&mut node.member)
        } else {
            node.children.remove_elements(rest)
        };
        if node.is_empty() {
            self.nodes.remove(first);
        }
        removed
    }

    /// What is in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut out = self.clone();
        for (element, theirs) in &other.nodes {
            let node = out.nodes.entry(element.clone()).or_default();
            node.member |= theirs.member;
            node.children = node.children.union(&theirs.children);
        }
        out
    }

    /// What is in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.combine(other, |ours, theirs| {
            theirs.map_or_else(SetNode::default, |theirs| SetNode {
                member: ours.member && theirs.member,
                children: ours.children.intersection(&theirs.children),
            })
        })
    }

    /// What is in this set and not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.combine(other, |ours, theirs| {
            theirs.map_or_else(
                || ours.clone(),
                |theirs| SetNode {
                    member: ours.member && !theirs.member,
                    children: ours.children.difference(&theirs.children),
                },
            )
        })
    }

    /// What is in this set and neither in `other` nor below a member of `other`.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        self.combine(other, |ours, theirs| match theirs {
            None => ours.clone(),
            Some(theirs) if theirs.member => SetNode::default(),
            Some(theirs) => SetNode {
                member: ours.member,
                children: ours.children.recursive_difference(&theirs.children),
            },
        })
    }

    fn combine(&self, other: &Self, rule: impl Fn(&SetNode, Option<&SetNode>) -> SetNode) -> Self {
        let nodes = self.nodes.iter().filter_map(|(element, ours)| {
            let node = rule(ours, other.nodes.get(element));
            (!node.is_empty()).then(|| (element.clone(), node))
        });
        Self { nodes: nodes.collect() }
    }

    /// Every path in it; at each step the members first, then what lies below (the order in which the
    /// server lists conflicts).
    pub fn paths(&self) -> impl Iterator<Item = Path> {
        let mut paths = Vec::new();
        self.collect_paths(&mut Path::default(), &mut paths);
        paths.into_iter()
    }

    fn collect_paths(&self, at: &mut Path, out: &mut Vec<Path>) {
        for (element, node) in &self.nodes {
            if node.member {
                out.push(at.join(element.clone()));
            }
        }
        for (element, node) in &self.nodes {
            at.0.push(element.clone());
            node.children.collect_paths(at, out);
            at.0.pop();
        }
    }
}

impl FromIterator<Path> for FieldSet {
    fn from_iter<I: IntoIterator<Item = Path>>(paths: I) -> Self {
        let mut set = Self::default();
        paths.into_iter().for_each(|path| set.insert(&path));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn texts(set: &FieldSet) -> Vec<String> {
        set.paths().map(|path| path.to_string()).collect()
    }

    #[test]
    fn the_fields_of_an_object_are_its_leaves_and_items() {
        let object = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": "web",
                "namespace": "default",
                "uid": "1",
                "resourceVersion": "2",
                "labels": {"app": "web"},
                "finalizers": ["a/b"],
                "ownerReferences": [{"uid": "3", "kind": "Foo"}],
            },
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"spec": {
                    "securityContext": {},
                    "containers": [{"name": "nginx", "args": ["a"], "env": [], "ports": [{"containerPort": 80}]}],
                }},
            },
        });
        let nginx = r#".spec.template.spec.containers[name="nginx"]"#;
        let port = format!(r#"{nginx}.ports[containerPort=80,protocol="TCP"]"#);
        let expected = [
            r#".metadata.finalizers[="a/b"]"#.to_owned(),
            ".metadata.labels.app".to_owned(),
            r#".metadata.ownerReferences[uid="3"]"#.to_owned(),
            ".spec.selector".to_owned(),
            ".spec.template.spec.securityContext".to_owned(),
            nginx.to_owned(),
            format!("{nginx}.args"),
            format!("{nginx}.name"),
            port.clone(),
            format!("{port}.containerPort"),
        ];
        assert_eq!(texts(&FieldSet::of_object(&object, Schema::deployment())), expected);
    }

    #[test]
    fn without_a_schema_lists_are_atomic_and_maps_are_not() {
        let object = json!({"spec": {"list": [1, 2], "map": {"a": {"b": 1}}, "empty": {}}, "kind": "X"});
        // Fields that are not declared are members with all on the way to them.
        let expected = [".spec", ".spec.empty", ".spec.list", ".spec.map", ".spec.map.a", ".spec.map.a.b"];
        assert_eq!(texts(&FieldSet::of_object(&object, &Schema::deduced())), expected);
    }

    #[test]
    fn fields_v1_that_cannot_be_read_is_refused() {
        for fields in
            [json!([]), json!("x"), json!({"f:a": 1}), json!({"a": {}}), json!({"f:a": {"k:[]": {}}})]
        {
            assert!(FieldSet::from_fields_v1(&fields).is_err(), "{fields}");
        }
        assert!(FieldSet::from_fields_v1(&Value::Null).unwrap().is_empty());
        assert!(FieldSet::from_fields_v1(&json!({".": {}})).unwrap().is_empty());
    }

    #[test]
    fn a_recursive_difference_takes_all_below_a_member() {
        let set: FieldSet =
            [["status", "ready"], ["spec", "replicas"]].map(Path::fields).into_iter().collect();
        let status = [Path::fields(["status"])].into_iter().collect();
        assert_eq!(texts(&set.recursive_difference(&status)), [".spec.replicas"]);
        assert_eq!(set.difference(&status), set);
    }
}
