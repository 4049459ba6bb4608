//! A server that says what it was asked and streams what the test tells it, and a client of the proxy.

use bytes::Bytes;
use fault_proxy::{Listen, Proxy, Upstream};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_util::task::AbortOnDropHandle;

pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
pub(crate) const WATCH: &str = "/apis/apps/v1/namespaces/default/deployments?watch=true";

/// What must come, within a generous bound.
async fn patiently<T>(coming: impl Future<Output = T>) -> T {
    tokio::time::timeout(fault_proxy::PATIENCE, coming).await.expect("it did not come")
}

type Chunk = Result<Bytes, std::io::Error>;

#[derive(Default)]
struct Told {
    /// `METHOD path` of what came.
    asked: Mutex<Vec<String>>,
    watches: Mutex<Vec<mpsc::UnboundedSender<Chunk>>>,
}

/// The server behind the proxy; it ends when dropped.
pub(crate) struct Server {
    pub(crate) url: String,
    told: Arc<Told>,
    _task: AbortOnDropHandle<()>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let told = Arc::new(Told::default());
        let task = tokio::spawn(accept(listener, told.clone()));
        Self { url, told, _task: AbortOnDropHandle::new(task) }
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.told.asked.lock().expect("no panic").clone()
    }

    /// Sends bytes in every open watch, and says how many there were.
    pub(crate) fn send(&self, bytes: impl Into<Bytes>) -> usize {
        let bytes = bytes.into();
        let mut watches = self.told.watches.lock().expect("no panic");
        watches.retain(|watch| watch.send(Ok(bytes.clone())).is_ok());
        watches.len()
    }

    pub(crate) fn send_event(&self, kind: &str, name: &str, version: u32) {
        let meta = json!({ "namespace": "default", "name": name, "resourceVersion": version.to_string() });
        self.send(format!("{}\n", json!({ "type": kind, "object": { "metadata": meta } })));
    }

    /// A proper end of every watch.
    pub(crate) fn end_watches(&self) {
        self.told.watches.lock().expect("no panic").clear();
    }

    /// Breaks every watch off.
    pub(crate) fn cut_watches(&self) {
        for watch in self.told.watches.lock().expect("no panic").drain(..) {
            let _ = watch.send(Err(std::io::ErrorKind::BrokenPipe.into()));
        }
    }

    /// Until the proxy has left every watch.
    pub(crate) async fn until_left(&self) {
        let watches = std::mem::take(&mut *self.told.watches.lock().expect("no panic"));
        for watch in watches {
            patiently(watch.closed()).await;
        }
    }
}

async fn accept(listener: TcpListener, told: Arc<Told>) {
    while let Ok((stream, _)) = listener.accept().await {
        let told = told.clone();
        let service = service_fn(move |request| answer(told.clone(), request));
        tokio::spawn(async move {
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

type ServerBody = StreamBody<BoxStream<'static, Result<Frame<Bytes>, std::io::Error>>>;

async fn answer(told: Arc<Told>, request: Request<Incoming>) -> Result<Response<ServerBody>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned());
    told.asked.lock().expect("no panic").push(format!("{} {}", head.method, head.uri));
    let query = head.uri.query().unwrap_or_default();
    let (stream, kind) = if query.contains("watch=true") {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        told.watches.lock().expect("no panic").push(sender);
        let chunks =
            futures::stream::poll_fn(move |cx| receiver.poll_recv(cx)).map(|chunk| chunk.map(Frame::data));
        let kind = if query.contains("protobuf") {
            "application/vnd.kubernetes.protobuf"
        } else {
            "application/json"
        };
        (chunks.boxed(), kind)
    } else {
        let headers: Value = head
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), Value::from(String::from_utf8_lossy(value.as_bytes()))))
            .collect();
        let echo =
            json!({ "path": head.uri.to_string(), "headers": headers, "body": body.unwrap_or_default() });
        (futures::stream::iter([Ok(Frame::data(Bytes::from(echo.to_string())))]).boxed(), "application/json")
    };
    let response = Response::builder().header("content-type", kind).header("x-server", "small");
    Ok(response.body(StreamBody::new(stream)).expect("a response"))
}

/// How a client speaks to the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Http1,
    Http2,
    TlsHttp1,
    TlsHttp2,
}

impl Way {
    pub(crate) const ALL: [Self; 4] = [Self::Http1, Self::Http2, Self::TlsHttp1, Self::TlsHttp2];

    pub(crate) fn is_http2(self) -> bool {
        matches!(self, Self::Http2 | Self::TlsHttp2)
    }

    fn listen(self) -> Listen {
        if matches!(self, Self::TlsHttp1 | Self::TlsHttp2) { Listen::Tls } else { Listen::Plain }
    }
}

/// A server, a proxy before it, and how clients speak to it.
pub(crate) struct Setting {
    pub(crate) proxy: Proxy,
    pub(crate) server: Server,
    pub(crate) way: Way,
}

impl Setting {
    pub(crate) async fn new(way: Way) -> Self {
        let server = Server::start().await;
        let proxy = Proxy::start(Upstream::new(&server.url), way.listen()).await.expect("a proxy");
        Self { proxy, server, way }
    }

    /// On a connection of its own.
    pub(crate) async fn client(&self) -> Client {
        self.try_client().await.expect("a connection")
    }

    pub(crate) async fn try_client(&self) -> std::io::Result<Client> {
        Client::connect(&self.proxy, self.way).await
    }

