//! What passes unchanged, who may speak, and the whole server away or unreachable.

use crate::support::{Client, DEPLOYMENTS, Next, Setting, WATCH, Way};
use fault_proxy::{Fate, Listen, Login, Match, Proxy, Upstream};
use futures::FutureExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_and_answers_pass_unchanged_over_each_protocol() {
    for way in Way::ALL {
        let at = Setting::new(way).await;
        let mut client = at.client().await;
        let (path, body) = ("/api/v1/namespaces/a%2Fb/pods?x=%20y&z", "x".repeat(300_000));
        let heard = client.ask_as("agent/7", Some("secret"), "POST", path, &body).await.expect("an answer");
        assert_eq!((heard.status, heard.json["path"].as_str()), (200, Some(path)), "{way:?}");
        assert_eq!(heard.json["body"].as_str().map(str::len), Some(body.len()));
        assert_eq!(heard.json["headers"]["authorization"], "Bearer secret");
        assert_eq!(heard.json["headers"]["user-agent"], "agent/7");
        assert_eq!(heard.headers["x-server"], "small");
        let record = at.proxy.requests().remove(0);
        let spoken = if way.is_http2() { http::Version::HTTP_2 } else { http::Version::HTTP_11 };
        assert_eq!((record.http_version, record.body.len()), (spoken, body.len()));
        assert_eq!(
            (record.path.as_str(), record.query.as_str()),
            ("/api/v1/namespaces/a%2Fb/pods", "x=%20y&z")
        );
        assert_eq!(
            (record.content_type.as_str(), record.user_agent.as_str()),
            ("application/json", "agent/7")
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_tls_is_trusted_by_its_ca_only() {
    let inner = Setting::new(Way::TlsHttp1).await;
    let ca = inner.proxy.ca_pem().expect("it has TLS");
    let upstream = Upstream::tls(&inner.proxy.url(), ca);
    let outer = Proxy::start(upstream, Listen::Plain).await.expect("a proxy");
    let mut client = Client::connect(&outer, Way::Http1).await.expect("a connection");
    assert_eq!(client.ask("GET", "/x", "").await.expect("an answer").status, 200);
    assert_eq!(inner.server.asked(), ["GET /x"]);

    let other = Proxy::start(Upstream::new("http://127.0.0.1:1"), Listen::Tls).await.expect("a proxy");
    let upstream = Upstream::tls(&inner.proxy.url(), other.ca_pem().expect("it has TLS"));
    let outer = Proxy::start(upstream, Listen::Plain).await.expect("a proxy");
    let mut client = Client::connect(&outer, Way::Http1).await.expect("a connection");
    client.ask("GET", "/x", "").await.expect_err("closed");
    assert_eq!(outer.requests()[0].fate, Fate::Unreachable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upstream_that_cannot_be_is_refused_with_a_remedy() {
    let ca = "-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----";
    for (upstream, says) in [
        (Upstream::new("http://127.0.0.1"), "host and port must be given; give http://HOST:PORT"),
        (Upstream::new("ftp://127.0.0.1:1"), "the scheme is neither http nor https"),
        (Upstream::new("http://127.0.0.1:1/base"), "a path is not served"),
        (Upstream::new("https://127.0.0.1:1"), "no CA was given; set `ca_pem`"),
        (Upstream::tls("https://127.0.0.1:1", ""), "there is no certificate in it; give PEM"),
        (Upstream::tls("https://127.0.0.1:1", ca), "the upstream's CA cannot be read"),
    ] {
        let error = Proxy::start(upstream, Listen::Plain).await.err().expect("refused").to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubes_client_takes_the_kubeconfig_and_speaks_http_1_1_also_over_tls() {
    for (way, token) in [(Way::TlsHttp1, Some("one")), (Way::TlsHttp1, None), (Way::Http1, Some("two"))] {
        let at = Setting::new(way).await;
        let text = at.proxy.kubeconfig(token);
        let config = kube::config::Kubeconfig::from_yaml(&text).expect("a kubeconfig");
        let config =
            kube::Config::from_custom_kubeconfig(config, &kube::config::KubeConfigOptions::default())
                .await
                .expect("a config");
        let client = kube::Client::try_from(config).expect("a client");
        let request = http::Request::get("/api/v1/pods").body(Vec::new()).expect("a request");
        let heard: serde_json::Value = client.request(request).await.expect("an answer");
        let bearer = token.map_or(serde_json::Value::Null, |token| format!("Bearer {token}").into());
        assert_eq!(heard["headers"]["authorization"], bearer);
        assert_eq!(at.proxy.requests()[0].http_version, http::Version::HTTP_11);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kubeconfig_names_a_token_file_and_any_ca() {
    let at = Setting::new(Way::TlsHttp1).await;
    let leaf = at.proxy.server_pem().expect("it has TLS");
    assert_ne!(at.proxy.ca_pem(), Some(leaf));
    let text = at.proxy.kubeconfig_for(Login::TokenFile("dir/token".as_ref()), Some(leaf));
    let config = kube::config::Kubeconfig::from_yaml(&text).expect("a kubeconfig");
    let user = config.auth_infos[0].auth_info.as_ref().expect("a user");
    assert_eq!(user.token_file.as_deref(), Some("dir/token"));
    let cluster = config.clusters[0].cluster.as_ref().expect("a cluster");
    assert_eq!(cluster.server.as_deref(), Some(at.proxy.url().as_str()));
    assert!(cluster.certificate_authority_data.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_token_is_401_and_others_are_served() {
    for way in Way::ALL {
        let at = Setting::new(way).await;
        let mut client = at.client().await;
        at.proxy.revoke("old");
        for (token, status) in [(Some("old"), 401), (Some("new"), 200), (None, 200)] {
            let heard = client.ask_as("a", token, "GET", "/api", "").await.expect("an answer");
            assert_eq!(heard.status, status, "{way:?}");
        }
        assert_eq!(at.server.asked().len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_black_hole_nothing_is_answered_and_nothing_is_closed() {
    for way in Way::ALL {
        let at = Setting::new(way).await;
        let mut old = at.client().await;
        let mut watch = at.client().await.follow(WATCH).await;
        at.server.send_event("ADDED", "a", 1);
        assert_eq!(watch.event().await, "ADDED a");
        at.proxy.black_hole(true);
        let mut asked = Box::pin(old.ask("GET", "/old", ""));
        assert!((&mut asked).now_or_never().is_none());
        at.server.send_event("ADDED", "b", 2);
        at.server.until_left().await;
        let mut new = Box::pin(async { at.client().await.ask("GET", "/new", "").await });
        assert!((&mut new).now_or_never().is_none());

        at.proxy.black_hole(false);
        assert_eq!(at.client().await.ask("GET", "/later", "").await.expect("an answer").status, 200);
        assert_eq!(at.server.asked(), [format!("GET {WATCH}"), "GET /later".into()], "{way:?}");
        assert!((&mut asked).now_or_never().is_none(), "{way:?}: what fell in stays in");
        assert!(watch.next().now_or_never().is_none(), "{way:?}: not even its end is heard");
        at.proxy.stop_listening().await.expect("shut");
        asked.await.expect_err("closed");
        assert_eq!(watch.next().await, Next::Cut(String::new()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_refuses_and_comes_back_on_the_same_port() {
    for way in Way::ALL {
        let at = Setting::new(way).await;
        let old = at.client().await;
        let mut watch = at.client().await.follow(WATCH).await;
        for _ in 0..2 {
            at.proxy.stop_listening().await.expect("shut");
            at.proxy.stop_listening().await.expect("shut already");
            let refused = at.try_client().await.err().expect("refused");
            assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused, "{way:?}");
            at.proxy.resume_listening().await.expect("open");
            at.proxy.resume_listening().await.expect("open already");
            assert_eq!(at.client().await.ask("GET", "/api", "").await.expect("an answer").status, 200);
        }
        old.until_closed().await;
        assert_eq!(watch.next().await, Next::Cut(String::new()), "{way:?}");
        at.server.until_left().await;
    }
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_still_the_proxys() {
    let at = Setting::new(Way::Http1).await;
    at.proxy.stop_listening().await.expect("shut");
    let address = at.proxy.url().replace("http://", "");
    let taken = std::net::TcpListener::bind(address).expect_err("nobody else gets the port");
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_server_requests_are_closed_until_there_is_one() {
    let at = Setting::new(Way::Http1).await;
    let url = at.server.url.clone();
    drop(at.server);
    let mut client = Client::connect(&at.proxy, Way::Http1).await.expect("a connection");
    let answered = client.ask("GET", "/api", "").await;
    answered.expect_err("closed");
    at.proxy.seen(Match::any(), 1).await;
    assert_eq!((at.proxy.count(&Match::any()), at.proxy.count(&Match::writes())), (1, 0));
    let record = at.proxy.requests().remove(0);
    assert_eq!((record.status, record.fate), (None, Fate::Unreachable), "{url}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_proxy_cuts_its_connections_and_leaves_its_port() {
    for way in Way::ALL {
        let at = Setting::new(way).await;
        let client = at.client().await;
        let mut watch = at.client().await.follow(WATCH).await;
        let address = at.proxy.url().split_once("//").map(|(_, address)| address.to_owned()).expect("a URL");
        drop(at.proxy);
        client.until_closed().await;
        assert_eq!(watch.next().await, Next::Cut(String::new()), "{way:?}");
        at.server.until_left().await;
        while tokio::net::TcpStream::connect(&address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_input_closes_its_own_connection_only() {
    for way in [Way::Http1, Way::TlsHttp1] {
        let at = Setting::new(way).await;
        let address = at.proxy.url().split_once("//").map(|(_, address)| address.to_owned()).expect("a URL");
        for input in [
            &b"\0\0\0\0\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff\r\n\r\n"[..],
            b"GET\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhalf",
            b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
            b"CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n",
            b"GET http:///// HTTP/1.1\r\n\r\n",
        ] {
            let mut stream = tokio::net::TcpStream::connect(&address).await.expect("a connection");
            stream.write_all(input).await.expect("written");
            stream.shutdown().await.expect("shut");
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
        }
        assert_eq!(at.client().await.ask("GET", DEPLOYMENTS, "").await.expect("an answer").status, 200);
    }
}
