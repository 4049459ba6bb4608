//! The way to the server: HTTP/1.1, a connection for each request.

use crate::{Error, Upstream, tls};
use bytes::Bytes;
use http::header::{self, HeaderName};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::io;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_util::task::AbortOnDropHandle;

/// Headers about one connection, which end at the proxy (RFC 9110, 7.6.1). `content-length` is set anew.
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

/// Why the server gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("cannot be reached: {0}")]
    Connect(#[from] io::Error),
    #[error("broke off: {0}")]
    Exchange(#[from] hyper::Error),
}

/// An answer whose body may still be coming. Its connection lives as long as `connection`.
pub(crate) struct Answered {
    pub(crate) response: Response<Incoming>,
    pub(crate) connection: AbortOnDropHandle<()>,
}

pub(crate) struct Connector {
    /// `host:port`
    authority: String,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Connector {
    pub(crate) fn new(upstream: &Upstream) -> Result<Self, Error> {
        let wrong = |why: &str| Error::Url { url: upstream.url.clone(), why: why.to_owned() };
        let uri: Uri =
            upstream.url.parse().map_err(|error: http::uri::InvalidUri| wrong(&error.to_string()))?;
        let (Some(host), Some(port)) = (uri.host(), uri.port_u16()) else {
            return Err(wrong("host and port must be given"));
        };
        if uri.path() != "/" {
            return Err(wrong("a path is not served"));
        }
        let tls = match uri.scheme_str() {
            Some("http") => None,
            Some("https") => {
                let ca = upstream.ca_pem.as_ref().ok_or_else(|| Error::NoCa(upstream.url.clone()))?;
                let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                let name = ServerName::try_from(name).map_err(|error| wrong(&error.to_string()))?;
                Some((tls::connector(ca)?, name))
            }
            _ => return Err(wrong("the scheme is neither http nor https")),
        };
        Ok(Self { authority: format!("{host}:{port}"), tls })
    }

    /// Asks the server and waits for the head of its answer.
    pub(crate) async fn send(&self, parts: &Parts, body: Bytes) -> Result<Answered, Failure> {
        let stream = TcpStream::connect(&self.authority).await?;
        stream.set_nodelay(true)?;
        match &self.tls {
            None => self.send_on(stream, parts, body).await,
            Some((connector, name)) => {
                self.send_on(connector.connect(name.clone(), stream).await?, parts, body).await
            }
        }
    }

    async fn send_on<S>(&self, stream: S, parts: &Parts, body: Bytes) -> Result<Answered, Failure>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // How it ends shows in the answer and in its body.
        let connection = AbortOnDropHandle::new(tokio::spawn(async move { drop(connection.await) }));
        let response = sender.send_request(self.request(parts, body)).await?;
        Ok(Answered { response, connection })
    }

    fn request(&self, parts: &Parts, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        request.method_mut().clone_from(&parts.method);
        // A client's URI is absolute over HTTP/2; a server wants the path.
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = path.parse().unwrap_or_default();
        let mut headers = end_to_end(&parts.headers);
        headers.remove(header::CONTENT_LENGTH);
        // Over HTTP/1.1 a body may be announced to a server before it is sent; here it is there already.
        headers.remove(header::EXPECT);
        if let Ok(host) = HeaderValue::from_str(&self.authority) {
            headers.insert(header::HOST, host);
        }
        *request.headers_mut() = headers;
        request
    }
}

/// The headers that a proxy passes on.
pub(crate) fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let mut headers = headers.clone();
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
    headers
}
