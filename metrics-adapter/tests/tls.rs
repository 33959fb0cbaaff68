//! Certificates from files: replaced while serving, broken, required of clients.

#![allow(clippy::unwrap_used, clippy::panic)]

mod external_metrics_support;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use external_metrics_support::certificates::{Authority, Leaf, files};
use external_metrics_support::client::{Client, tls_session};
use external_metrics_support::{DESIRED, Fake, TestServer, soon};
use headroom_adapter::serve::{Limits, Reload, Tls, TlsError, TlsFiles, Transport};
use headroom_policies::Timestamp;
use hyper::Method;
use rustls::pki_types::CertificateDer;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

async fn serve_with(tls: &Arc<Tls>, limits: Limits) -> TestServer {
    let router = Fake::default().number("llm", "chat", DESIRED, "7").router();
    TestServer::start(router, Transport::Tls(Arc::clone(tls)), limits).await
}

/// A folder with a certificate of a root and its key.
fn folder_with(leaf: &Leaf) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    leaf.write(folder.path());
    folder
}

/// The certificate that a server shows to a client that trusts a root.
async fn shown(address: SocketAddr, root: &Authority) -> io::Result<CertificateDer<'static>> {
    let session = tls_session(address, root.client(None, &["h2"])).await?;
    Ok(session.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned())
}

fn load_error(files: TlsFiles) -> TlsError {
    match Tls::load(files) {
        Ok(_) => panic!("the files were accepted"),
        Err(error) => error,
    }
}

/// B-85: a certificate replaced on disk, by the switch of a symbolic link as in a mounted Secret, is served to new
/// connections without a restart, while a connection that is open goes on.
#[tokio::test]
async fn a_replaced_certificate_is_served_without_restart() {
    let (old_root, new_root) = (Authority::new("old"), Authority::new("new"));
    let (old, new) = (old_root.issue(2030), new_root.issue(2031));
    let volume = tempfile::tempdir().unwrap();
    for (name, leaf) in [("..1", &old), ("..2", &new)] {
        fs::create_dir(volume.path().join(name)).unwrap();
        leaf.write(&volume.path().join(name));
    }
    symlink("..1", volume.path().join("..data")).unwrap();
    for name in ["tls.crt", "tls.key"] {
        symlink(Path::new("..data").join(name), volume.path().join(name)).unwrap();
    }

    let tls = Arc::new(Tls::load(files(volume.path())).unwrap());
    let server = serve_with(&tls, Limits::default()).await;
    let stop = CancellationToken::new();
    let watch = tokio::spawn(Arc::clone(&tls).watch(Duration::from_millis(5), stop.clone()));
    assert_eq!(shown(server.address, &old_root).await.unwrap(), old.der);
    let mut open = Client::http2_over(tls_session(server.address, old_root.client(None, &["h2"])).await.unwrap()).await;

    symlink("..2", volume.path().join("..new")).unwrap();
    fs::rename(volume.path().join("..new"), volume.path().join("..data")).unwrap();
    soon(async { while shown(server.address, &new_root).await.ok().as_ref() != Some(&new.der) {} }).await;
    assert!(shown(server.address, &old_root).await.is_err());
    assert_eq!(open.get("/healthz").await.code, 200);
    stop.cancel();
    soon(watch).await.unwrap();
}

/// B-85: files that cannot be served with are told once and leave the certificate in use.
#[tokio::test]
async fn a_broken_certificate_keeps_the_old_one() {
    let root = Authority::new("root");
    let (old, new) = (root.issue(2030), root.issue(2031));
    let folder = folder_with(&old);
    let tls = Arc::new(Tls::load(files(folder.path())).unwrap());
    let server = serve_with(&tls, Limits::default()).await;
    assert!(matches!(tls.reload(), Reload::Unchanged));

    let breakages: [(&str, &dyn Fn()); 4] = [
        ("the key is of the old certificate", &|| fs::write(folder.path().join("tls.crt"), &new.pem).unwrap()),
        ("no certificate", &|| fs::write(folder.path().join("tls.crt"), "").unwrap()),
        ("not PEM", &|| fs::write(folder.path().join("tls.crt"), "-----BEGIN CERTIFICATE-----\n?").unwrap()),
        ("no file", &|| fs::remove_file(folder.path().join("tls.crt")).unwrap()),
    ];
    for (what, break_it) in breakages {
        break_it();
        let Reload::Kept(error) = tls.reload() else { panic!("{what}: not noticed") };
        assert!(error.to_string().contains("tls.crt"), "{what}: {error}");
        assert!(matches!(tls.reload(), Reload::Unchanged), "{what}: told twice");
        assert_eq!(shown(server.address, &root).await.unwrap(), old.der, "{what}");
    }

    new.write(folder.path());
    assert!(matches!(tls.reload(), Reload::Replaced));
    assert_eq!(shown(server.address, &root).await.unwrap(), new.der);
}

