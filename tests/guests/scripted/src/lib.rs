//! A guest for tests: it answers what the Foo's annotations say.
//!
//! - `script/answer`: a JSON list of actions in the form of the bindings, such as
//!   `[{"ApplyDeployment": "{...}"}, "DeleteDeployment", {"RequeueAfter": 5}]`;
//! - `script/error`: `retry: text` or `permanent: text`;
//! - `script/do`: `panic`, `loop`, `recurse`, `recurse-and-log`, `grow`, `big` (a string of 16 MiB), `many`
//!   (a million actions), `log` (a flood), then what else is asked for.
//!
//! Without any of them it answers as the default guest does for a plain Foo.

#[cfg(target_arch = "wasm32")]
mod guest;
