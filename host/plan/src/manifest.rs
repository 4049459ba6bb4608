//! The manifest of `apply-deployment`: what may be in it, and the apply configuration it becomes.
//!
//! Owns: the scope of a guest (name, namespace, kind, owner). Must not know what is live, but for
//! [`check_selector`].

use crate::object::{LAST_APPLIED, Meta};
use crate::spec::kind_of;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fmt;

/// The deployment controller writes it with each rollout: a guest that named it would fight for ever.
const REVISION: &str = "deployment.kubernetes.io/revision";

/// The apply configuration for the Foo's Deployment `name`: what the guest named, and the host's
/// `apiVersion`, `kind`, name, namespace and controller reference.
///
/// # Errors
/// One line that says what is wrong with the manifest and what would be right.
pub(crate) fn desired(text: &str, foo: &Meta, name: &str) -> Result<Value, String> {
    let mut manifest = parse(text)?;
    expect(&manifest, "apiVersion", "apps/v1")?;
    expect(&manifest, "kind", "Deployment")?;
    only(&manifest, "", &["apiVersion", "kind", "metadata", "spec"])?;
    let metadata = metadata(manifest.remove("metadata"), foo, name)?;
    let spec = manifest.remove("spec").ok_or("spec is missing")?;
    check_spec(&spec)?;
    Ok(json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec }))
}

/// A live Deployment's selector cannot change: the API would answer 422 for ever.
pub(crate) fn check_selector(desired: &Value, live: &Value) -> Result<(), String> {
    let selector = |object: &Value| {
        let mut selector = object.pointer("/spec/selector").cloned().unwrap_or_default();
        drop_empty(&mut selector);
        selector
    };
    let (wanted, there) = (selector(desired), selector(live));
    if wanted == there {
        return Ok(());
    }
    Err(format!(
        "spec.selector of a live Deployment cannot change: it is {}, the manifest has {}",
        contract::truncate(&contract::canonical_json(&there), 300),
        contract::truncate(&contract::canonical_json(&wanted), 300)
    ))
}

fn parse(text: &str) -> Result<Map<String, Value>, String> {
    let max = contract::MAX_MANIFEST_BYTES;
    if text.len() > max {
        return Err(format!("the manifest has {} bytes, at most {max} are possible", text.len()));
    }
    let not_json =
        |error: serde_json::Error| format!("the manifest is not JSON of the contract's form: {error}");
    let mut deserializer = serde_json::Deserializer::from_str(text);
    Form { depth: 0 }.deserialize(&mut deserializer).map_err(not_json)?;
    match serde_json::from_str(text).map_err(not_json)? {
        Value::Object(mut manifest) => {
            manifest.retain(|_, value| drop_null(value));
            Ok(manifest)
        }
        other => Err(format!("the manifest is {}, not an object", kind_of(&other))),
    }
}

/// `null` names nothing; says whether the value itself stays.
fn drop_null(value: &mut Value) -> bool {
    match value {
        Value::Null => return false,
        Value::Object(map) => map.retain(|_, value| drop_null(value)),
        // A null in a list stays, for the API to refuse: dropping it would move its neighbours.
        Value::Array(items) => {
            for item in items {
                drop_null(item);
            }
        }
        _ => {}
    }
    true
}

/// Empty maps and lists equal absent ones in a selector.
fn drop_empty(value: &mut Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(map) => {
            map.retain(|_, value| drop_empty(value));
            !map.is_empty()
        }
        Value::Array(items) => {
            for item in items.iter_mut() {
                drop_empty(item);
            }
            !items.is_empty()
        }
        _ => true,
    }
}

fn expect(map: &Map<String, Value>, field: &str, only: &str) -> Result<(), String> {
    match map.get(field) {
        None => Ok(()),
        Some(Value::String(text)) if text == only => Ok(()),
        Some(Value::String(text)) => {
            Err(format!("{field} is {:?}, must be left out or {only:?}", contract::truncate(text, 100)))
        }
        Some(other) => Err(format!("{field} is {}, must be left out or {only:?}", kind_of(other))),
    }
}

