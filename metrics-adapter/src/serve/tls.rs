//! The serving certificate: read from files, and read again when their content changes.
//!
//! A mounted Secret swaps a symbolic link, so files are compared by content rather than watched.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum_server::tls_rustls::RustlsConfig;
use headroom_policies::Timestamp;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, version};
use tokio_util::sync::CancellationToken;
use x509_cert::der::Decode;

/// How often files are worth a look: a new certificate is then served within seconds.
pub const RELOAD_INTERVAL: Duration = Duration::from_secs(5);

/// Where a server's certificate is. All files are PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by those between it and its root.
    pub certificate: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
    /// Roots of client certificates. Where given, a client without a certificate from one of them is refused in the
    /// handshake.
    pub client_ca: Option<PathBuf>,
}

/// Why files cannot be served with.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A file does not hold what it should in PEM.
    #[error("cannot find a {wanted} in {}: {error}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        wanted: &'static str,
        /// What stands in the way.
        error: pem::Error,
    },
    /// A certificate's dates cannot be read.
    #[error("cannot read the certificate in {}: {error}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What stands in the way.
        error: String,
    },
    /// A certificate and a key cannot be used together.
    #[error("cannot serve {} with the key {}: {error}", certificate.display(), key.display())]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What stands in the way.
        error: rustls::Error,
    },
    /// Client certificates cannot be checked against a file's roots.
    #[error("cannot use the client roots in {}: {error}", path.display())]
    ClientCa {
        /// The file.
        path: PathBuf,
        /// What stands in the way.
        error: VerifierBuilderError,
    },
}

/// What a look at the files led to.
#[derive(Debug)]
pub enum Reload {
    /// They are as they were at the last look, good or not.
    Unchanged,
    /// New connections get what is in them now.
    Replaced,
    /// They changed to something that cannot be served with; what was in use stays in use.
    Kept(TlsError),
}

/// A server's TLS settings, TLS 1.2 and 1.3 with HTTP/2 and HTTP/1.1, which follow their files.
pub struct Tls {
    files: TlsFiles,
    config: RustlsConfig,
    state: Mutex<State>,
}

struct State {
    /// Of what the last look found, so that one fault is told once.
    fingerprint: u64,
    expires_at: Timestamp,
}

impl Tls {
    /// Reads the files for the first time.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let contents = Contents::read(&files);
        let fingerprint = fingerprint(&contents);
        let usable = Usable::new(&files, &contents?)?;
        let state = Mutex::new(State { fingerprint, expires_at: usable.expires_at });
        Ok(Self { files, config: RustlsConfig::from_config(Arc::new(usable.config)), state })
    }

    /// Looks at the files. A fault is returned once for as long as the files stay the same.
    ///
    /// A look between the writing of a certificate and that of its key finds that they do not match; the next look
    /// finds the pair.
    pub fn reload(&self) -> Reload {
        let contents = Contents::read(&self.files);
        let fingerprint = fingerprint(&contents);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.fingerprint == fingerprint {
            return Reload::Unchanged;
        }
        state.fingerprint = fingerprint;
        match contents.and_then(|contents| Usable::new(&self.files, &contents)) {
            Ok(usable) => {
                state.expires_at = usable.expires_at;
                self.config.reload_from_config(Arc::new(usable.config));
                Reload::Replaced
            }
            Err(error) => Reload::Kept(error),
        }
    }

    /// Looks at the files again and again, and logs what it finds, until `shutdown`.
    pub async fn watch(self: Arc<Self>, interval: Duration, shutdown: CancellationToken) {
        while shutdown.run_until_cancelled(tokio::time::sleep(interval)).await.is_some() {
            let tls = Arc::clone(&self);
            let certificate = self.files.certificate.display();
            match tokio::task::spawn_blocking(move || tls.reload()).await {
                Ok(Reload::Unchanged) => {}
                Ok(Reload::Replaced) => tracing::info!(%certificate, "serving a new certificate"),
                Ok(Reload::Kept(error)) => tracing::error!(%error, "keeping the certificate in use"),
                Err(error) => tracing::error!(%certificate, %error, "cannot look for a new certificate"),
            }
        }
    }

    /// Days until the first certificate of the chain in use expires, below 0 once it has.
    pub fn days_to_expiry(&self, now: Timestamp) -> f64 {
        const DAY_MILLIS: f64 = 86_400_000.0;
        let expires_at = self.state.lock().unwrap_or_else(PoisonError::into_inner).expires_at;
        expires_at.as_millis().saturating_sub(now.as_millis()) as f64 / DAY_MILLIS
    }

    /// The settings in use; the clone follows the files too.
    pub(super) fn config(&self) -> RustlsConfig {
        self.config.clone()
    }
}

