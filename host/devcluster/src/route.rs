//! What a request asks for: its path, its query, the form in which it wants the answer.
//!
//! Source: `apiserver/pkg/endpoints/request/requestinfo.go`. Must not know resources or storage.

use crate::status::ApiError;

/// A resource's path, `/apis/GROUP/VERSION/namespaces/NS/PLURAL/NAME/SUBRESOURCE` and its shorter forms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: String,
    pub(crate) plural: String,
    /// Empty for the collection.
    pub(crate) name: String,
    pub(crate) subresource: String,
}

/// A request's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Resource(ResourcePath),
    /// `/api` or `/apis`.
    Roots {
        core: bool,
    },
    /// `/apis/GROUP`.
    Group(String),
    /// `/api/v1` or `/apis/GROUP/VERSION`.
    Version {
        group: String,
        version: String,
    },
    /// Everything else, as its steps.
    Other(Vec<String>),
}

/// Undoes percent encoding; what cannot be decoded stays.
pub(crate) fn decode(text: &str, plus_is_space: bool) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let mut ahead = rest.clone();
        let digits = (ahead.next(), ahead.next());
        let hex = |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16));
        match (byte, hex(digits.0), hex(digits.1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = ahead;
            }
            (b'+', ..) if plus_is_space => bytes.push(b' '),
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Route {
    pub(crate) fn parse(path: &str) -> Self {
        let steps: Vec<String> =
            path.split('/').filter(|s| !s.is_empty()).map(|s| decode(s, false)).collect();
        let words: Vec<&str> = steps.iter().map(String::as_str).collect();
        let (group, version, rest) = match words.as_slice() {
            ["api"] => return Self::Roots { core: true },
            ["apis"] => return Self::Roots { core: false },
            ["apis", group] => return Self::Group((*group).to_owned()),
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return Self::Other(steps),
        };
        let mut found =
            ResourcePath { group: group.to_owned(), version: version.to_owned(), ..Default::default() };
        let rest = match rest {
            [] => return Self::Version { group: found.group, version: found.version },
            // A namespace itself, or its status or finalize, is a resource of its own.
            ["namespaces", namespace, rest @ ..]
                if !rest.is_empty() && !matches!(rest, ["status" | "finalize"]) =>
            {
                (*namespace).clone_into(&mut found.namespace);
                rest
            }
            rest => rest,
        };
        let step = |at: usize| rest.get(at).map(|s| (*s).to_owned()).unwrap_or_default();
        if rest.len() > 3 {
            return Self::Other(steps);
        }
        (found.plural, found.name, found.subresource) = (step(0), step(1), step(2));
        Self::Resource(found)
    }
}

/// A query string; a key's last value counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|p| !p.is_empty());
        Self(
            pairs
                .map(|p| p.split_once('=').unwrap_or((p, "")))
                .map(|(k, v)| (decode(k, true), decode(v, true)))
                .collect(),
        )
    }

    /// The value, empty where there is none.
    pub(crate) fn get(&self, key: &str) -> &str {
        self.0.iter().rev().find(|(k, _)| k == key).map(|(_, v)| v.as_str()).unwrap_or_default()
    }

    /// All values of a key.
    pub(crate) fn all(&self, key: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(k, _)| k == key)
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        matches!(self.get(key), "true" | "1" | "True" | "TRUE" | "t" | "T")
    }

    /// A number, `None` where there is none or a negative one.
    pub(crate) fn number(&self, key: &str) -> Result<Option<u64>, ApiError> {
        match self.get(key) {
            "" => Ok(None),
            text => match text.parse::<i64>() {
                Ok(number) => Ok(u64::try_from(number).ok()),
                Err(_) => {
                    Err(ApiError::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax")))
                }
            },
        }
    }

    /// A resource version, `None` where there is none.
    pub(crate) fn version(&self, key: &str) -> Result<Option<u64>, ApiError> {
        match self.get(key) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                ApiError::bad_request(format!(
                    "invalid resource version: {key}: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
                ))
            }),
        }
    }
}

