//! The proxy's own certificate authority, and trust in the server's.

use crate::Error;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use std::sync::Arc;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Ours by name: other crates of the process may have installed another one.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// What the proxy shows its clients.
pub(crate) struct Identity {
    pub(crate) ca_pem: String,
    pub(crate) server_pem: String,
    pub(crate) acceptor: TlsAcceptor,
}

impl Identity {
    /// A new authority and a certificate for 127.0.0.1 and localhost.
    pub(crate) fn new() -> Result<Self, Error> {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        authority.distinguished_name.push(DnType::CommonName, "fault-proxy CA");
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

        let mut server = CertificateParams::new(["127.0.0.1".to_owned(), "localhost".to_owned()])?;
        server.distinguished_name.push(DnType::CommonName, "fault-proxy");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        server.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let server = server.signed_by(&key, &authority)?;

        let private_key = PrivateKeyDer::try_from(key.serialize_der()).map_err(Error::PrivateKey)?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![server.der().clone()], private_key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Self { ca_pem: authority.pem(), server_pem: server.pem(), acceptor })
    }
}

/// Trusts what this authority signed, and nothing else.
pub(crate) fn connector(ca_pem: &str) -> Result<TlsConnector, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
        let certificate = certificate.map_err(|error| Error::Ca(error.to_string()))?;
        roots.add(certificate).map_err(|error| Error::Ca(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(Error::Ca("there is no certificate in it".into()));
    }
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