/// What is in the files.
#[derive(Hash)]
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Contents {
    fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let read = |path: &Path| fs::read(path).map_err(|error| TlsError::Read { path: path.to_owned(), error });
        Ok(Self {
            certificate: read(&files.certificate)?,
            key: read(&files.key)?,
            client_ca: files.client_ca.as_deref().map(read).transpose()?,
        })
    }
}

fn fingerprint(contents: &Result<Contents, TlsError>) -> u64 {
    let mut hasher = DefaultHasher::new();
    match contents {
        Ok(contents) => contents.hash(&mut hasher),
        Err(error) => error.to_string().hash(&mut hasher),
    }
    hasher.finish()
}

/// What good files come to.
struct Usable {
    config: ServerConfig,
    expires_at: Timestamp,
}

impl Usable {
    fn new(files: &TlsFiles, contents: &Contents) -> Result<Self, TlsError> {
        let chain = certificates(&files.certificate, &contents.certificate)?;
        let expires_at = first_expiry(&files.certificate, &chain)?;
        let key = PrivateKeyDer::from_pem_slice(&contents.key).map_err(|error| TlsError::Pem {
            path: files.key.clone(),
            wanted: "private key",
            error,
        })?;
        let verifier = match (&files.client_ca, &contents.client_ca) {
            (Some(path), Some(roots)) => client_verifier(path, roots)?,
            _ => Arc::new(NoClientAuth),
        };
        let pair = |error| TlsError::Pair { certificate: files.certificate.clone(), key: files.key.clone(), error };
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&version::TLS13, &version::TLS12])
            .map_err(pair)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(pair)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { config, expires_at })
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The certificates of a file, at least one.
fn certificates(path: &Path, content: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let fault = |error| TlsError::Pem { path: path.to_owned(), wanted: "certificate", error };
    let found = CertificateDer::pem_slice_iter(content).collect::<Result<Vec<_>, _>>().map_err(fault)?;
    if found.is_empty() { Err(fault(pem::Error::NoItemsFound)) } else { Ok(found) }
}

fn first_expiry(path: &Path, chain: &[CertificateDer<'_>]) -> Result<Timestamp, TlsError> {
    let mut first = Timestamp::from_millis(i64::MAX);
    for certificate in chain {
        let certificate = x509_cert::Certificate::from_der(certificate)
            .map_err(|error| TlsError::Certificate { path: path.to_owned(), error: error.to_string() })?;
        let not_after = certificate.tbs_certificate().validity().not_after.to_unix_duration();
        first = first.min(Timestamp::from_millis(i64::try_from(not_after.as_millis()).unwrap_or(i64::MAX)));
    }
    Ok(first)
}

fn client_verifier(path: &Path, content: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for root in certificates(path, content)? {
        roots.add(root).map_err(|error| TlsError::Certificate { path: path.to_owned(), error: error.to_string() })?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .map(|verifier| verifier as Arc<dyn ClientCertVerifier>)
        .map_err(|error| TlsError::ClientCa { path: path.to_owned(), error })
}
