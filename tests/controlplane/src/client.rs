//! A small blocking client for JSON, for what a plane or a test does before and beside the real client.

use crate::Error;
use serde_json::Value;

/// Requests as one user. Paths are absolute, such as `/api/v1/namespaces`; an answer other than 2xx is an
/// [`Error::Request`] with the server's message.
#[derive(Clone)]
pub struct Client(());

impl Client {
    /// GET.
    pub fn get(&self, path: &str) -> Result<Value, Error> {
        unimplemented!("{path}")
    }

    /// POST of a new object.
    pub fn create(&self, collection: &str, object: &Value) -> Result<Value, Error> {
        unimplemented!("{collection} {object}")
    }

    /// PUT.
    pub fn replace(&self, path: &str, object: &Value) -> Result<Value, Error> {
        unimplemented!("{path} {object}")
    }

    /// PATCH with a JSON merge patch.
    pub fn merge(&self, path: &str, patch: &Value) -> Result<Value, Error> {
        unimplemented!("{path} {patch}")
    }

    /// DELETE.
    pub fn delete(&self, path: &str) -> Result<Value, Error> {
        unimplemented!("{path}")
    }
}
