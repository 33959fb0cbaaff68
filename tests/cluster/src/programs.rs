//! The programs of the cluster and how each is started.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ClusterError;
use crate::certificates::Identity;

/// Services get addresses of this range, which Linux answers on like all of 127.0.0.0/8.
pub(crate) const SERVICE_RANGE: &str = "127.96.0.0/16";
/// Nodes that come by themselves get parts of this range for their pods.
const POD_RANGE: &str = "127.128.0.0/9";

/// Where the built programs are.
#[derive(Debug, Clone)]
pub(crate) struct Programs(PathBuf);

impl Programs {
    /// Those that `make cluster` builds.
    pub(crate) fn built() -> Self {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository.join("target"), PathBuf::from);
        Self(target.join("cluster/bin"))
    }

    pub(crate) fn command(&self, name: &str) -> Result<Command, ClusterError> {
        let path = self.0.join(name);
        if path.is_file() { Ok(Command::new(path)) } else { Err(ClusterError::NotBuilt(path)) }
    }
}

/// A port of 127.0.0.1 that is free now.
pub fn free_port() -> Result<u16, ClusterError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address.as_ref().map(SocketAddr::port).map_err(|error| ClusterError::Io {
        action: "find a free port on",
        path: "127.0.0.1".into(),
        source: std::io::Error::new(error.kind(), error.to_string()),
    })
}

/// Ports of one cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) etcd: u16,
    pub(crate) etcd_peers: u16,
    pub(crate) api_server: u16,
    pub(crate) controller_manager: u16,
    pub(crate) scheduler: u16,
}

impl Ports {
    pub(crate) fn free() -> Result<Self, ClusterError> {
        Ok(Self {
            etcd: free_port()?,
            etcd_peers: free_port()?,
            api_server: free_port()?,
            controller_manager: free_port()?,
            scheduler: free_port()?,
        })
    }
}

pub(crate) fn etcd(command: &mut Command, folder: &Path, ports: Ports) {
    let (clients, peers) = (local(ports.etcd), local(ports.etcd_peers));
    command
        .arg(flag("data-dir", folder.join("etcd").display()))
        .arg(flag("listen-client-urls", &clients))
        .arg(flag("advertise-client-urls", &clients))
        .arg(flag("listen-peer-urls", &peers))
        .arg(flag("initial-advertise-peer-urls", &peers))
        .arg(flag("initial-cluster", format!("default={peers}")))
        .arg("--unsafe-no-fsync");
}

/// Files that the API server shows, trusts and signs with.
pub(crate) struct ApiServerFiles<'a> {
    pub(crate) serving: &'a Identity,
    pub(crate) clients: &'a Path,
    pub(crate) front_proxy_clients: &'a Path,
    pub(crate) front_proxy: &'a Identity,
    pub(crate) token_keys: &'a (PathBuf, PathBuf),
}

pub(crate) fn api_server(command: &mut Command, ports: Ports, files: &ApiServerFiles<'_>) {
    let (signing, verifying) = files.token_keys;
    command
        .arg(flag("etcd-servers", local(ports.etcd)))
        .args(["--bind-address=127.0.0.1", "--endpoint-reconciler-type=none"])
        .arg(flag("secure-port", ports.api_server))
        .arg(flag("service-cluster-ip-range", SERVICE_RANGE))
        .args(["--authorization-mode=RBAC", "--allow-privileged=true"])
        .arg(flag("tls-cert-file", files.serving.certificate.display()))
        .arg(flag("tls-private-key-file", files.serving.key.display()))
        .arg(flag("client-ca-file", files.clients.display()))
        .arg("--service-account-issuer=https://kubernetes.default.svc")
        .arg(flag("service-account-signing-key-file", signing.display()))
        .arg(flag("service-account-key-file", verifying.display()))
        .arg(flag("requestheader-client-ca-file", files.front_proxy_clients.display()))
        .args([
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-username-headers=X-Remote-User",
            "--enable-aggregator-routing=false",
        ])
        .arg(flag("proxy-client-cert-file", files.front_proxy.certificate.display()))
        .arg(flag("proxy-client-key-file", files.front_proxy.key.display()));
}

pub(crate) fn controller_manager(
    command: &mut Command,
    ports: Ports,
    kubeconfig: &Path,
    (root, signing): (&Path, &Path),
    hpa_period: &str,
) {
    follower(command, kubeconfig, ports.controller_manager);
    command
        .arg(flag("root-ca-file", root.display()))
        .arg(flag("service-account-private-key-file", signing.display()))
        .args(["--use-service-account-credentials=true", "--controllers=*", "--allocate-node-cidrs=true"])
        .arg(flag("cluster-cidr", POD_RANGE))
        .arg("--node-cidr-mask-size=24")
        .arg(flag("horizontal-pod-autoscaler-sync-period", hpa_period));
}

pub(crate) fn scheduler(command: &mut Command, ports: Ports, kubeconfig: &Path) {
    follower(command, kubeconfig, ports.scheduler);
}

/// What the controller manager and the scheduler share.
fn follower(command: &mut Command, kubeconfig: &Path, port: u16) {
    for name in ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"] {
        command.arg(flag(name, kubeconfig.display()));
    }
    command.args(["--leader-elect=false", "--bind-address=127.0.0.1"]).arg(flag("secure-port", port));
}

pub(crate) fn kwok(command: &mut Command, kubeconfig: &Path, stages: &Path) {
    command.arg(flag("kubeconfig", kubeconfig.display())).arg(flag("config", stages.display())).args([
        "--manage-all-nodes=true",
        "--node-lease-duration-seconds=40",
        "--cidr=127.90.0.0/24",
    ]);
}

fn flag(name: &str, value: impl std::fmt::Display) -> String {
    format!("--{name}={value}")
}

fn local(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}
