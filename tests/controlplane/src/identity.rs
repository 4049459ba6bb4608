//! Who the server is and who may log in: certificates, the key of service accounts, tokens, kubeconfigs.

use crate::{Error, User};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The user of the plane's own programs and of tests that set things up.
pub(crate) const ADMIN: &str = "admin";

/// Keys, certificates and tokens, made anew for each plane, and the files with what the API server reads of
/// them.
pub(crate) struct Identity {
    pub(crate) ca_pem: String,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) service_account_key: PathBuf,
    pub(crate) service_account_public_key: PathBuf,
    pub(crate) token_file: PathBuf,
    tokens: BTreeMap<String, String>,
}

impl Identity {
    pub(crate) fn create(directory: &Path, users: &[User]) -> Result<Self, Error> {
        let (ca_pem, certificate, key) =
            certificates().map_err(|error| Error::Certificates(error.to_string()))?;
        let service_account_key =
            KeyPair::generate().map_err(|error| Error::Certificates(error.to_string()))?;

        let admin = User { name: ADMIN.into(), groups: vec!["system:masters".into()] };
        let mut tokens = BTreeMap::new();
        let mut lines = Vec::new();
        for user in users.iter().chain([&admin]) {
            let token = uuid::Uuid::new_v4().simple().to_string();
            // token, name, uid, groups
            lines.push(format!("{token},{name},{name},\"{}\"\n", user.groups.join(","), name = user.name));
            tokens.insert(user.name.clone(), token);
        }

        let write = |name: &str, text: &str| {
            let path = directory.join(name);
            std::fs::write(&path, text).map_err(Error::file(&path)).map(|()| path)
        };
        Ok(Self {
            certificate: write("server.crt", &certificate)?,
            key: write("server.key", &key)?,
            service_account_key: write("service-account.key", &service_account_key.serialize_pem())?,
            service_account_public_key: write("service-account.pub", &service_account_key.public_key_pem())?,
            token_file: write("tokens.csv", &lines.concat())?,
            ca_pem,
            tokens,
        })
    }

    /// # Panics
    /// When there is no such user.
    pub(crate) fn token(&self, user: &str) -> &str {
        let known = || self.tokens.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        self.tokens
            .get(user)
            .unwrap_or_else(|| panic!("no user {user} in this plane; the Options named {}", known()))
    }

    /// # Panics
    /// When there is no such user.
    pub(crate) fn kubeconfig(&self, url: &str, user: &str) -> String {
        let (ca, token) = (STANDARD.encode(&self.ca_pem), self.token(user));
        format!(
            "apiVersion: v1
kind: Config
clusters:
- name: plane
  cluster:
    server: {url}
    certificate-authority-data: {ca}
users:
- name: \"{user}\"
  user:
    token: {token}
contexts:
- name: plane
  context:
    cluster: plane
    user: \"{user}\"
    namespace: default
current-context: plane
"
        )
    }
}

/// A certificate authority, and a certificate of 127.0.0.1 with its key, as PEM. Elliptic curves: RSA keys
/// take longer to make than etcd takes to start.
fn certificates() -> Result<(String, String, String), rcgen::Error> {
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    ca.distinguished_name.push(DnType::CommonName, "controlplane");
    let ca_key = KeyPair::generate()?;
    let ca_pem = ca.self_signed(&ca_key)?.pem();

    let mut server = CertificateParams::new(["127.0.0.1", "localhost"].map(str::to_owned))?;
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    server.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    let key = KeyPair::generate()?;
    let certificate = server.signed_by(&key, &Issuer::new(ca, ca_key))?;
    Ok((ca_pem, certificate.pem(), key.serialize_pem()))
}
