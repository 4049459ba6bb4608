//! What a test does where a component of the machine is missing.

use std::io::Write;

/// Says that `test` did not run because of `reason`. The test ends after it; `scripts/test-summary`
/// counts it as skipped.
///
/// # Panics
/// With `CI=true`: there everything is installed, and a skip would be a test that was lost.
pub fn skip(test: &str, reason: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{test} must not be skipped in CI: {reason}");
    eprintln!("{test} skipped: {reason}");
    if let Some(file) = std::env::var_os("FOO_HOST_SKIPS") {
        let line = format!("{test}: {reason}\n");
        let written = std::fs::OpenOptions::new()
            .append(true)
            .open(file)
            // One write a line: tests run side by side.
            .and_then(|mut file| file.write_all(line.as_bytes()));
        written.expect("scripts/test-summary made the file");
    }
}
