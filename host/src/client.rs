//! From kubeconfig, flags or the pod's service account to a client with the timeouts that a controller needs.

use crate::cli::ClusterArgs;
use crate::gate::Gate;
use crate::proxy;
use crate::token::TokenFile;
use anyhow::{Context as _, Result, anyhow, bail};
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::time::Duration;
use tower::timeout::TimeoutLayer;
use tower::util::option_layer;

/// How much longer than a watch's period a connection may stay silent: kube's watcher gives it 5 s for the last
/// word.
const LAST_WORD: Duration = Duration::from_secs(15);

/// How long the API server is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// A single request, to the end of its answer. The API server itself ends a write after 34 s at most; a
    /// controller that waits that long for one object serves the others late.
    pub request: Duration,
    /// The beginning of any answer: of a list, and of a watch, which a server begins at once.
    pub answer: Duration,
    /// The server ends each watch after this; with kube's 5 s on top, a connection that died in silence is found
    /// within 50 s.
    pub watch_seconds: u32,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { request: Duration::from_secs(15), answer: Duration::from_secs(30), watch_seconds: 45 }
    }
}

/// A way to talk to a cluster.
#[derive(Clone)]
pub struct Connection {
    /// The client.
    pub client: Client,
    /// Closed while the server wants no requests.
    pub gate: Gate,
    /// The server's address, for messages.
    pub server: String,
    /// How long it is waited for.
    pub timeouts: Timeouts,
}

/// Finds the cluster; nothing is sent yet.
pub async fn connect(args: &ClusterArgs) -> Result<Connection> {
    connect_with(args, Timeouts::default()).await
}

/// [`connect`], waiting so long for the server.
pub async fn connect_with(args: &ClusterArgs, timeouts: Timeouts) -> Result<Connection> {
    let mut config = find(args).await?;
    // For the rest of an answer, of lists and watches; a plain request has its own timeout for all of it.
    config.read_timeout = Some(Duration::from_secs(timeouts.watch_seconds.into()) + LAST_WORD);
    config.reset_reader_on_write = true;
    // kube repeats a refused request up to 15 times inside one call; the queue's backoff is the one place here.
    config.default_retry = false;
    let agent = concat!("foo-host/", env!("CARGO_PKG_VERSION"));
    config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static(agent)));
    config.proxy_url = proxy::choose(config.proxy_url, &config.cluster_url, |name| std::env::var(name).ok())?;
    let server = config.cluster_url.to_string();
    let gate = Gate::default();
    // Ours, for kube's goes on with a refused token until its minute is over.
    let token = config.auth_info.token_file.take().map(TokenFile::open).transpose()?;
    if token.is_some() {
        config.auth_info.token = None;
    }
    let builder = ClientBuilder::try_from(config).with_context(|| format!("no client for {server}"))?;
    let client = builder
        .with_layer(&TimeoutLayer::new(timeouts.answer))
        .with_layer(&option_layer(token))
        .with_layer(&gate)
        .build();
    Ok(Connection { client, gate, server: server.trim_end_matches('/').to_owned(), timeouts })
}

async fn find(args: &ClusterArgs) -> Result<Config> {
    let options = KubeConfigOptions { context: args.context.clone(), ..KubeConfigOptions::default() };
    let master = args.master.as_deref().map(parse_master).transpose()?;
    if let Some(path) = &args.kubeconfig {
        let named = || format!("the kubeconfig {}", path.display());
        let mut kubeconfig = Kubeconfig::read_from(path).with_context(named)?;
        if let Some(context) = &args.context
            && !kubeconfig.contexts.iter().any(|named| named.name == *context)
        {
            let names: Vec<_> = kubeconfig.contexts.iter().map(|named| named.name.as_str()).collect();
            bail!(
                "--context {context}: {} has no such context; it has: {}",
                path.display(),
                names.join(", ")
            );
        }
        if let Some(master) = &master {
            override_server(&mut kubeconfig, args.context.as_deref(), master);
        }
        return Config::from_custom_kubeconfig(kubeconfig, &options).await.with_context(named);
    }
    let has_default = std::env::var_os("KUBECONFIG").is_some_and(|paths| !paths.is_empty())
        || std::env::home_dir().is_some_and(|home| home.join(".kube/config").exists());
    if has_default && (master.is_none() || args.context.is_some()) {
        let mut config = Config::from_kubeconfig(&options).await.context("the kubeconfig")?;
        if let Some(master) = master {
            config.cluster_url = master;
        }
        return Ok(config);
    }
    if let Some(master) = master {
        return Ok(Config::new(master));
    }
    if args.context.is_some() {
        bail!("--context: there is no kubeconfig to take it from; give --kubeconfig");
    }
    Config::incluster().map_err(|why| {
        if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
            return anyhow!("the service account of this pod cannot be used: {}", crate::api::chain(&why));
        }
        anyhow!(
            "no cluster found: no --kubeconfig, no $KUBECONFIG, no ~/.kube/config, and this is no pod; \
             try `foo-host dev` for one in memory"
        )
    })
}

fn parse_master(text: &str) -> Result<http::Uri> {
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let uri: http::Uri = with_scheme.parse().with_context(|| format!("--master {text:?} is no URL"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
        bail!("--master {text:?} is no address of an API server: write https://HOST:PORT");
    }
    Ok(uri)
}

fn override_server(kubeconfig: &mut Kubeconfig, context: Option<&str>, master: &http::Uri) {
    let current = context.or(kubeconfig.current_context.as_deref());
    let context = kubeconfig.contexts.iter().find(|named| Some(named.name.as_str()) == current);
    let cluster = context.and_then(|named| named.context.as_ref()).map(|context| context.cluster.clone());
    for named in &mut kubeconfig.clusters {
        if Some(&named.name) == cluster.as_ref()
            && let Some(cluster) = &mut named.cluster
        {
            cluster.server = Some(master.to_string());
        }
    }
}
