//! Requests for resources: verbs, options, bodies, subresources.
//!
//! Source: `apiserver/pkg/endpoints/handlers`. Must not know how connections are served.

use crate::admit::Endpoint;
use crate::cluster::Cluster;
use crate::patch::PatchKind;
use crate::read::{Renderer, Selection, scale};
use crate::remove::{DeleteOptions, Deleted, Propagation, success};
use crate::resource::{Behaviour, Resource, text};
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
        ("GET" | "HEAD", true) if query.flag("watch") => "watch",
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
    let found = {
        let cluster = shared.lock();
        let resource = cluster.registry.find(&path.group, &path.version, &path.plural);
        resource.ok_or_else(|| no_such_resource(&cluster, path))
    };
    let resource = found?;
    let request = Resourceful { shared, resource, path, call };
    if !request.resource.namespaced && !path.namespace.is_empty() {
        return Err(ApiError::no_such_resource());
    }
    let endpoint = request.endpoint()?;
    let all_namespaces = request.resource.namespaced && path.namespace.is_empty();
    match verb(&call.method, path, &call.query) {
        "watch" if endpoint == Endpoint::Main => request.watch(),
        "list" => request.list(),
        // An object has one namespace.
        "get" | "update" | "patch" | "delete" if all_namespaces => Err(request.nowhere()),
        "create" | "deletecollection" if all_namespaces && request.resource.structural.is_some() => {
            Err(request.nowhere())
        }
        "get" => request.get(endpoint),
        "create" if path.name.is_empty() && !all_namespaces => request.create(),
        // Namespaces do not go all at once.
        "deletecollection" if request.resource.behaviour == Behaviour::Namespace => {
            Err(ApiError::method_not_allowed())
        }
        "update" => request.update(endpoint),
        "patch" => request.patch(endpoint),
        "delete" if endpoint == Endpoint::Main => request.delete(),
        "deletecollection" if !all_namespaces => request.delete_collection(),
        _ => Err(ApiError::method_not_allowed()),
    }
}

