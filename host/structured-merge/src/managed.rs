//! `metadata.managedFields`: its entries, and what a request says about itself.
//!
//! Must not know schemas or how fields are found.

use crate::{Conflict, Error, FieldSet, Path};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How an entry came about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Operation {
    /// A server-side apply: the entry is the applied configuration.
    Apply,
    /// Any other write: the entry is what the write changed.
    #[default]
    Update,
}

impl Operation {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// One entry of `metadata.managedFields` (`metav1.ManagedFieldsEntry`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManagedFields {
    /// Name of the field manager.
    #[serde(default)]
    pub manager: String,
    /// Kind of operation.
    #[serde(default)]
    pub operation: Operation,
    /// API version that the field names belong to, `apps/v1`.
    #[serde(default)]
    pub api_version: String,
    /// When it changed last, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Always `FieldsV1`.
    #[serde(default = "fields_type")]
    pub fields_type: String,
    /// The fields, see [`FieldSet::from_fields_v1`].
    #[serde(default, rename = "fieldsV1")]
    pub fields_v1: Value,
    /// Subresource that was written, empty for the main resource.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subresource: String,
}

fn fields_type() -> String {
    "FieldsV1".to_owned()
}

impl ManagedFields {
    /// The entries of an object, empty when it has none.
    pub fn of_object(object: &Value) -> Result<Vec<Self>, Error> {
        match object.pointer("/metadata/managedFields") {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(entries) => Self::deserialize_list(entries)
                .map_err(|error| Error::FieldsV1(format!("managedFields: {error}"))),
        }
    }

    fn deserialize_list(entries: &Value) -> Result<Vec<Self>, serde_json::Error> {
        Vec::<Self>::deserialize(entries)
    }

    /// Whether two lists of entries are the same but for the times: then a write that changes nothing
    /// else is none (`IgnoreManagedFieldsTimestampsTransformer` of the API server).
    pub fn same_but_times(a: &[Self], b: &[Self]) -> bool {
        let timeless = |entry: &Self| Self { time: None, ..entry.clone() };
        a.len() == b.len() && a.iter().all(|entry| b.iter().any(|other| timeless(entry) == timeless(other)))
    }

    /// The fields as a set.
    pub fn fields(&self) -> Result<FieldSet, Error> {
        FieldSet::from_fields_v1(&self.fields_v1)
    }
}

/// Who writes, as which version, when.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Field manager.
    pub manager: &'a str,
    /// API version of the request, `apps/v1`.
    pub api_version: &'a str,
    /// Subresource that is written, empty for the main resource.
    pub subresource: &'a str,
    /// Time of the write, RFC 3339 in whole seconds.
    pub time: &'a str,
    /// Fields that this endpoint resets and so never owns, with all below them: `.status` for the main
    /// resource, `.spec` for its status (`GetResetFields` of the server's strategies).
    pub reset: &'a FieldSet,
}

/// Who an entry belongs to: entries of one owner are one entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    manager: String,
    operation: Operation,
    /// Empty for `Apply`: a manager has one applied configuration whatever its version.
    api_version: String,
    subresource: String,
}

impl Owner {
    pub(crate) fn of(request: &Request<'_>, operation: Operation) -> Self {
        Self::new(request.manager, operation, request.api_version, request.subresource)
    }

