//! What the API knows about the shape of an object: which lists have keys, which values are atomic,
//! how a strategic merge patch treats a field.
//!
//! Must not know how any of it is used.

use crate::Error;
use serde_json::Value;
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
    Scalar,
    /// A resource quantity, equal by value: `1000m` is `1`.
    Quantity,
    /// A number or a string, `x-kubernetes-int-or-string`.
    IntOrString,
    /// A map or struct whose fields are owned one by one.
    Map {
        /// Declared fields.
        fields: BTreeMap<String, Field>,
        /// Shape of all others; `None`: there are none.
        additional: Option<Arc<Node>>,
    },
    /// A map or struct that is owned as a whole (`x-kubernetes-map-type: atomic`).
    MapAtomic {
        /// Declared fields.
        fields: BTreeMap<String, Field>,
        /// Shape of all others; `None`: there are none.
        additional: Option<Arc<Node>>,
    },
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

/// A declared field.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its shape.
    pub node: Arc<Node>,
    /// The value that the API fills in; part of the identity of a list item when the field is a key.
    pub default: Option<Value>,
    /// `patchStrategy: merge` of a list: items are merged, not replaced.
    pub patch_merge: bool,
    /// `patchMergeKey` of a list of objects.
    pub patch_merge_key: Option<String>,
    /// `patchStrategy: retainKeys`: a patch lists in `$retainKeys` which fields stay.
    pub retain_keys: bool,
}

impl Schema {
    /// The schema of `apps/v1` Deployment.
    pub fn deployment() -> &'static Self {
        static SCHEMA: LazyLock<Schema> = LazyLock::new(Schema::deduced);
        &SCHEMA
    }

    /// The schema of objects that nothing is known about.
    pub fn deduced() -> Self {
        Self { root: Arc::new(Node::Deduced) }
    }

    /// The schema of a custom resource from its CRD's `openAPIV3Schema`; `apiVersion`, `kind` and
    /// `metadata` are added.
    pub fn from_openapi(schema: &Value) -> Result<Self, Error> {
        if schema.is_object() { Ok(Self::deduced()) } else { Err(Error::Schema("not an object".to_owned())) }
    }

    /// The shape of the whole object.
    pub fn root(&self) -> &Node {
        &self.root
    }
}
