//! `foo-host dev`: an in-memory Kubernetes API and the controller in one process, for a first run.

use crate::api::{ApiClient, deployment_path, event_path, foo_path};
use crate::cli::DevArgs;
use crate::controller::Controller;
use crate::settings::{Settings, default_cache_dir, duration};
use crate::shutdown::Signals;
use crate::{client, compiler, logging};
use anyhow::{Context as _, Result, anyhow};
use devcluster::{DevCluster, Options};
use serde_json::Value;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long the first run is told: a guest of the user's own may do something else with the example.
const NARRATE_FOR: Duration = Duration::from_secs(20);

/// The example of the Go sample-controller.
const EXAMPLE: &str = include_str!("../../artifacts/examples/example-foo.yaml");

/// Runs until a signal.
pub async fn run(mut args: DevArgs) -> Result<ExitCode> {
    let observe = &mut args.run.observe;
    logging::init(observe.log_format, observe.log_level.as_deref().unwrap_or("warn"))?;
    observe.metrics_addr.get_or_insert_with(|| "127.0.0.1:0".to_owned());
    let settings = Settings { compiler: compiler::command(), ..Settings::from_args(&args.run)? };
    let options = Options {
        port: args.port,
        available_after: duration("--available-after", &args.available_after)?,
        ..Options::default()
    };
    let signals = Signals::install()?;
    let cluster = DevCluster::start(options)
        .await
        .with_context(|| format!("cannot serve on 127.0.0.1:{}; give another --port", args.port))?;
    let kubeconfig = kubeconfig_path(args.write_kubeconfig.clone())?;
    cluster
        .write_kubeconfig(&kubeconfig)
        .with_context(|| format!("cannot write {}; give another --write-kubeconfig", kubeconfig.display()))?;

    let stop = CancellationToken::new();
    let served = serve(&args, settings, &cluster, &kubeconfig, stop.clone());
    let code = tokio::select! {
        code = signals.run(stop.clone()) => return Ok(code),
        result = served => result.map(|()| ExitCode::SUCCESS)?,
    };
    cluster.shutdown().await;
    Ok(code)
}

async fn serve(
    args: &DevArgs,
    settings: Settings,
    cluster: &DevCluster,
    kubeconfig: &Path,
    stop: CancellationToken,
) -> Result<()> {
    let mut out = io::stdout();
    if args.api_only {
        writeln!(out, "A Kubernetes API in memory, on {}\n", cluster.url())?;
        writeln!(out, "  export KUBECONFIG={}", kubeconfig.display())?;
        writeln!(out, "  foo-host crd | kubectl apply -f -    # then run foo-host, or any other controller")?;
        writeln!(out, "\nCtrl-C ends it; nothing is kept.")?;
        stop.cancelled().await;
        return Ok(());
    }
    let mut flags = args.run.cluster.clone();
    flags.kubeconfig = Some(kubeconfig.to_owned());
    (flags.context, flags.master) = (None, None);
    let connection = client::connect(&flags).await?;
    let api = ApiClient::new(&connection);
    let controller = Controller::new(settings, connection).await?;
    let metrics = controller.metrics_addr();
    install(&api).await?;
    let controller = tokio::spawn(controller.run(stop.clone()));

    writeln!(
        out,
        "A Kubernetes API in memory, on {}, and the controller; the Foo CRD is installed.",
        cluster.url()
    )?;
    writeln!(out, "Applied artifacts/examples/example-foo.yaml. What happens:\n")?;
    tokio::select! {
        () = stop.cancelled() => {}
        told = tokio::time::timeout(NARRATE_FOR, narrate(&api, &mut out)) => {
            match told {
                Ok(told) => told?,
                Err(_) => writeln!(out, "  …not yet: `kubectl describe foo example-foo` and the log say why")?,
            }
            next_steps(&mut out, kubeconfig, metrics)?;
        }
    }
    controller.await??;
    Ok(())
}

fn kubeconfig_path(given: Option<PathBuf>) -> Result<PathBuf> {
    let path = given
        .or_else(|| default_cache_dir().map(|dir| dir.join("dev").join("kubeconfig")))
        .context("no home directory to write the kubeconfig to; give --write-kubeconfig")?;
    let path = std::path::absolute(&path)?;
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    }
    Ok(path)
}