/// Below a version that is served the router answers, elsewhere nobody.
fn no_such_resource(cluster: &Cluster, path: &ResourcePath) -> ApiError {
    let mut served =
        cluster.registry.all().iter().filter(|r| r.group == path.group && r.version == path.version);
    if served.any(|r| r.structural.is_none()) {
        ApiError::no_such_resource()
    } else {
        ApiError::no_such_path()
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
    let known = ["", "application/json", "application/yaml"];
    if !known.contains(&media) {
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
    if value.is_object() {
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
            _ => Err(ApiError::no_such_resource()),
        }
    }

    /// The router knows the paths of built-in kinds, that of custom resources does not.
    fn nowhere(&self) -> ApiError {
        if self.resource.structural.is_none() {
            ApiError::no_such_resource()
        } else {
            ApiError::no_such_path()
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
        let kind = match self.call.method {
            Method::PATCH => "PatchOptions",
            Method::PUT => "UpdateOptions",
            _ => "CreateOptions",
        };
        let mut errors = Vec::new();
        if apply && query.get("fieldManager").is_empty() {
            errors.push(FieldError::required("fieldManager", "is required for apply patch"));
        }
        if !apply && query.has("force") && self.call.method == Method::PATCH {
            errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
        }
        field_manager(query.get("fieldManager"), &mut errors);
        let dry_run = dry_run(query, &mut errors);
        let validation = match query.get("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let values = "\"\", \"Ignore\", \"Strict\", \"Warn\"";
                errors.push(FieldError::not_supported("fieldValidation", &other.into(), values));
                FieldValidation::Warn
            }
        };
        if !errors.is_empty() {
            return Err(ApiError::invalid(Qualified { group: "meta.k8s.io", name: kind }, "", &errors));
        }
        let mut write = Write {
            manager: manager(self.call),
            api_version: self.resource.api_version(),
            endpoint,
            dry_run,
            force: query.flag("force"),
            validation,
            warnings: Vec::new(),
        };
        write.warnings.extend(self.resource.deprecation.clone());
        Ok(write)
    }

    /// Warnings of every answer.
    fn warnings(&self) -> Vec<String> {
        self.resource.deprecation.iter().cloned().collect()
    }

    fn list(&self) -> Result<Answer, ApiError> {
        let cluster = self.shared.lock();
        let renderer = self.renderer(&cluster)?;
        let listing = cluster.list(&self.resource, &self.selection()?, &self.call.query)?;
        drop(cluster);
        Ok(Answer::Bytes(StatusCode::OK, renderer.list(&listing).into(), self.warnings()))
    }

    fn watch(&self) -> Result<Answer, ApiError> {
        let form = self.call.accepted.form(&self.call.query)?;
        let watcher = Watcher::open(self.shared, &self.resource, form, self.selection()?, &self.call.query)?;
        Ok(Answer::Stream(Body::from_stream(watcher.into_stream())))
    }

    fn get(&self, endpoint: Endpoint) -> Result<Answer, ApiError> {
        let cluster = self.shared.lock();
        let renderer = self.renderer(&cluster)?;
        let wanted = self.call.query.version("resourceVersion")?.unwrap_or(0);
        if wanted > cluster.store.version() {
            return Err(ApiError::too_large_version(wanted, cluster.store.version()));
        }
        let object = cluster.existing(&self.resource, &self.key())?;
        drop(cluster);
        if endpoint == Endpoint::Scale {
            return Ok(Answer::json(&scale(&self.resource, &object.value).unwrap_or_default()));
        }
        Ok(Answer::Bytes(StatusCode::OK, renderer.object(&object, true), self.warnings()))
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
        let patch = patch_body(self.call, kind)?;
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
        let custom = self.resource.structural.is_some();
        let kind = text(wanted, "/kind");
        if !matches!(kind, "" | "Scale") {
            return Err(ApiError::bad_request(if custom {
                "no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\""
                    .to_owned()
            } else {
                format!(
                    "{kind} in version \"v1\" cannot be handled as a Scale: converting (v1.{kind}) to (autoscaling.Scale): unknown conversion"
                )
            }));
        }
        let replicas = wanted.pointer("/spec/replicas").unwrap_or(&Value::Null);
        if !replicas.is_null() && replicas.as_i64().is_none_or(|n| i32::try_from(n).is_err()) {
            let what = crate::meta::go_kind(replicas);
            let fault = format!(
                "json: cannot unmarshal {what} into Go struct field ScaleSpec.spec.replicas of type int32"
            );
            return Err(crate::identity::invalid_patch(wanted, &fault));
        }
        let replicas = replicas.as_i64().unwrap_or(0);
        if replicas < 0 && !custom {
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
        let query = &self.call.query;
        // Options come in the body or, without one, in the query.
        let given = if self.call.body.is_empty() {
            let dry_run: Vec<_> = query.all("dryRun").collect();
            if dry_run.is_empty() { Value::Null } else { json!({ "dryRun": dry_run }) }
        } else {
            body(self.call)?
        };
        let mut options = DeleteOptions::parse(&given)?;
        if options.propagation.is_none() {
            let from_query = json!({ "propagationPolicy": query.get("propagationPolicy") });
            options.propagation = DeleteOptions::parse(&from_query)?.propagation;
        }
        if options.propagation.is_none() && query.has("orphanDependents") {
            let orphan = query.flag("orphanDependents");
            options.propagation = Some(if orphan { Propagation::Orphan } else { Propagation::Background });
        }
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

/// The body of a patch: whatever JSON, or for an apply YAML, that is an object or a list of operations.
fn patch_body(call: &Call, kind: PatchKind) -> Result<Value, ApiError> {
    let (wanted, fits): (_, fn(&Value) -> bool) = match kind {
        PatchKind::Json => ("[]handlers.jsonPatchOp", Value::is_array),
        _ => ("map[string]interface {}", Value::is_object),
    };
    let prefix = if kind == PatchKind::Apply { "error decoding YAML: " } else { "error decoding patch: " };
    let value: Value = if kind == PatchKind::Apply {
        let parsed = serde_json::from_slice(&call.body).or_else(|_| serde_yaml_ng::from_slice(&call.body));
        let fault = |e: serde_yaml_ng::Error| {
            let text = e.to_string();
            let what = text.split(" at line ").next().unwrap_or_default();
            ApiError::bad_request(format!("{prefix}error converting YAML to JSON: yaml: {what}"))
        };
        match parsed.map_err(fault)? {
            Value::Null => json!({}),
            value => value,
        }
    } else {
        serde_json::from_slice(&call.body).map_err(|e| ApiError::bad_request(format!("{prefix}{e}")))?
    };
    if fits(&value) {
        return Ok(value);
    }
    let what = crate::meta::go_kind(&value);
    let decoding =
        if kind == PatchKind::Apply { "error unmarshaling JSON: while decoding JSON: " } else { "" };
    Err(ApiError::bad_request(format!(
        "{prefix}{decoding}json: cannot unmarshal {what} into Go value of type {wanted}"
    )))
}

fn field_manager(name: &str, errors: &mut Vec<FieldError>) {
    if name.len() > 128 {
        errors.push(FieldError::too_long("fieldManager", 128));
    }
    if let Some((at, bad)) = name.chars().enumerate().find(|(_, c)| c.is_control()) {
        let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(bad));
        errors.push(FieldError::invalid_go("fieldManager", name, detail));
    }
}

fn dry_run(query: &Query, errors: &mut Vec<FieldError>) -> bool {
    let given: Vec<_> = query.all("dryRun").collect();
    if given.iter().any(|value| *value != "All") {
        errors.push(FieldError::not_supported("dryRun", &json!(given), "\"All\""));
    }
    !given.is_empty()
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