/// The form in which the client wants objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Whole,
    Table(Include),
    /// `PartialObjectMetadata`.
    Metadata,
}

/// What the rows of a Table carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Object,
}

/// The media type that the client asked to be served as, and where it wants one, its `as` parameters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accepted {
    pub(crate) profile: String,
    pub(crate) group: String,
    pub(crate) version: String,
}

/// The first media type of an `Accept` header that this server can serve: it speaks JSON only.
pub(crate) fn accept(header: &str) -> Result<Accepted, ApiError> {
    let header = if header.trim().is_empty() { "*/*" } else { header };
    for one in header.split(',') {
        let mut parts = one.split(';').map(str::trim);
        let json = parts.next().is_some_and(|media| {
            matches!(media.to_ascii_lowercase().as_str(), "application/json" | "application/*" | "*/*")
        });
        if json {
            let mut accepted = Accepted::default();
            for part in parts {
                match part.split_once('=') {
                    Some(("as", value)) => value.clone_into(&mut accepted.profile),
                    Some(("g", value)) => value.clone_into(&mut accepted.group),
                    Some(("v", value)) => value.clone_into(&mut accepted.version),
                    _ => {}
                }
            }
            // Forms and versions of forms that are not served are passed over: what follows may be.
            let served = match accepted.profile.as_str() {
                "" => true,
                "Table" | "PartialObjectMetadata" | "PartialObjectMetadataList" => {
                    matches!(accepted.version.as_str(), "" | "v1")
                        && matches!(accepted.group.as_str(), "" | "meta.k8s.io")
                }
                "APIGroupDiscoveryList" => accepted.version == "v2",
                _ => false,
            };
            if served {
                return Ok(accepted);
            }
        }
    }
    Err(ApiError::not_acceptable())
}

impl Accepted {
    /// The form of objects that this asks for.
    pub(crate) fn form(&self, query: &Query) -> Result<Form, ApiError> {
        match self.profile.as_str() {
            "" => Ok(Form::Whole),
            "Table" => Ok(Form::Table(match query.get("includeObject") {
                "None" => Include::Nothing,
                "Object" => Include::Object,
                "Metadata" | "" => Include::Metadata,
                other => {
                    return Err(ApiError::bad_request(format!(
                        "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', 'Object', 'None', or empty"
                    )));
                }
            })),
            "PartialObjectMetadata" | "PartialObjectMetadataList" => Ok(Form::Metadata),
            _ => Err(ApiError::not_acceptable()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart() {
        let resource = |path: &str| match Route::parse(path) {
            Route::Resource(r) => {
                [r.group, r.version, r.namespace, r.plural, r.name, r.subresource].join(" ")
            }
            other => format!("{other:?}"),
        };
        for (path, expected) in [
            ("/apis/apps/v1/namespaces/n/deployments/d/status", "apps v1 n deployments d status"),
            ("/apis/apps/v1/deployments", "apps v1  deployments  "),
            ("/api/v1/namespaces/n", " v1  namespaces n "),
            ("/api/v1/namespaces/n/status", " v1  namespaces n status"),
            ("/api/v1/namespaces/n/events", " v1 n events  "),
            ("/api/v1/namespaces/n/events/a%2Fb", " v1 n events a/b "),
        ] {
            assert_eq!(resource(path), expected, "{path}");
        }
        assert_eq!(Route::parse("/apis/apps"), Route::Group("apps".to_owned()));
        assert_eq!(Route::parse("/readyz"), Route::Other(vec!["readyz".to_owned()]));
    }

    #[test]
    fn the_first_media_type_that_is_json_counts() {
        let accepted =
            accept("application/vnd.kubernetes.protobuf,application/json;as=Table;v=v1;g=meta.k8s.io,*/*");
        assert_eq!(accepted.unwrap().form(&Query::default()).unwrap(), Form::Table(Include::Metadata));
        assert_eq!(accept("").unwrap().form(&Query::default()).unwrap(), Form::Whole);
        assert_eq!(accept("application/vnd.kubernetes.protobuf").unwrap_err().code, 406);
    }
}