/// B-85: days to expiry are those of the first certificate of the chain in use to expire.
#[test]
fn days_to_expiry_follow_the_chain_in_use() {
    let root = Authority::new("root");
    let folder = folder_with(&root.issue(2031));
    let tls = Tls::load(files(folder.path())).unwrap();
    let days = |now: &str| tls.days_to_expiry(Timestamp::parse(now).unwrap());
    assert!((days("2030-12-01T00:00:00Z") - 31.0).abs() < 1e-9);
    assert!((days("2031-01-01T12:00:00Z") + 0.5).abs() < 1e-9);

    let (leaf, intermediate) = (root.issue(2040), root.issue(2035));
    leaf.write(folder.path());
    fs::write(folder.path().join("tls.crt"), format!("{}{}", leaf.pem, intermediate.pem)).unwrap();
    assert!(matches!(tls.reload(), Reload::Replaced));
    assert!((days("2034-12-31T00:00:00Z") - 1.0).abs() < 1e-9);
}

#[tokio::test]
async fn http2_and_http1_over_both_versions_of_tls() {
    let root = Authority::new("root");
    let folder = folder_with(&root.issue(2100));
    let tls = Arc::new(Tls::load(files(folder.path())).unwrap());
    let server = serve_with(&tls, Limits::default()).await;
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let both = root.client_of_version(None, &["h2", "http/1.1"], &[version]);
        let session = tls_session(server.address, both).await.unwrap();
        assert_eq!(session.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        assert_eq!(session.get_ref().1.protocol_version(), Some(version.version));
        assert_eq!(Client::http2_over(session).await.get("/apis").await.code, 200);
        for alpn in [&["http/1.1"][..], &[]] {
            let session = tls_session(server.address, root.client_of_version(None, alpn, &[version])).await.unwrap();
            assert_eq!(Client::http1_over(session).await.get("/apis").await.code, 200);
        }
    }
}

#[tokio::test]
async fn clients_must_show_a_certificate_where_roots_are_given() {
    let (root, client_root, stranger) = (Authority::new("root"), Authority::new("clients"), Authority::new("other"));
    let folder = folder_with(&root.issue(2100));
    let client_ca = folder.path().join("ca.crt");
    fs::write(&client_ca, client_root.pem()).unwrap();
    let files = TlsFiles { client_ca: Some(client_ca.clone()), ..files(folder.path()) };
    let tls = Arc::new(Tls::load(files).unwrap());
    let server = serve_with(&tls, Limits::default()).await;

    let (known, unknown) = (client_root.issue(2100), stranger.issue(2100));
    let answers = async |own: Option<&Leaf>| {
        // TLS 1.3 clients learn of a refusal with their first read.
        let session = tls_session(server.address, root.client(own, &["http/1.1"])).await?;
        let answer = Client::http1_over(session).await.request(Method::GET, "/healthz", &[]).await;
        answer.map(|answer| answer.code).map_err(io::Error::other)
    };
    assert_eq!(answers(Some(&known)).await.unwrap(), 200);
    assert!(answers(Some(&unknown)).await.is_err());
    assert!(answers(None).await.is_err());

    // Roots are followed as certificates are.
    fs::write(&client_ca, stranger.pem()).unwrap();
    assert!(matches!(tls.reload(), Reload::Replaced));
    assert_eq!(answers(Some(&unknown)).await.unwrap(), 200);
    assert!(answers(Some(&known)).await.is_err());
}

#[tokio::test]
async fn a_handshake_that_does_not_come_is_given_up() {
    let root = Authority::new("root");
    let folder = folder_with(&root.issue(2100));
    let tls = Arc::new(Tls::load(files(folder.path())).unwrap());
    let limits = Limits { handshake: Duration::from_millis(50), ..Limits::default() };
    let server = serve_with(&tls, limits).await;
    let mut silent = soon(TcpStream::connect(server.address)).await.unwrap();
    assert_eq!(soon(silent.read(&mut [0; 1])).await.unwrap(), 0);
}

#[test]
fn faults_name_the_file() {
    let root = Authority::new("root");
    let (leaf, other) = (root.issue(2100), root.issue(2100));
    let folder = folder_with(&leaf);
    let path = |name: &str| folder.path().join(name);
    fs::write(path("other.key"), other.key.serialize_pem()).unwrap();
    fs::write(path("empty"), "").unwrap();

    let missing = load_error(TlsFiles { key: path("absent"), ..files(folder.path()) }).to_string();
    assert!(missing.starts_with(&format!("cannot read {}: ", path("absent").display())), "{missing}");
    let empty = load_error(TlsFiles { key: path("empty"), ..files(folder.path()) }).to_string();
    assert!(empty.starts_with(&format!("cannot find a private key in {}", path("empty").display())), "{empty}");
    let pair = load_error(TlsFiles { key: path("other.key"), ..files(folder.path()) });
    assert!(matches!(pair, TlsError::Pair { .. }), "{pair}");
    let roots = load_error(TlsFiles { client_ca: Some(path("empty")), ..files(folder.path()) }).to_string();
    assert!(roots.starts_with(&format!("cannot find a certificate in {}", path("empty").display())), "{roots}");
}
