//! Which proxy stands before the API server: the kubeconfig's `proxy-url`, or the environment's `HTTPS_PROXY`, which
//! `NO_PROXY` limits as Go's `httpproxy` does (names, domains, networks, `*`; no ports). A server on this machine or
//! without TLS has none. kube reads the kubeconfig first, and there `NO_PROXY` also takes away a `proxy-url` whose
//! own host it names.

use anyhow::{Context as _, Result, bail};
use http::Uri;
use http::uri::Scheme;
use hyper_util::client::proxy::matcher::Matcher;
use std::net::IpAddr;

/// The proxy for `server`, in the words that kube knows. `configured` is what kube found: it takes the
/// environment's for its own, and asks `NO_PROXY` about the proxy in place of the server.
pub fn choose(
    configured: Option<Uri>,
    server: &Uri,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Option<Uri>> {
    let set = |name: &str| environment(name).filter(|text| !text.is_empty());
    let any = |names: [&str; 2]| names.into_iter().find_map(set);
    let found = any(["HTTPS_PROXY", "https_proxy"]);
    let is_found = |uri: &Uri| found.as_deref().and_then(|text| text.parse().ok()).as_ref() == Some(uri);
    let proxy = match (configured, &found) {
        (Some(configured), _) if !is_found(&configured) => configured,
        (_, Some(found)) if is_meant(server, &any(["NO_PROXY", "no_proxy"]).unwrap_or_default()) => {
            let with_scheme = if found.contains("://") { found.clone() } else { format!("http://{found}") };
            with_scheme.parse().context("HTTPS_PROXY is no URL: write http://HOST:PORT")?
        }
        _ => return Ok(None),
    };
    supported(proxy).map(Some)
}

/// Whether the environment's proxy is for this server: never for one on this machine.
fn is_meant(server: &Uri, no_proxy: &str) -> bool {
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    let here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let matcher = Matcher::builder().https("http://any").no(no_proxy).build();
    !here && server.scheme() == Some(&Scheme::HTTPS) && matcher.intercept(server).is_some()
}

/// kube's `socks5` leaves names to the proxy, which others call `socks5h`.
fn supported(proxy: Uri) -> Result<Uri> {
    match proxy.scheme_str() {
        Some("http" | "socks5") => Ok(proxy),
        Some("socks5h") => {
            let mut parts = proxy.into_parts();
            parts.scheme = Some("socks5".parse()?);
            Ok(Uri::from_parts(parts)?)
        }
        scheme => bail!(
            "the proxy {}://{} cannot be used: only http://, socks5:// and socks5h:// are supported; \
             unset https_proxy or proxy-url, or change it",
            scheme.unwrap_or_default(),
            proxy.host().unwrap_or_default()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Uri {
        text.parse().unwrap()
    }

    #[test]
    fn case_41_a_proxy_is_used_or_refused_without_its_password() {
        for (given, used) in [
            ("http://127.0.0.1:1", "http://127.0.0.1:1/"),
            ("socks5://127.0.0.1:1", "socks5://127.0.0.1:1/"),
            ("socks5h://user:secret@host:1", "socks5://user:secret@host:1/"),
        ] {
            assert_eq!(supported(uri(given)).unwrap(), used);
        }
        for given in ["socks4://user:secret@host:1", "https://host:1", "host:1"] {
            let text = supported(uri(given)).unwrap_err().to_string();
            assert!(text.contains("host cannot be used: only http://") && !text.contains("secret"), "{text}");
        }
    }

    #[test]
    fn case_41_the_environments_proxy_is_for_servers_elsewhere_that_no_proxy_does_not_name() {
        for (server, no_proxy, used) in [
            ("https://api.example:6443", "", true),
            ("https://api.example:6443", "other.example,10.0.0.0/8", true),
            ("https://api.example:6443", ".example", false),
            ("https://api.example:6443", "*", false),
            ("https://10.1.2.3", "other.example,10.0.0.0/8", false),
            ("https://127.0.0.1:6443", "", false),
            ("https://[::1]:6443", "", false),
            ("https://localhost:6443", "", false),
            ("http://api.example", "", false),
        ] {
            let environment = |name: &str| match name {
                "https_proxy" => Some("proxy.example:3128".to_owned()),
                "NO_PROXY" => Some(no_proxy.to_owned()),
                _ => None,
            };
            // As kube has it from a kubeconfig, and as it has nothing for the service account of a pod.
            for configured in [Some(uri("proxy.example:3128")), None] {
                let chosen = choose(configured, &uri(server), environment).unwrap();
                assert_eq!(chosen, used.then(|| uri("http://proxy.example:3128")), "{server} {no_proxy:?}");
            }
            let own = uri("http://own.example:1");
            let chosen = choose(Some(own.clone()), &uri(server), environment).unwrap();
            assert_eq!(chosen, Some(own), "what the kubeconfig says is for its server");
        }
        assert_eq!(choose(None, &uri("https://api.example"), |_| None).unwrap(), None);
    }
}
