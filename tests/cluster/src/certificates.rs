//! Authorities and certificates, as PEM files of one folder.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};

use crate::ClusterError;

/// A certificate and its key, as files.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// An authority that signs certificates.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
    /// Its own certificate.
    pub certificate: PathBuf,
}

/// Whom a certificate is for.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Its common name, which Kubernetes takes as the user.
    pub name: &'a str,
    /// Its organization, which Kubernetes takes as the group.
    pub group: Option<&'a str>,
    /// The names it serves as, beside localhost and 127.0.0.1.
    pub serves: &'a [&'a str],
}

impl Authority {
    /// A new authority; its certificate is `FOLDER/NAME.crt`.
    pub fn new(folder: &Path, name: &str) -> Result<Self, ClusterError> {
        let failed = |source| ClusterError::Certificate { subject: name.to_owned(), source };
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().map_err(failed)?;
        let issuer = CertifiedIssuer::self_signed(params, key).map_err(failed)?;
        let certificate = folder.join(format!("{name}.crt"));
        write(&certificate, &issuer.pem())?;
        Ok(Self { issuer, folder: folder.to_owned(), certificate })
    }

    /// A certificate to serve and to ask with, as `FOLDER/FILE.crt` and `FOLDER/FILE.key`.
    pub fn sign(&self, file: &str, subject: Subject<'_>) -> Result<Identity, ClusterError> {
        let failed = |source| ClusterError::Certificate { subject: subject.name.to_owned(), source };
        let names: Vec<String> = ["localhost"].iter().chain(subject.serves).map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).map_err(failed)?;
        params.distinguished_name.push(DnType::CommonName, subject.name);
        if let Some(group) = subject.group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.subject_alt_names.push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?;
        let identity = Identity {
            certificate: self.folder.join(format!("{file}.crt")),
            key: self.folder.join(format!("{file}.key")),
        };
        write(&identity.certificate, &certificate.pem())?;
        write(&identity.key, &key.serialize_pem())?;
        Ok(identity)
    }
}

/// The key pair that service account tokens are signed with, as private and public key.
pub(crate) fn token_keys(folder: &Path) -> Result<(PathBuf, PathBuf), ClusterError> {
    let key = KeyPair::generate()
        .map_err(|source| ClusterError::Certificate { subject: "service accounts".into(), source })?;
    let (private, public) = (folder.join("service-accounts.key"), folder.join("service-accounts.pub"));
    write(&private, &key.serialize_pem())?;
    write(&public, &key.public_key_pem())?;
    Ok((private, public))
}

fn write(path: &Path, text: &str) -> Result<(), ClusterError> {
    fs::write(path, text).map_err(ClusterError::io("write", path))
}