fn only(map: &Map<String, Value>, prefix: &str, allowed: &[&str]) -> Result<(), String> {
    match map.keys().find(|key| !allowed.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => {
            let key = contract::truncate(key, 100);
            Err(format!("{prefix}{key} is not the guest's to set; possible are {}", allowed.join(", ")))
        }
    }
}

fn metadata(given: Option<Value>, foo: &Meta, name: &str) -> Result<Value, String> {
    let mut metadata = match given {
        None => Map::new(),
        Some(Value::Object(map)) => map,
        Some(other) => return Err(format!("metadata is {}, not an object", kind_of(&other))),
    };
    only(&metadata, "metadata.", &["name", "namespace", "labels", "annotations"])?;
    expect(&metadata, "name", name).map_err(|message| format!("metadata.{message}"))?;
    expect(&metadata, "namespace", &foo.namespace).map_err(|message| format!("metadata.{message}"))?;
    for field in ["labels", "annotations"] {
        strings(metadata.get(field)).map_err(|message| format!("metadata.{field}{message}"))?;
    }
    for annotation in [LAST_APPLIED, REVISION] {
        if metadata.get("annotations").is_some_and(|annotations| annotations.get(annotation).is_some()) {
            return Err(format!("metadata.annotations names {annotation}, which is not the guest's to set"));
        }
    }
    metadata.insert("name".to_owned(), name.into());
    metadata.insert("namespace".to_owned(), foo.namespace.as_str().into());
    let owner = json!({
        "apiVersion": foo_api::API_VERSION,
        "kind": foo_api::KIND,
        "name": foo.name,
        "uid": foo.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    });
    metadata.insert("ownerReferences".to_owned(), Value::Array(vec![owner]));
    Ok(Value::Object(metadata))
}

/// A map of strings, or nothing.
fn strings(map: Option<&Value>) -> Result<(), String> {
    match map {
        None => Ok(()),
        Some(Value::Object(map)) => match map.iter().find(|(_, value)| !value.is_string()) {
            None => Ok(()),
            Some((key, value)) => {
                Err(format!("[{:?}] is {}, not a string", contract::truncate(key, 100), kind_of(value)))
            }
        },
        Some(other) => Err(format!(" is {}, not an object", kind_of(other))),
    }
}

/// What the API would refuse in every attempt, said in the guest's terms.
fn check_spec(spec: &Value) -> Result<(), String> {
    if !spec.is_object() {
        return Err(format!("spec is {}, not an object", kind_of(spec)));
    }
    let part = |path: &str| spec.pointer(path).and_then(Value::as_object);
    let selector = part("/selector").ok_or("spec.selector is missing or not an object")?;
    part("/template").ok_or("spec.template is missing or not an object")?;
    // ReplicaSets copy a template's finalizers to the pods; nobody would ever remove them.
    for field in ["finalizers", "ownerReferences", "managedFields", "generateName"] {
        if part("/template/metadata").is_some_and(|metadata| metadata.contains_key(field)) {
            return Err(format!("spec.template.metadata.{field} is not the guest's to set"));
        }
    }
    let labels = part("/template/metadata/labels");
    for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
        if labels.and_then(|labels| labels.get(key)) != Some(value) {
            let key = contract::truncate(key, 100);
            return Err(format!(
                "spec.selector.matchLabels[{key:?}] does not match spec.template.metadata.labels"
            ));
        }
    }
    Ok(())
}

/// Walks JSON text and refuses what `serde_json::Value` would swallow: duplicate keys and depth.
struct Form {
    /// Levels above.
    depth: usize,
}

impl Form {
    /// The form of what lies in a map or list here.
    fn inside<E: de::Error>(&self) -> Result<usize, E> {
        if self.depth >= contract::MAX_MANIFEST_DEPTH {
            return Err(E::custom(format!("more than {} levels deep", contract::MAX_MANIFEST_DEPTH)));
        }
        Ok(self.depth + 1)
    }
}

impl<'de> DeserializeSeed<'de> for Form {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Form {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let depth = self.inside()?;
        let mut keys = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            map.next_value_seed(Form { depth })?;
            if let Some(key) = keys.replace(key) {
                let key = contract::truncate(&key, 100);
                return Err(de::Error::custom(format!("duplicate key {key:?}")));
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let depth = self.inside()?;
        while items.next_element_seed(Form { depth })?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}