    /// A request on a connection of its own, under way by itself.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
    ) -> tokio::task::JoinHandle<Result<Heard, hyper::Error>> {
        let (url, ca, way) = (self.proxy.url(), self.proxy.ca_pem().map(str::to_owned), self.way);
        let (method, path) = (method.to_owned(), path.to_owned());
        tokio::spawn(async move {
            let mut client = Client::connect_to(&url, ca.as_deref(), way).await.expect("a connection");
            client.ask(&method, &path, "{}").await
        })
    }
}

enum Sender {
    Http1(hyper::client::conn::http1::SendRequest<Full<Bytes>>),
    Http2(hyper::client::conn::http2::SendRequest<Full<Bytes>>),
}

/// One connection to the proxy; closed when dropped.
pub(crate) struct Client {
    sender: Sender,
    connection: AbortOnDropHandle<()>,
}

/// An answer, whole.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) json: Value,
}

impl Client {
    pub(crate) async fn connect(proxy: &Proxy, way: Way) -> std::io::Result<Self> {
        Self::connect_to(&proxy.url(), proxy.ca_pem(), way).await
    }

    async fn connect_to(url: &str, ca_pem: Option<&str>, way: Way) -> std::io::Result<Self> {
        let (_, address) = url.split_once("//").expect("a URL");
        let stream = TcpStream::connect(address).await?;
        let Some(ca) = ca_pem else { return Self::over(stream, way).await };
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).expect("PEM")).expect("a CA");
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        if way.is_http2() {
            config.alpn_protocols = vec![b"h2".to_vec()];
        }
        let name = ServerName::try_from("127.0.0.1").expect("a name");
        let stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        Self::over(stream, way).await
    }

    async fn over<S>(stream: S, way: Way) -> std::io::Result<Self>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
    {
        let io = TokioIo::new(stream);
        let (sender, connection) = if way.is_http2() {
            let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
                .await
                .map_err(std::io::Error::other)?;
            (Sender::Http2(sender), tokio::spawn(async move { drop(connection.await) }))
        } else {
            let (sender, connection) =
                hyper::client::conn::http1::handshake(io).await.map_err(std::io::Error::other)?;
            (Sender::Http1(sender), tokio::spawn(async move { drop(connection.await) }))
        };
        Ok(Self { sender, connection: AbortOnDropHandle::new(connection) })
    }

    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        patiently(async {
            match &mut self.sender {
                Sender::Http1(sender) => {
                    sender.ready().await?;
                    sender.send_request(request).await
                }
                Sender::Http2(sender) => sender.send_request(request).await,
            }
        })
        .await
    }

    /// A request and its whole answer.
    pub(crate) async fn ask(&mut self, method: &str, path: &str, body: &str) -> Result<Heard, hyper::Error> {
        self.ask_as("tests/1", None, method, path, body).await
    }

    pub(crate) async fn ask_as(
        &mut self,
        agent: &str,
        token: Option<&str>,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<Heard, hyper::Error> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://proxy{path}"))
            .header("host", "proxy")
            .header("user-agent", agent)
            .header("content-type", "application/json");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let answer = self.send(request.body(Full::from(body.to_owned())).expect("a request")).await?;
        let (head, body) = answer.into_parts();
        let body = body.collect().await?.to_bytes();
        let json = serde_json::from_slice(&body).unwrap_or_else(|_| String::from_utf8_lossy(&body).into());
        Ok(Heard { status: head.status.as_u16(), headers: head.headers, json })
    }

    /// A GET whose answer is read piece by piece. It takes the connection along.
    pub(crate) async fn follow(mut self, path: &str) -> Followed {
        let request = Request::get(format!("http://proxy{path}")).header("host", "proxy");
        let answer = self.send(request.body(Full::default()).expect("a request")).await.expect("an answer");
        Followed {
            status: answer.status().as_u16(),
            body: answer.into_body(),
            read: Vec::new(),
            _client: self,
        }
    }

    /// Until the proxy has closed the connection.
    pub(crate) async fn until_closed(self) {
        let _ = patiently(self.connection).await;
    }
}

/// An answer that is still coming.
pub(crate) struct Followed {
    pub(crate) status: u16,
    body: Incoming,
    read: Vec<u8>,
    _client: Client,
}

/// How a stream went on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Line(String),
    /// A proper end.
    End,
    /// Broken off, with what was left of a line.
    Cut(String),
}

impl Followed {
    pub(crate) async fn next(&mut self) -> Next {
        loop {
            if let Some(at) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=at).collect();
                return Next::Line(String::from_utf8_lossy(&line).trim().to_owned());
            }
            match patiently(self.body.frame()).await {
                Some(Ok(frame)) => self.read.extend(frame.into_data().unwrap_or_default()),
                Some(Err(_)) => return Next::Cut(String::from_utf8_lossy(&self.read).into_owned()),
                None => return Next::End,
            }
        }
    }

    /// The next line as `TYPE name`, or of an ERROR its code.
    pub(crate) async fn event(&mut self) -> String {
        match self.next().await {
            Next::Line(line) => {
                let event: Value = serde_json::from_str(&line).expect("JSON");
                let text = |pointer| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
                let code = event.pointer("/object/code").map(Value::to_string).unwrap_or_default();
                format!("{} {}{code}", text("/type"), text("/object/metadata/name"))
            }
            other => format!("{other:?}"),
        }
    }
}