    fn new(manager: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let api_version = if operation == Operation::Apply { "" } else { api_version };
        Self {
            manager: manager.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }

    /// The order in which the server lists owners: that of their JSON.
    pub(crate) fn identity(&self) -> String {
        let mut text =
            format!("{{\"manager\":{:?},\"operation\":{:?}", self.manager, self.operation.as_str());
        for (name, value) in [("apiVersion", &self.api_version), ("subresource", &self.subresource)] {
            if !value.is_empty() {
                let _ = write!(text, ",{name:?}:{value:?}");
            }
        }
        text + "}"
    }

    pub(crate) fn conflict(&self, path: Path) -> Conflict {
        Conflict {
            manager: self.manager.clone(),
            operation: self.operation,
            api_version: self.api_version.clone(),
            subresource: self.subresource.clone(),
            path,
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    fields: FieldSet,
    api_version: String,
    time: Option<String>,
}

/// Most entries of updates that are kept (`DefaultMaxUpdateManagers`).
const MAX_UPDATE_MANAGERS: usize = 10;

/// The decoded entries of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Managers {
    entries: BTreeMap<Owner, Entry>,
}

impl Managers {
    pub(crate) fn decode(entries: &[ManagedFields]) -> Result<Self, Error> {
        let mut managers = Self::default();
        for (index, entry) in entries.iter().enumerate() {
            if entry.api_version.is_empty() {
                return Err(Error::FieldsV1("apiVersion must not be empty".to_owned()));
            }
            if entry.fields_type != "FieldsV1" {
                let kind = &entry.fields_type;
                let text = format!("invalid fieldsType {kind:?} in managed fields entry {index}");
                return Err(Error::FieldsV1(text));
            }
            let owner = Owner::new(&entry.manager, entry.operation, &entry.api_version, &entry.subresource);
            let (api_version, time) = (entry.api_version.clone(), entry.time.clone());
            managers.entries.insert(owner, Entry { fields: entry.fields()?, api_version, time });
        }
        Ok(managers)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Owner, &FieldSet)> {
        self.entries.iter().map(|(owner, entry)| (owner, &entry.fields))
    }

    pub(crate) fn fields(&self, owner: &Owner) -> Option<&FieldSet> {
        self.entries.get(owner).map(|entry| &entry.fields)
    }

    pub(crate) fn all_fields(&self) -> FieldSet {
        self.entries.values().fold(FieldSet::default(), |all, entry| all.union(&entry.fields))
    }

    /// Sets the fields of `owner`; the time is left to [`Self::touch`].
    pub(crate) fn replace(&mut self, owner: Owner, fields: FieldSet, request: &Request<'_>) {
        let time = self.entries.get(&owner).and_then(|entry| entry.time.clone());
        self.entries.insert(owner, Entry { fields, api_version: request.api_version.to_owned(), time });
    }

    /// Adds to the fields of `owner`.
    pub(crate) fn add(&mut self, owner: &Owner, fields: &FieldSet, request: &Request<'_>) {
        let fields = self.fields(owner).map_or_else(|| fields.clone(), |own| own.union(fields));
        self.replace(owner.clone(), fields, request);
        self.touch(owner, request.time);
    }

    pub(crate) fn touch(&mut self, owner: &Owner, time: &str) {
        if let Some(entry) = self.entries.get_mut(owner) {
            entry.time = Some(time.to_owned());
        }
    }

    /// Replaces all fields; entries left without any are gone.
    pub(crate) fn retain_fields(&mut self, left: impl Fn(&Owner, &FieldSet) -> FieldSet) {
        self.entries.retain(|owner, entry| {
            entry.fields = left(owner, &entry.fields);
            !entry.fields.is_empty()
        });
    }

    /// Merges the oldest updates into `ancient-changes`, one for each version, until few are left.
    pub(crate) fn cap_updates(&mut self) {
        let mut updates: Vec<_> = self
            .entries
            .iter()
            .filter(|(owner, _)| owner.operation == Operation::Update)
            .map(|(owner, entry)| (entry.time.clone(), owner.clone()))
            .collect();
        updates.sort();
        let mut count = updates.len();
        let mut first_of_version = BTreeMap::<String, Owner>::new();
        for (time, owner) in updates {
            if count <= MAX_UPDATE_MANAGERS {
                return;
            }
            let bucket = Owner::new("ancient-changes", Operation::Update, &owner.api_version, "");
            let Some(first) = first_of_version.get(&owner.api_version) else {
                first_of_version.insert(owner.api_version.clone(), owner);
                continue;
            };
            for merged in [first.clone(), owner] {
                if merged != bucket
                    && let Some(entry) = self.entries.remove(&merged)
                {
                    let fields = self
                        .fields(&bucket)
                        .map_or_else(|| entry.fields.clone(), |all| all.union(&entry.fields));
                    self.entries.insert(bucket.clone(), Entry { fields, time: time.clone(), ..entry });
                }
            }
            count -= 1;
        }
    }

    pub(crate) fn encode(&self) -> Vec<ManagedFields> {
        let mut entries: Vec<_> = self
            .entries
            .iter()
            .map(|(owner, entry)| ManagedFields {
                manager: owner.manager.clone(),
                operation: owner.operation,
                api_version: entry.api_version.clone(),
                time: entry.time.clone(),
                fields_type: fields_type(),
                fields_v1: entry.fields.to_fields_v1(),
                subresource: owner.subresource.clone(),
            })
            .collect();
        // RFC 3339 in whole seconds sorts as text.
        entries.sort_by(|a, b| {
            let key = |entry: &'_ ManagedFields| (entry.operation, entry.time.clone());
            let rest = |entry: &'_ ManagedFields| {
                (entry.manager.clone(), entry.api_version.clone(), entry.subresource.clone())
            };
            key(a).cmp(&key(b)).then_with(|| rest(a).cmp(&rest(b)))
        });
        entries
    }
}
