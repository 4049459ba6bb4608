//! What the API knows about the shape of an object: which lists have keys, which values are atomic,
//! how a strategic merge patch treats a field, what the server fills in.
//!
//! Must not know how any of it is used.

mod deployment;
mod openapi;

use crate::typed::{self, Duplicates};
use crate::{Error, PathElement};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// The shape of a kind of object.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    root: Arc<Node>,
}

/// The shape of one value.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// String, number or boolean.
    Scalar(Scalar),
    /// A resource quantity, equal by value: `1000m` is `1`.
    Quantity,
    /// A number or a string, `x-kubernetes-int-or-string`.
    IntOrString,
    /// A map or struct whose fields are owned one by one.
    Map(Fields),
    /// A map or struct that is owned as a whole (`x-kubernetes-map-type: atomic`).
    MapAtomic(Fields),
    /// An associative list: items are told apart by key fields.
    ListMap {
        /// Names of the key fields.
        keys: Vec<String>,
        /// Shape of an item, a `Map`.
        element: Arc<Node>,
    },
    /// A list of distinct scalars in any order.
    ListSet {
        /// Shape of an item.
        element: Arc<Node>,
    },
    /// A list that is owned as a whole.
    ListAtomic {
        /// Shape of an item.
        element: Arc<Node>,
    },
    /// Not known: maps are granular, lists atomic, the rest scalars.
    Deduced,
}

/// What a scalar may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A string without a format.
    String,
    /// An integer or a float.
    Number,
    /// `true` or `false`.
    Boolean,
    /// Any of them: strings with a format such as `date-time`.
    Any,
}

/// The fields of a map.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields {
    /// Declared fields.
    pub declared: BTreeMap<String, Field>,
    /// Shape of all others; `None`: there are none.
    pub additional: Option<Arc<Node>>,
    /// Name of the server's type, `PodSpec`; empty if it has none.
    pub type_name: String,
}

/// A declared field.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its shape.
    pub node: Arc<Node>,
    /// The value that the API fills in when it is absent; part of the identity of a list item when the
    /// field is a key.
    pub default: Option<Value>,
    /// What it is on the wire when it is not set.
    pub zero: Zero,
    /// `patchStrategy: merge` of a list: items are merged, not replaced.
    pub patch_merge: bool,
    /// `patchMergeKey` of a list of objects.
    pub patch_merge_key: Option<String>,
    /// `patchStrategy: retainKeys`: a patch lists in `$retainKeys` which fields stay.
    pub retain_keys: bool,
}

/// What a field is on the wire when it has the zero value of its Go type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Zero {
    /// Zero values are values like all others, an unset field is absent.
    #[default]
    Keep,
    /// `false`, `0`, `""` and empty maps and lists are left out (`omitempty`).
    Drop,
    /// The same, and then it is filled in with a default that depends on other fields.
    Fill,
    /// Unset it is `null` (a pointer or list without `omitempty`).
    Null,
    /// Unset it is an empty object (a struct that is not behind a pointer).
    Struct,
}

impl Zero {
    /// Whether zero values are left out.
    pub(crate) fn drops(self) -> bool {
        matches!(self, Self::Drop | Self::Fill)
    }
}

impl Field {
    /// A field of this shape and nothing else.
    pub fn of(node: impl Into<Arc<Node>>) -> Self {
        Self {
            node: node.into(),
            default: None,
            zero: Zero::Keep,
            patch_merge: false,
            patch_merge_key: None,
            retain_keys: false,
        }
    }
}

impl Schema {
    /// The schema of `apps/v1` Deployment of Kubernetes 1.36 (`data/README.md` has the sources).
    pub fn deployment() -> &'static Self {
        &deployment::TYPES.deployment
    }

    /// The schema of a small built-in kind: `ConfigMap`, `CustomResourceDefinition`, `Event`, `Lease`, `Namespace`
    /// and, as `NewEvent`, the Event of `events.k8s.io`.
    pub fn small(kind: &str) -> Option<&'static Self> {
        deployment::TYPES.small.get(kind)
    }

    /// The shape of `metadata`.
    pub fn metadata() -> &'static Node {
        &deployment::TYPES.metadata
    }

    /// The schema of objects that nothing is known about but their metadata.
    pub fn deduced() -> Self {
        static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
            Schema::with_metadata(Fields { additional: Some(Arc::new(Node::Deduced)), ..Fields::default() })
        });
        SCHEMA.clone()
    }

    /// The schema of a custom resource from its CRD's `openAPIV3Schema`; `apiVersion`, `kind` and
    /// `metadata` are added. Follows `k8s.io/kube-openapi/pkg/schemaconv`.
    ///
    /// # Errors
    /// [`Error::Schema`] for a list of maps without keys, an unknown list or map type, an array without
    /// items, an unknown type, or what is no object at all.
    pub fn from_openapi(schema: &Value) -> Result<Self, Error> {
        match openapi::node(schema)? {
            Node::Map(fields) => Ok(Self::with_metadata(fields)),
            Node::Deduced => Ok(Self::deduced()),
            _ => Err(Error::Schema("the schema of a custom resource must be of type object".to_owned())),
        }
    }

    fn with_metadata(mut fields: Fields) -> Self {
        let text = || Field::of(Node::Scalar(Scalar::String));
        fields.declared.insert("apiVersion".to_owned(), text());
        fields.declared.insert("kind".to_owned(), text());
        fields.declared.insert("metadata".to_owned(), Field::of(Arc::clone(&deployment::TYPES.metadata)));
        Self { root: Arc::new(Node::Map(fields)) }
    }

    /// Whether `object` has only declared fields, of the declared types; duplicates in lists are allowed,
    /// as they are in objects that are not applied.
    ///
    /// # Errors
    /// [`Error::Typed`] with all faults.
    pub fn validate(&self, object: &Value) -> Result<(), Error> {
        typed::validate(object, &self.root, Duplicates::Allowed)
    }

    /// The shape of the whole object.
    pub fn root(&self) -> &Node {
        &self.root
    }
}

