//! What the user typed becomes what the host runs by: every value checked, each error one line that names the
//! flag, the reason and the remedy.

use crate::cli::{LimitArgs, RunArgs};
use anyhow::{Context as _, Result, bail};
use contract::Pairs;
use guest_engine::{Compiler, Limits};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Validated settings of the controller.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The guest's file; none runs the built-in one.
    pub guest: Option<PathBuf>,
    /// The guest's parameters, sorted by key.
    pub parameters: Pairs,
    /// The namespaces to serve; none serves all.
    pub namespaces: Vec<String>,
    /// Runs at once.
    pub workers: usize,
    /// The resync period; none turns it off.
    pub resync: Option<Duration>,
    /// Where metrics and health are served, if at all.
    pub metrics_addr: Option<SocketAddr>,
    /// What a guest may use.
    pub limits: Limits,
    /// Where compiled guests are kept.
    pub cache_dir: Option<PathBuf>,
    /// Where guests are compiled; in this process unless the binary says how to start itself.
    pub compiler: Compiler,
}

impl Settings {
    /// Checks `args`.
    pub fn from_args(args: &RunArgs) -> Result<Self> {
        let workers = usize::from(args.workers);
        let resync = duration("--resync", &args.resync)?;
        if !resync.is_zero() && resync < Duration::from_secs(1) {
            bail!("--resync {}: shorter than 1s would keep every Foo busy; 0s turns it off", args.resync);
        }
        for namespace in &args.namespaces {
            // A DNS-1123 label: up to 63 of lower case letters, digits and, inside, hyphens.
            let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if namespace.is_empty()
                || namespace.len() > 63
                || !namespace.chars().all(inside)
                || namespace.starts_with('-')
                || namespace.ends_with('-')
            {
                bail!(
                    "--namespace {namespace:?} is no namespace name: 1 to 63 lower case letters, digits or '-'"
                );
            }
        }
        let mut namespaces = args.namespaces.clone();
        namespaces.sort_unstable();
        namespaces.dedup();
        Ok(Self {
            guest: args.guest.clone(),
            parameters: parameters(&args.guest_params)?,
            namespaces,
            workers,
            resync: (!resync.is_zero()).then_some(resync),
            metrics_addr: metrics_addr(args.observe.metrics_addr.as_deref().unwrap_or("127.0.0.1:8080"))?,
            limits: limits(&args.limits, workers)?,
            cache_dir: args
                .limits
                .cache_dir
                .clone()
                .or_else(|| default_cache_dir().map(|dir| dir.join("guests"))),
            compiler: Compiler::InProcess,
        })
    }
}

/// `foo-host` under the user's cache directory, if there is a home.
pub fn default_cache_dir() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("foo-host"))
}

/// A duration such as `30s`, `1m 30s` or `500ms`.
pub fn duration(flag: &str, text: &str) -> Result<Duration> {
    let parsed: jiff::SignedDuration =
        text.parse().with_context(|| format!("{flag} {text:?} is no duration: write 30s, 5m or 500ms"))?;
    Duration::try_from(parsed).with_context(|| format!("{flag} {text:?} is negative"))
}

/// A size such as `64Mi`, `512Ki` or a number of bytes.
fn size(flag: &str, text: &str) -> Result<usize> {
    let units = [("Ki", 1_usize << 10), ("Mi", 1 << 20), ("Gi", 1 << 30)];
    let (number, unit) = units
        .iter()
        .find_map(|(suffix, unit)| text.strip_suffix(suffix).map(|number| (number, *unit)))
        .unwrap_or((text, 1));
    number
        .parse::<usize>()
        .ok()
        .and_then(|number| number.checked_mul(unit))
        .with_context(|| format!("{flag} {text:?} is no size: write 64Mi, 512Ki, 2Gi or a number of bytes"))
}

fn within<T: PartialOrd + Copy + std::fmt::Display>(
    flag: &str,
    value: T,
    least: T,
    most: T,
    unit: &str,
) -> Result<T> {
    if value < least || value > most {
        bail!("{flag}: {value}{unit} is out of range; it takes {least}{unit} to {most}{unit}");
    }
    Ok(value)
}

