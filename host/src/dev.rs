//! `foo-host dev`: an in-memory Kubernetes API and the controller in one process, for a first run.

use crate::api::{ApiClient, deployment_path, event_path, foo_path};
use crate::cli::{ClusterArgs, DevArgs};
use crate::controller::Controller;
use crate::settings::{Settings, default_cache_dir, duration};
use crate::shutdown::Signals;
use crate::{client, compiler, logging};
use anyhow::{Context as _, Result, anyhow};
use devcluster::{DevCluster, Options};
use serde_json::Value;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
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
        // Above all that an earlier server on this port can have given out, so that its clients list again.
        first_version: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(1, |since| since.as_micros() as u64),
        ..Options::default()
    };
    let signals = Signals::install()?;
    let cluster = DevCluster::start(options)
        .await
        .with_context(|| format!("cannot serve on 127.0.0.1:{}; give another --port", args.port))?;
    let (kubeconfig, _lock) = kubeconfig_path(args.write_kubeconfig.clone(), &cluster.url())?;
    cluster
        .write_kubeconfig(&kubeconfig)
        .with_context(|| format!("cannot write {}; give another --write-kubeconfig", kubeconfig.display()))?;

    let stop = CancellationToken::new();
    let work = async {
        serve(&args, settings, &cluster, &kubeconfig, stop.clone()).await?;
        cluster.shutdown().await;
        // It leads nowhere now.
        let _ = std::fs::remove_file(&kubeconfig);
        Ok(ExitCode::SUCCESS)
    };
    tokio::select! {
        // Signals first: a second one that is there already decides the exit code.
        biased;
        code = signals.run(stop.clone()) => Ok(code),
        result = work => result,
    }
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
        writeln!(out, "  {} crd | kubectl apply -f -", program())?;
        writeln!(out, "\nCtrl-C ends it; nothing is kept.")?;
        stop.cancelled().await;
        return Ok(());
    }
    let flags = ClusterArgs { kubeconfig: Some(kubeconfig.to_owned()), context: None, master: None };
    let connection = client::connect(&flags).await?;
    let api = ApiClient::new(&connection);
    let controller = Controller::new(settings, connection).await?;
    let metrics = controller.metrics_addr();
    install(&api).await?;
    let controller = tokio::spawn(controller.run(stop.clone()));

    writeln!(
        out,
        "A Kubernetes API in memory, on {}, and the controller; the Foo CRD is installed.\n",
        cluster.url()
    )?;
    writeln!(out, "  export KUBECONFIG={}", kubeconfig.display())?;
    if let Some(address) = metrics {
        writeln!(out, "  curl http://{address}/metrics")?;
    }
    writeln!(out, "\nApplied artifacts/examples/example-foo.yaml. What happens:\n")?;
    tokio::select! {
        () = stop.cancelled() => {}
        told = tokio::time::timeout(NARRATE_FOR, narrate(&api, &mut out)) => {
            match told {
                Ok(told) => told?,
                Err(_) => writeln!(out, "  …nothing yet: `kubectl describe foo example-foo` and the log say why")?,
            }
            next_steps(&mut out)?;
        }
    }
    controller.await??;
    Ok(())
}

/// Where the kubeconfig goes, and the lock that keeps a second `dev` from writing over the first one's.
fn kubeconfig_path(given: Option<PathBuf>, url: &str) -> Result<(PathBuf, Option<File>)> {
    if let Some(path) = given {
        return Ok((std::path::absolute(&path)?, None));
    }
    let dir = default_cache_dir()
        .context("no home directory to write the kubeconfig to; give --write-kubeconfig")?;
    let dir = dir.join("dev");
    let made = || format!("cannot make {}", dir.display());
    std::fs::create_dir_all(&dir).with_context(made)?;
    let lock = File::create(dir.join("lock")).with_context(made)?;
    Ok(match lock.try_lock() {
        Ok(()) => (dir.join("kubeconfig"), Some(lock)),
        Err(_) => (dir.join(format!("kubeconfig-{}", url.rsplit(':').next().unwrap_or("other"))), None),
    })
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

/// One line for each thing that a newcomer should see, once the Foo's status says how it went.
async fn narrate(api: &ApiClient, out: &mut impl io::Write) -> Result<()> {
    let name = "example-foo";
    let text = |value: &Value, pointer: &str| match value.pointer(pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "-".to_owned(),
    };
    let foo = until(api, &foo_path("default", Some(name)), settled).await;
    if let Ok(deployment) = api.get(&deployment_path("default", Some(name))).await {
        writeln!(
            out,
            "  Deployment  {name}: image {}, replicas {}, controlled by Foo {}",
            text(&deployment, "/spec/template/spec/containers/0/image"),
            text(&deployment, "/spec/replicas"),
            text(&deployment, "/metadata/ownerReferences/0/name"),
        )?;
        // Recorded behind the writes, so it may come a moment later.
        let told = until(api, &event_path("default", None), |list| !events(list).is_empty()).await;
        for event in events(&told) {
            let (kind, reason) = (text(event, "/type"), text(event, "/reason"));
            writeln!(out, "  Event       {kind} {reason}: {}", text(event, "/message"))?;
        }
    }
    let ready = condition(&foo, "Ready").unwrap_or(&Value::Null);
    writeln!(
        out,
        "  Foo         {name}: status.availableReplicas {}, Ready {} ({}: {})",
        text(&foo, "/status/availableReplicas"),
        text(ready, "/status"),
        text(ready, "/reason"),
        text(ready, "/message"),
    )?;
    writeln!(out, "  Decided by  guest {}", text(&foo, "/status/guest/digest"))?;
    Ok(())
}

/// Whether the Foo is Ready, or says why it will not be soon.
fn settled(foo: &Value) -> bool {
    let Some(ready) = condition(foo, "Ready") else { return false };
    let field = |name| ready.get(name).and_then(Value::as_str).unwrap_or_default();
    field("status") == "True" || !matches!(field("reason"), "Progressing" | "Terminating")
}

async fn until(api: &ApiClient, path: &str, good: impl Fn(&Value) -> bool) -> Value {
    loop {
        match api.get(path).await {
            Ok(value) if good(&value) => return value,
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// What was told of the Foo.
fn events(list: &Value) -> Vec<&Value> {
    let items = list.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let of_foo =
        |event: &&Value| event.pointer("/involvedObject/kind").and_then(Value::as_str) == Some("Foo");
    items.iter().filter(of_foo).collect()
}

fn condition<'a>(foo: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = foo.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| condition.get("type").and_then(Value::as_str) == Some(kind))
}

/// As this program was called, so that what is printed can be typed.
fn program() -> String {
    std::env::args().next().unwrap_or_else(|| "foo-host".into())
}

fn next_steps(out: &mut impl io::Write) -> io::Result<()> {
    writeln!(out, "\nIt is yours until Ctrl-C. Try in another terminal, with the KUBECONFIG above:\n")?;
    writeln!(
        out,
        "  1. change the replicas:    kubectl patch foo example-foo --type merge -p '{{\"spec\":{{\"replicas\":3}}}}'"
    )?;
    writeln!(out, "  2. delete the Deployment:  kubectl delete deployment example-foo   (it comes back)")?;
    let program = program();
    writeln!(
        out,
        "  3. run a guest of yours:   {program} dev --guest my.wasm   (README: Write your own guest)"
    )
}
