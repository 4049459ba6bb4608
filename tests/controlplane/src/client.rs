//! A small blocking client for JSON, for what a plane or a test does before and beside the real client.

use crate::Error;
use serde_json::Value;
use std::time::Duration;
use ureq::http::{Request, header};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// Requests as one user. Paths are absolute, such as `/api/v1/namespaces`; an answer other than 2xx is an
/// [`Error::Request`] with the server's message.
#[derive(Clone)]
pub struct Client {
    agent: ureq::Agent,
    url: String,
    authorization: Option<String>,
}

impl Client {
    /// The certificate authority, if any, is the only one that is believed.
    pub(crate) fn new(url: &str, ca_pem: Option<&str>, token: Option<&str>) -> Result<Self, Error> {
        let mut tls = TlsConfig::builder();
        if let Some(pem) = ca_pem {
            let ca = Certificate::from_pem(pem.as_bytes())
                .map_err(|error| Error::Certificates(error.to_string()))?;
            tls = tls.root_certs(RootCerts::new_with_certs(&[ca]));
        }
        let config = ureq::Agent::config_builder()
            .tls_config(tls.build())
            // A proxy of the environment is none of 127.0.0.1's business.
            .proxy(None)
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_mins(1)))
            .build();
        let authorization = token.map(|token| format!("Bearer {token}"));
        Ok(Self { agent: config.into(), url: url.to_owned(), authorization })
    }

    /// The same server, another user.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self { authorization: Some(format!("Bearer {token}")), ..self.clone() }
    }

    /// GET.
    pub fn get(&self, path: &str) -> Result<Value, Error> {
        self.send("GET", path, "application/json", None)
    }

    /// POST of a new object.
    pub fn create(&self, collection: &str, object: &Value) -> Result<Value, Error> {
        self.send("POST", collection, "application/json", Some(object))
    }

    /// PUT.
    pub fn replace(&self, path: &str, object: &Value) -> Result<Value, Error> {
        self.send("PUT", path, "application/json", Some(object))
    }

    /// PATCH with a JSON merge patch.
    pub fn merge(&self, path: &str, patch: &Value) -> Result<Value, Error> {
        self.send("PATCH", path, "application/merge-patch+json", Some(patch))
    }

    /// DELETE.
    pub fn delete(&self, path: &str) -> Result<Value, Error> {
        self.send("DELETE", path, "application/json", None)
    }

    fn send(
        &self,
        method: &'static str,
        path: &str,
        content: &str,
        body: Option<&Value>,
    ) -> Result<Value, Error> {
        let failed = |status: Option<u16>, reason: String| Error::Request {
            method,
            path: path.into(),
            status,
            reason,
        };
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        request = request.header(header::CONTENT_TYPE, content);
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = request.body(body).map_err(|error| failed(None, error.to_string()))?;
        let mut answer = self.agent.run(request).map_err(|error| failed(None, error.to_string()))?;
        let status = answer.status();
        let text = answer
            .body_mut()
            .read_to_string()
            .map_err(|error| failed(Some(status.as_u16()), error.to_string()))?;
        // Health checks answer plain text.
        let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        if status.is_success() {
            return Ok(value);
        }
        let reason = value["message"].as_str().or(value.as_str()).unwrap_or_default();
        Err(failed(Some(status.as_u16()), format!("{status}: {reason}")))
    }
}