fn limits(args: &LimitArgs, workers: usize) -> Result<Limits> {
    let bytes = |flag, text: &str, least, most| within(flag, size(flag, text)?, least, most, " bytes");
    let time = |flag, text: &str, least, most| -> Result<Duration> {
        let time = duration(flag, text)?;
        within(flag, time.as_millis(), least, most, " ms")?;
        Ok(time)
    };
    Ok(Limits {
        fuel: within("--guest-fuel", args.guest_fuel, 1, u64::MAX / 2, " units")?,
        deadline: time("--guest-timeout", &args.guest_timeout, 1, 60_000)?,
        memory_bytes: bytes("--guest-memory", &args.guest_memory, 64 << 10, 4 << 30)?,
        stack_bytes: bytes("--guest-stack", &args.guest_stack, 64 << 10, 16 << 20)?,
        result_bytes: bytes("--guest-result", &args.guest_result, 1 << 10, 64 << 20)?,
        max_actions: within("--guest-max-actions", args.guest_max_actions, 1, 1_000, "")?,
        max_component_bytes: bytes("--guest-max-size", &args.guest_max_size, 1 << 10, 1 << 30)?,
        max_concurrent_calls: match args.guest_max_calls {
            0 => workers as u32,
            calls => within("--guest-max-calls", calls, 1, 1_000, "")?,
        },
        compile_time: time("--compile-timeout", &args.compile_timeout, 1_000, 3_600_000)?,
        compile_memory_bytes: bytes("--compile-memory", &args.compile_memory, 64 << 20, 64 << 30)? as u64,
        ..Limits::default()
    })
}

fn parameters(given: &[String]) -> Result<Pairs> {
    let mut pairs = Pairs::new();
    for text in given {
        let Some((key, value)) = text.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            bail!("--guest-param {text:?} is no KEY=VALUE");
        };
        pairs.push((key.to_owned(), value.to_owned()));
    }
    pairs.sort_unstable();
    if let Some(twice) = pairs.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        bail!("--guest-param {}: given twice, and a guest can have it only once", twice[0].0);
    }
    Ok(pairs)
}

fn metrics_addr(text: &str) -> Result<Option<SocketAddr>> {
    if text == "off" {
        return Ok(None);
    }
    let text =
        text.strip_prefix("localhost:").map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
    let address = if let Some(port) = text.strip_prefix(':') { format!("0.0.0.0:{port}") } else { text };
    let parsed = address.parse();
    Ok(Some(parsed.with_context(|| {
        format!("--metrics-addr {address:?} is no HOST:PORT: write 127.0.0.1:8080, or off")
    })?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::Parser as _;

    fn settings(args: &[&str]) -> Result<Settings> {
        let cli = Cli::try_parse_from(["foo-host"].iter().chain(args).copied())?;
        Settings::from_args(&cli.run)
    }

    fn refused(args: &[&str]) -> String {
        format!("{:#}", settings(args).expect_err("should be refused"))
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    }

    #[test]
    fn parity_workers_and_resync_defaults_are_those_of_the_go_original() {
        let settings = settings(&[]).unwrap();
        assert_eq!((settings.workers, settings.resync), (2, Some(Duration::from_secs(30))));
        assert!(settings.namespaces.is_empty());
        assert_eq!(settings.limits.max_concurrent_calls, 2);
    }

    #[test]
    fn every_wrong_value_is_one_line_that_names_the_flag_and_the_remedy() {
        for (args, flag, remedy) in [
            (["--resync", "soon"], "--resync", "write 30s"),
            (["--resync", "10ms"], "--resync", "0s turns it off"),
            (["--guest-memory", "64MB"], "--guest-memory", "write 64Mi"),
            (["--guest-memory", "1Ki"], "--guest-memory", "65536 bytes"),
            (["--guest-timeout", "2h"], "--guest-timeout", "60000 ms"),
            (["--guest-param", "x"], "--guest-param", "KEY=VALUE"),
            (["--metrics-addr", "8080"], "--metrics-addr", "or off"),
            (["--namespace", "A_b"], "--namespace", "lower case"),
            (["--workers", "0"], "--workers", "1..=1000"),
        ] {
            let text = refused(&args);
            assert!(text.contains(flag) && text.contains(remedy), "{args:?}: {text}");
        }
    }

    #[test]
    fn parameters_are_sorted_and_unique() {
        let given = settings(&["--guest-param", "b=2", "--guest-param", "a=1=1"]).unwrap().parameters;
        assert_eq!(given, [("a".into(), "1=1".into()), ("b".into(), "2".into())]);
        assert!(refused(&["--guest-param", "a=1", "--guest-param", "a=2"]).contains("given twice"));
    }
}
