//! Field reports about getting in: tokens, certificates, proxies.

use crate::both;
use fault_proxy::{Ending, Login, Match};
use rstest_reuse::apply;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tests::account::{Account, rights};
use tests::objects::{at, foo};
use tests::{Backend, Logs, World, api};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// As a kubelet does: whole, by a rename.
fn replace(path: &Path, token: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, format!("{token}\n")).expect("written");
    std::fs::rename(&new, path).expect("renamed");
}

#[apply(both)]
#[tokio::test]
async fn case_38_a_token_file_is_swapped_and_the_old_token_revoked_no_restart(#[case] backend: Backend) {
    let mut world = World::builder(backend).no_controller().start().await;
    let (old, new) = if world.plane().is_some() {
        let account = Account::new(&world, &rights()).await;
        (account.token().await, account.token().await)
    } else {
        ("old".to_owned(), "new".to_owned())
    };
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("token");
    replace(&path, &old);
    world.log_in(Login::TokenFile(&path));
    world.start_controller().await;
    world.create(&foo("a", "web")).await;
    world.until_ready("a").await;
    world.until_quiet().await;
    world.proxy.clear();
    // Revoked first, so that it is seen to fail, with calls and with watches.
    world.proxy.revoke(&old);
    world.change("a", json!({"spec": {"replicas": 2}})).await;
    world.proxy.seen(Match::writes().when(|write| write.status == Some(401)), 1).await;
    world.proxy.end_watches(&Match::any(), &Ending::Close);
    api::until("not ready, and it says why", async || {
        let answer = world.health().text("/readyz").await;
        answer.is_some_and(|(code, text)| code == 500 && text.contains("Unauthorized"))
    })
    .await;
    replace(&path, &new);
    world.until_deployment("web", "scaled", |d| at(d, "/spec/replicas") == 2).await;
    world.create(&foo("b", "web-b")).await;
    world.until_ready("b").await;
    api::until("ready", async || world.health().text("/readyz").await == Some((200, "ok".into()))).await;
}

#[apply(both)]
#[tokio::test]
async fn case_40_a_leaf_certificate_as_ca_is_one_error_that_names_the_server(#[case] backend: Backend) {
    let logs = Logs::start();
    let mut world = World::builder(backend).tls().no_controller().start().await;
    let leaf = world.proxy.kubeconfig_for(Login::Anonymous, world.proxy.server_pem());
    // Which counts the connections.
    let attempts = through_socks(&world, &leaf, "socks5").await;
    world.start_controller().await;
    let server = world.proxy.url();
    api::until("not ready, and it says why", async || {
        let answer = world.health().text("/readyz").await;
        answer.is_some_and(|(code, text)| {
            code == 500 && text.contains(&server) && text.contains("certificate-authority")
        })
    })
    .await;
    let told = || logs.lines(&["WARN", "certificate"]);
    api::until("each of the two informers has told it", async || told().len() >= 2).await;
    let before = attempts.load(Ordering::SeqCst);
    api::until("attempts go on", async || attempts.load(Ordering::SeqCst) >= before + 4).await;
    assert_eq!(world.health().text("/livez").await.map(|(code, _)| code), Some(200));
    assert_eq!(told().len(), 2, "{:#?}", told());
}

/// Puts a SOCKS proxy into the kubeconfig that the controller is to use; counts its connections.
async fn through_socks(world: &World, kubeconfig: &str, scheme: &str) -> Arc<AtomicUsize> {
    let url = world.proxy.url();
    let target = url.split_once("://").and_then(|(_, rest)| rest.parse().ok()).expect("HOST:PORT");
    let (address, count) = socks(target).await;
    let mut config: Value = serde_json::from_str(kubeconfig).expect("JSON");
    config["clusters"][0]["cluster"]["proxy-url"] = format!("{scheme}://{address}").into();
    std::fs::write(world.kubeconfig(), config.to_string()).expect("written");
    count
}

/// A SOCKS5 proxy that takes anybody (RFC 1928) to `target`, whatever they ask for, and counts them.
async fn socks(target: std::net::SocketAddr) -> (std::net::SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let (address, count) = (listener.local_addr().expect("an address"), Arc::new(AtomicUsize::new(0)));
    let counter = count.clone();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let counter = counter.clone();
            tokio::spawn(async move {
                let mut greeting = [0; 2];
                client.read_exact(&mut greeting).await?;
                let mut methods = vec![0; greeting[1].into()];
                client.read_exact(&mut methods).await?;
                client.write_all(&[5, 0]).await?;
                // Version, command, reserved, kind of address: IPv4 or a name.
                let mut request = [0; 4];
                client.read_exact(&mut request).await?;
                let length = if request[3] == 3 { usize::from(client.read_u8().await?) } else { 4 };
                let mut rest = vec![0; length + 2];
                client.read_exact(&mut rest).await?;
                let mut server = TcpStream::connect(target).await?;
                client.write_all(&[5, 0, 0, 1, 127, 0, 0, 1, 0, 0]).await?;
                counter.fetch_add(1, Ordering::SeqCst);
                tokio::io::copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
    (address, count)
}

#[apply(both)]
#[tokio::test]
async fn case_41_a_socks5h_proxy_is_used(#[case] backend: Backend) {
    let mut world = World::builder(backend).no_controller().start().await;
    let kubeconfig = std::fs::read_to_string(world.kubeconfig()).expect("it is there");
    let used = through_socks(&world, &kubeconfig, "socks5h").await;
    world.start_controller().await;
    world.create(&foo("a", "web")).await;
    world.until_ready("a").await;
    let connections = used.load(Ordering::SeqCst);
    assert!(connections >= 2, "{connections} connections, and two watches are open");
}