/// How a value is treated under its node: the node decides, where it is deduced the value does.
#[derive(Clone, Copy)]
pub(crate) enum Kind<'a> {
    Scalar,
    Map {
        fields: Option<&'a Fields>,
        atomic: bool,
    },
    /// Items have an identity.
    Associative,
    ListAtomic,
}

impl Node {
    pub(crate) fn kind(&self, value: &Value) -> Kind<'_> {
        match self {
            Self::Scalar(_) | Self::Quantity | Self::IntOrString => Kind::Scalar,
            Self::Map(fields) => Kind::Map { fields: Some(fields), atomic: false },
            Self::MapAtomic(fields) => Kind::Map { fields: Some(fields), atomic: true },
            Self::ListMap { .. } | Self::ListSet { .. } => Kind::Associative,
            Self::ListAtomic { .. } => Kind::ListAtomic,
            Self::Deduced => match value {
                Value::Object(_) | Value::Null => Kind::Map { fields: None, atomic: false },
                Value::Array(_) => Kind::ListAtomic,
                _ => Kind::Scalar,
            },
        }
    }

    /// The fields of a map, if it has any that are declared or typed.
    pub(crate) fn fields(&self) -> Option<&Fields> {
        match self {
            Self::Map(fields) | Self::MapAtomic(fields) => Some(fields),
            _ => None,
        }
    }

    /// The declared field `name`.
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.fields()?.declared.get(name)
    }

    /// The shape of the field `name`, declared or not.
    pub(crate) fn child(&self, name: &str) -> &Self {
        match self.fields() {
            Some(fields) => match (fields.declared.get(name), &fields.additional) {
                (Some(field), _) => &field.node,
                (None, Some(node)) => node,
                (None, None) => &Self::Deduced,
            },
            None => &Self::Deduced,
        }
    }

    /// The shape of the items of a list.
    pub(crate) fn element(&self) -> &Self {
        match self {
            Self::ListMap { element, .. } | Self::ListSet { element } | Self::ListAtomic { element } => {
                element
            }
            _ => &Self::Deduced,
        }
    }

    /// The identity of an item of an associative list.
    ///
    /// # Errors
    /// The reason why it has none, as structured-merge-diff words it.
    pub(crate) fn identity(&self, item: &Value) -> Result<PathElement, String> {
        let Self::ListMap { keys, element } = self else {
            return match item {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".to_owned())
                }
                Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
                Value::Null => {
                    Err("associative list without keys has an element that's an explicit null".to_owned())
                }
                scalar => Ok(PathElement::Value(crate::Literal(scalar.clone()))),
            };
        };
        let map = match item {
            Value::Object(map) => map,
            Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
            _ => return Err("associative list with keys may not have non-map elements".to_owned()),
        };
        let fields: Vec<_> = keys
            .iter()
            .filter_map(|key| {
                let default = || element.field(key).and_then(|field| field.default.as_ref());
                Some((key.clone(), map.get(key).or_else(default)?.clone()))
            })
            .collect();
        if fields.is_empty() {
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                 values for any key fields)",
                keys.iter().map(|key| format!("{key:?}")).collect::<Vec<_>>().join(" ")
            ));
        }
        Ok(PathElement::key(fields))
    }

    /// An object of this shape with no value set, as the server's types encode it.
    pub(crate) fn empty(&self) -> Value {
        let Some(fields) = self.fields() else { return Value::Object(Map::new()) };
        let set = fields.declared.iter().filter_map(|(name, field)| match field.zero {
            Zero::Null => Some((name.clone(), Value::Null)),
            Zero::Struct => Some((name.clone(), field.node.empty())),
            Zero::Keep | Zero::Drop | Zero::Fill => None,
        });
        Value::Object(set.collect())
    }
}
