//! Requests for resources: verbs, options, bodies, subresources.
//!
//! Source: `apiserver/pkg/endpoints/handlers`. Must not know how connections are served.

use crate::admit::Endpoint;
use crate::cluster::Cluster;
use crate::patch::PatchKind;
use crate::read::{Renderer, Selection, scale};
use crate::remove::{DeleteOptions, Deleted, Propagation, success};
use crate::resource::{Resource, text};
use crate::route::{Query, ResourcePath};
use crate::server::{Answer, Call, Shared};
use crate::status::{ApiError, FieldError, Qualified};
use crate::store::{Key, Object};
use crate::watch::Watcher;
use crate::write::{FieldValidation, Write, Written};
use axum::body::Body;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

/// The verb of a request, as role-based access and audit logs name it.
pub(crate) fn verb(method: &Method, path: &ResourcePath, query: &Query) -> &'static str {
    match (method.as_str(), path.name.is_empty()) {
        ("GET" | "HEAD", _) if query.flag("watch") => "watch",
        ("GET" | "HEAD", true) => "list",
        ("GET" | "HEAD", false) => "get",
        ("POST", _) => "create",
        ("PUT", false) => "update",
        ("PATCH", false) => "patch",
        ("DELETE", true) => "deletecollection",
        ("DELETE", false) => "delete",
        _ => "",
    }
}

/// Serves a request for a resource.
pub(crate) fn serve(shared: &Arc<Shared>, path: &ResourcePath, call: &Call) -> Result<Answer, ApiError> {
    if (path.group.as_str(), path.plural.as_str()) == ("authorization.k8s.io", "selfsubjectaccessreviews") {
        return allow(call);
    }
    let resource = shared
        .lock()
        .registry
        .find(&path.group, &path.version, &path.plural)
        .ok_or_else(ApiError::no_such_path)?;
    let request = Resourceful { shared, resource, path, call };
    let endpoint = request.endpoint()?;
    let all_namespaces = request.resource.namespaced && path.namespace.is_empty();
    match verb(&call.method, path, &call.query) {
        "watch" if endpoint == Endpoint::Main => request.watch(),
        "list" => request.list(),
        // An object has one namespace.
        "get" | "update" | "patch" | "delete" if all_namespaces => Err(ApiError::no_such_path()),
        "get" => request.get(endpoint),
        "create" if path.name.is_empty() && !all_namespaces => request.create(),
        "update" => request.update(endpoint),
        "patch" => request.patch(endpoint),
        "delete" if endpoint == Endpoint::Main => request.delete(),
        "deletecollection" if !all_namespaces => request.delete_collection(),
        _ => Err(ApiError::method_not_allowed()),
    }
}

/// Everybody may do everything.
fn allow(call: &Call) -> Result<Answer, ApiError> {
    if call.method != Method::POST {
        return Err(ApiError::method_not_allowed());
    }
    let mut review = body(call)?;
    review["status"] = json!({ "allowed": true, "reason": "this server authorizes everything" });
    Ok(Answer::Bytes(StatusCode::CREATED, review.to_string().into(), Vec::new()))
}

/// The body as JSON; YAML is taken too.
fn body(call: &Call) -> Result<Value, ApiError> {
    let media = call.content_type.split(';').next().unwrap_or_default().trim();
    if media.contains("protobuf") || media.contains("cbor") {
        return Err(ApiError::unsupported_media("application/json, application/yaml"));
    }
    let value = if media.ends_with("yaml") {
        serde_json::from_slice(&call.body)
            .or_else(|_| serde_yaml_ng::from_slice::<Value>(&call.body))
            .map_err(|e| ApiError::bad_request(format!("error decoding YAML: {e}")))
    } else {
        serde_json::from_slice(&call.body)
            .map_err(|e| ApiError::bad_request(format!("couldn't get version/kind; json parse error: {e}")))
    };
    let value: Value = value?;
    // Everything but a JSON patch is an object.
    if value.is_object() || media.ends_with("json-patch+json") {
        Ok(value)
    } else {
        Err(ApiError::bad_request(
            "couldn't get version/kind; json parse error: json: cannot unmarshal into an object",
        ))
    }
}

/// The manager of a write: the option, or the user agent up to its first slash.
fn manager(call: &Call) -> String {
    let named = call.query.get("fieldManager");
    if named.is_empty() {
        let program = call.user_agent.split('/').next().unwrap_or_default();
        program.chars().filter(|c| !c.is_control()).take(128).collect()
    } else {
        named.to_owned()
    }
}

struct Resourceful<'a> {
    shared: &'a Arc<Shared>,
    resource: Arc<Resource>,
    path: &'a ResourcePath,
    call: &'a Call,
}