async fn install(api: &ApiClient) -> Result<()> {
    let crd = foo_api::crd();
    api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd)
        .await
        .map_err(|error| anyhow!("cannot install the Foo CRD: {error}"))?;
    let foo: Value = serde_yaml_ng::from_str(EXAMPLE)?;
    let foos = foo_path("default", None);
    // A CRD is served a moment after it was accepted.
    let create = async {
        loop {
            match api.create(&foos, &foo).await {
                Err(crate::api::ApiError::Refused(status)) if status.code == 404 => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                other => return other,
            }
        }
    };
    let created = tokio::time::timeout(Duration::from_secs(10), create).await;
    created
        .context("the API does not serve foos")?
        .map_err(|error| anyhow!("cannot create the example Foo: {error}"))?;
    Ok(())
}

/// One line for each thing that a newcomer should see, when it has happened.
async fn narrate(api: &ApiClient, out: &mut impl io::Write) -> Result<()> {
    let name = "example-foo";
    let text = |value: &Value, pointer: &str| match value.pointer(pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "-".to_owned(),
    };
    let deployment = until(api, &deployment_path("default", Some(name)), |_| true).await;
    writeln!(
        out,
        "  Deployment  {name}: image {}, replicas {}, controlled by Foo {}",
        text(&deployment, "/spec/template/spec/containers/0/image"),
        text(&deployment, "/spec/replicas"),
        text(&deployment, "/metadata/ownerReferences/0/name"),
    )?;
    let synced = |list: &Value| find_event(list).is_some();
    let events = until(api, &event_path("default", None), synced).await;
    if let Some(event) = find_event(&events) {
        writeln!(
            out,
            "  Event       {} {}: {}",
            text(event, "/type"),
            text(event, "/reason"),
            text(event, "/message")
        )?;
    }
    let ready = |foo: &Value| condition(foo, "Ready").is_some_and(|status| status == "True");
    let foo = until(api, &foo_path("default", Some(name)), ready).await;
    writeln!(
        out,
        "  Foo         {name}: status.availableReplicas {}, Ready {}",
        text(&foo, "/status/availableReplicas"),
        condition(&foo, "Ready").unwrap_or("-"),
    )?;
    writeln!(out, "  Decided by  guest {}", text(&foo, "/status/guest/digest"))?;
    Ok(())
}

async fn until(api: &ApiClient, path: &str, good: impl Fn(&Value) -> bool) -> Value {
    loop {
        match api.get(path).await {
            Ok(value) if good(&value) => return value,
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

fn find_event(list: &Value) -> Option<&Value> {
    let items = list.get("items")?.as_array()?;
    items.iter().find(|event| event.get("reason").and_then(Value::as_str) == Some(foo_api::REASON_SYNCED))
}

fn condition<'a>(foo: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = foo.pointer("/status/conditions")?.as_array()?;
    let found =
        conditions.iter().find(|condition| condition.get("type").and_then(Value::as_str) == Some(kind))?;
    found.get("status")?.as_str()
}

fn next_steps(
    out: &mut impl io::Write,
    kubeconfig: &Path,
    metrics: Option<std::net::SocketAddr>,
) -> io::Result<()> {
    writeln!(out, "\nIt is yours until Ctrl-C. In another terminal:\n")?;
    writeln!(out, "  export KUBECONFIG={}", kubeconfig.display())?;
    writeln!(out, "  kubectl get foo,deployment")?;
    if let Some(address) = metrics {
        writeln!(out, "  curl http://{address}/metrics")?;
    }
    writeln!(out, "\nTry next:")?;
    writeln!(
        out,
        "  1. change the replicas:    kubectl patch foo example-foo --type merge -p '{{\"spec\":{{\"replicas\":3}}}}'"
    )?;
    writeln!(out, "  2. delete the Deployment:  kubectl delete deployment example-foo   (it comes back)")?;
    writeln!(
        out,
        "  3. run a guest of yours:   foo-host dev --guest my.wasm            (README: Write your own guest)"
    )
}
