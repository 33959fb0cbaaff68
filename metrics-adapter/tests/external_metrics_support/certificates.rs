//! Certificates made for a test, and the files they are served from.

use std::path::Path;
use std::sync::Arc;

use headroom_adapter::serve::TlsFiles;
use rcgen::{CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

/// A root that signs.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key.
pub struct Leaf {
    pub der: CertificateDer<'static>,
    pub pem: String,
    pub key: KeyPair,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for `localhost`, as a server's and as a client's, good until the start of a year.
    pub fn issue(&self, until_year: i32) -> Leaf {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(until_year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Leaf { der: certificate.der().clone(), pem: certificate.pem(), key }
    }

    /// A client that trusts servers of this root.
    pub fn client(&self, own: Option<&Leaf>, alpn: &[&str]) -> ClientConfig {
        self.client_of_version(own, alpn, rustls::ALL_VERSIONS)
    }

    /// A client that speaks certain versions of TLS only.
    pub fn client_of_version(
        &self,
        own: Option<&Leaf>,
        alpn: &[&str],
        versions: &[&'static SupportedProtocolVersion],
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some(leaf) => builder.with_client_auth_cert(vec![leaf.der.clone()], leaf.private_key()).unwrap(),
        };
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        config
    }
}

impl Leaf {
    fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.serialize_der()).into()
    }

    /// Writes `tls.crt` and `tls.key`.
    pub fn write(&self, folder: &Path) {
        std::fs::write(folder.join("tls.crt"), &self.pem).unwrap();
        std::fs::write(folder.join("tls.key"), self.key.serialize_pem()).unwrap();
    }
}

/// The files of a folder, named as in a Kubernetes Secret.
pub fn files(folder: &Path) -> TlsFiles {
    TlsFiles { certificate: folder.join("tls.crt"), key: folder.join("tls.key"), client_ca: None }
}