impl Resourceful<'_> {
    fn endpoint(&self) -> Result<Endpoint, ApiError> {
        match self.path.subresource.as_str() {
            "" => Ok(Endpoint::Main),
            "status" if self.resource.status => Ok(Endpoint::Status),
            "scale" if self.resource.scale.is_some() => Ok(Endpoint::Scale),
            _ if self.resource.structural.is_some() => {
                Err(ApiError::not_found(self.resource.qualified(), &self.path.name))
            }
            _ => Err(ApiError::no_such_path()),
        }
    }

    fn key(&self) -> Key {
        Key::new(&self.path.namespace, &self.path.name)
    }

    fn renderer(&self, cluster: &Cluster) -> Result<Renderer, ApiError> {
        let form = self.call.accepted.form(&self.call.query)?;
        Ok(Renderer { resource: self.resource.clone(), form, now: cluster.timestamp() })
    }

    fn selection(&self) -> Result<Selection, ApiError> {
        Selection::parse(&self.resource, &self.path.namespace, &self.path.name, &self.call.query)
    }

    /// The options of a write.
    fn write(&self, endpoint: Endpoint, apply: bool) -> Result<Write, ApiError> {
        let query = &self.call.query;
        let kind = if self.call.method == Method::PATCH { "PatchOptions" } else { "CreateOptions" };
        let mut errors = Vec::new();
        if apply && query.get("fieldManager").is_empty() {
            errors.push(FieldError::required("fieldManager", "is required for apply patch"));
        }
        if !apply && query.has("force") && self.call.method == Method::PATCH {
            errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
        }
        if query.get("fieldManager").len() > 128 {
            errors.push(FieldError::too_long("fieldManager", 128));
        }
        let dry_run = query.get("dryRun");
        let not_supported = |field: &str, values: &str| {
            let kind = crate::status::FieldErrorKind::NotSupported;
            FieldError::with(kind, field, &query.get(field).into(), format!("supported values: {values}"))
        };
        if !matches!(dry_run, "" | "All") {
            errors.push(not_supported("dryRun", "\"All\""));
        }
        let validation = match query.get("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            _ => {
                errors.push(not_supported("fieldValidation", "\"\", \"Ignore\", \"Strict\", \"Warn\""));
                FieldValidation::Warn
            }
        };
        if !errors.is_empty() {
            return Err(ApiError::invalid(Qualified { group: "meta.k8s.io", name: kind }, "", &errors));
        }
        Ok(Write {
            manager: manager(self.call),
            endpoint,
            dry_run: dry_run == "All",
            force: query.flag("force"),
            validation,
            warnings: Vec::new(),
        })
    }

    fn list(&self) -> Result<Answer, ApiError> {
        let cluster = self.shared.lock();
        let renderer = self.renderer(&cluster)?;
        let listing = cluster.list(&self.resource, &self.selection()?, &self.call.query)?;
        drop(cluster);
        Ok(Answer::Bytes(StatusCode::OK, renderer.list(&listing).into(), Vec::new()))
    }

    fn watch(&self) -> Result<Answer, ApiError> {
        let form = self.call.accepted.form(&self.call.query)?;
        let watcher = Watcher::open(self.shared, &self.resource, form, self.selection()?, &self.call.query)?;
        Ok(Answer::Stream(Body::from_stream(watcher.into_stream())))
    }

    fn get(&self, endpoint: Endpoint) -> Result<Answer, ApiError> {
        let cluster = self.shared.lock();
        let renderer = self.renderer(&cluster)?;
        let object = cluster.existing(&self.resource, &self.key())?;
        drop(cluster);
        if endpoint == Endpoint::Scale {
            return Ok(Answer::json(&scale(&self.resource, &object.value).unwrap_or_default()));
        }
        Ok(Answer::Bytes(StatusCode::OK, renderer.object(&object, true), Vec::new()))
    }

    fn written(&self, renderer: &Renderer, written: &Written, write: Write) -> Answer {
        let status = if written.created { StatusCode::CREATED } else { StatusCode::OK };
        let bytes = if write.endpoint == Endpoint::Scale {
            scale(&self.resource, &written.object.value).unwrap_or_default().to_string().into()
        } else {
            renderer.object(&written.object, true)
        };
        Answer::Bytes(status, bytes, write.warnings)
    }

    fn create(&self) -> Result<Answer, ApiError> {
        let mut write = self.write(Endpoint::Main, false)?;
        let object = body(self.call)?;
        let namespace = &self.path.namespace;
        let renderer = self.renderer(&self.shared.lock())?;
        let written = self.shared.change(|c| c.create(&self.resource, namespace, object, &mut write))?;
        Ok(self.written(&renderer, &written, write))
    }

    fn update(&self, endpoint: Endpoint) -> Result<Answer, ApiError> {
        let mut write = self.write(endpoint, false)?;
        let object = body(self.call)?;
        let key = self.key();
        let renderer = self.renderer(&self.shared.lock())?;
        let written = self.shared.change(|c| {
            if endpoint == Endpoint::Scale {
                let old = c.existing(&self.resource, &key)?;
                return self.rescale(c, &key, &old, &object, &mut write);
            }
            c.replace(&self.resource, &key, object, &mut write)
        })?;
        Ok(self.written(&renderer, &written, write))
    }

    fn patch(&self, endpoint: Endpoint) -> Result<Answer, ApiError> {
        let custom = self.resource.structural.is_some();
        let kind = PatchKind::of(&self.call.content_type, custom)?;
        let mut write = self.write(endpoint, kind == PatchKind::Apply)?;
        let patch = body(self.call)?;
        let key = self.key();
        let renderer = self.renderer(&self.shared.lock())?;
        let written = self.shared.change(|c| {
            if endpoint == Endpoint::Scale {
                let old = c.existing(&self.resource, &key)?;
                let live = scale(&self.resource, &old.value).unwrap_or_default();
                let kind = if kind == PatchKind::Json { kind } else { PatchKind::Merge };
                let patched = kind.apply(&live, &patch, &self.resource.merge)?;
                return self.rescale(c, &key, &old, &patched, &mut write);
            }
            c.patch(&self.resource, &key, kind, &patch, &mut write)
        })?;
        Ok(self.written(&renderer, &written, write))
    }

    /// Writes a scale's replicas into the object that it belongs to.
    fn rescale(
        &self,
        cluster: &mut Cluster,
        key: &Key,
        old: &Arc<Object>,
        wanted: &Value,
        write: &mut Write,
    ) -> Result<Written, ApiError> {
        let replicas = wanted.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
        if replicas < 0 {
            let detail = "must be greater than or equal to 0";
            let error = FieldError::invalid("spec.replicas", &replicas.into(), detail);
            let kind = Qualified { group: "autoscaling", name: "Scale" };
            return Err(ApiError::invalid(kind, &key.name, &[error]));
        }
        let mut value = old.value.clone();
        let version = text(wanted, "/metadata/resourceVersion");
        if !version.is_empty() {
            value["metadata"]["resourceVersion"] = version.into();
        }
        let pointer = self.resource.scale.as_ref().map(|s| s.spec.clone()).unwrap_or_default();
        set_at(&mut value, &pointer, replicas.into());
        cluster.rewrite(&self.resource, key, old, value, write)
    }

    fn delete_options(&self) -> Result<DeleteOptions, ApiError> {
        let given = if self.call.body.is_empty() { Value::Null } else { body(self.call)? };
        let mut options = DeleteOptions::parse(&given)?;
        let query = &self.call.query;
        if options.propagation.is_none() {
            let from_query = json!({ "propagationPolicy": query.get("propagationPolicy") });
            options.propagation = DeleteOptions::parse(&from_query)?.propagation;
        }
        if options.propagation.is_none() && query.has("orphanDependents") {
            let orphan = query.flag("orphanDependents");
            options.propagation = Some(if orphan { Propagation::Orphan } else { Propagation::Background });
        }
        options.dry_run |= query.get("dryRun") == "All";
        Ok(options)
    }

    fn delete(&self) -> Result<Answer, ApiError> {
        let options = self.delete_options()?;
        let renderer = self.renderer(&self.shared.lock())?;
        let deleted = self.shared.change(|c| c.delete(&self.resource, &self.key(), &options))?;
        Ok(match deleted {
            Deleted::Gone(object) => Answer::json(&success(&self.resource, &object)),
            Deleted::Pending(object) => {
                Answer::Bytes(StatusCode::OK, renderer.object(&object, true), Vec::new())
            }
        })
    }

    fn delete_collection(&self) -> Result<Answer, ApiError> {
        let options = self.delete_options()?;
        let selection = self.selection()?;
        let renderer = self.renderer(&self.shared.lock())?;
        let listing = self.shared.change(|c| {
            let listing = c.list(&self.resource, &selection, &self.call.query)?;
            for object in &listing.objects {
                let key = Key::new(object.meta("namespace"), object.meta("name"));
                c.delete(&self.resource, &key, &options)?;
            }
            Ok(listing)
        })?;
        Ok(Answer::Bytes(StatusCode::OK, renderer.list(&listing).into(), Vec::new()))
    }
}

/// Sets a field, making the objects on the way to it.
fn set_at(value: &mut Value, pointer: &str, to: Value) {
    let mut place = value;
    for step in pointer.split('/').filter(|s| !s.is_empty()) {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[step];
    }
    *place = to;
}
