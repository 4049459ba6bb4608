//! Logs go to standard error, as text or as one JSON object a line.

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use std::io::IsTerminal as _;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people: time, level, text, fields.
    Text,
    /// For collectors: one JSON object a line.
    Json,
}

/// Installs the subscriber. `level` is a level (`info`) or a filter (`info,guest=debug`).
pub fn init(format: LogFormat, level: &str) -> Result<()> {
    let wrong = || {
        format!(
            "--log-level {level:?} is no level (error, warn, info, debug, trace) and no filter (guest=debug)"
        )
    };
    let mut filter = level.to_owned();
    if !level.contains(['=', ',', '[']) {
        let plain: LevelFilter = level.parse().with_context(wrong)?;
        if plain <= LevelFilter::INFO {
            // kube prints each failed attempt, a 403 as a dump; the informers have one line for it.
            filter.push_str(",kube_runtime=off,kube_client=off");
        }
    }
    let filter = EnvFilter::builder().parse(filter).with_context(wrong)?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    Ok(())
}
