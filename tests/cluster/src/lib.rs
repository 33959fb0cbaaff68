//! A real Kubernetes control plane on loopback: etcd, API server, controller manager with the HPA, scheduler, and kwok
//! in the place of kubelets. No container runs; pods have loopback addresses, at which a test can answer for them.
//!
//! `make cluster` builds the programs. Everything of a cluster is in one folder, and ends with it.

mod certificates;
mod error;
mod process;
mod programs;
mod wait;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

pub use certificates::{Authority, Identity, Subject};
pub use error::ClusterError;
pub use process::Process;
pub use programs::free_port;
pub use wait::wait_until;

use programs::{ApiServerFiles, Ports, Programs};
use wait::{Setback, wait_while_it_may_come};

/// How long a program may take to be ready.
const START_PATIENCE: Duration = Duration::from_secs(90);
const STAGES: &str = include_str!("stages.yaml");

/// What can be chosen of a cluster.
#[derive(Debug, Clone)]
pub struct Settings {
    /// From one pass of the HPA over an object to the next, as a Go duration; 15s in a cluster.
    pub hpa_period: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self { hpa_period: "15s".into() }
    }
}

/// A running control plane, ended when this is dropped.
pub struct Cluster {
    programs: Programs,
    folder: PathBuf,
    /// A kubeconfig of an administrator.
    pub kubeconfig: PathBuf,
    /// Signs the certificates of the API server and of its clients.
    pub authority: Authority,
    /// Signs the certificate that the aggregator shows to extension API servers.
    pub front_proxy_authority: Authority,
    /// In the order in which they end.
    processes: Vec<Process>,
}

impl Cluster {
    /// Starts a control plane with its files in a folder, and waits until it is ready.
    pub fn start(folder: &Path, settings: &Settings) -> Result<Self, ClusterError> {
        let programs = Programs::built();
        let ports = Ports::free()?;
        let authority = Authority::new(folder, "cluster-ca")?;
        let front_proxy_authority = Authority::new(folder, "front-proxy-ca")?;
        let kubeconfig = folder.join("kubeconfig");
        let mut cluster = Self {
            programs,
            folder: folder.to_owned(),
            kubeconfig,
            authority,
            front_proxy_authority,
            processes: Vec::new(),
        };
        cluster.start_api_server(ports)?;
        cluster.start_followers(ports, settings)?;
        cluster.wait_until_ready()?;
        Ok(cluster)
    }

    fn start_api_server(&mut self, ports: Ports) -> Result<(), ClusterError> {
        let serving_names = ["kubernetes.default.svc"];
        let serving = self.identity("apiserver", "kube-apiserver", None, &serving_names)?;
        let front_proxy = self
            .front_proxy_authority
            .sign("front-proxy-client", Subject { name: "front-proxy-client", group: None, serves: &[] })?;
        let token_keys = certificates::token_keys(&self.folder)?;
        let files = ApiServerFiles {
            serving: &serving,
            clients: &self.authority.certificate,
            front_proxy_clients: &self.front_proxy_authority.certificate,
            front_proxy: &front_proxy,
            token_keys: &token_keys,
        };
        let administrator = self.identity("admin", "admin", Some("system:masters"), &[])?;
        self.write_kubeconfig(&self.kubeconfig, ports.api_server, &administrator)?;

        let mut etcd = self.programs.command("etcd")?;
        programs::etcd(&mut etcd, &self.folder, ports);
        let mut api_server = self.programs.command("kube-apiserver")?;
        programs::api_server(&mut api_server, ports, &files);
        let etcd = Process::start("etcd", &mut etcd, &self.folder)?;
        let api_server = Process::start("kube-apiserver", &mut api_server, &self.folder)?;
        self.processes.extend([api_server, etcd]);
        self.wait("the API server is ready", |cluster| cluster.kubectl(&["get", "--raw", "/readyz"]).map(drop))
    }

    fn start_followers(&mut self, ports: Ports, settings: &Settings) -> Result<(), ClusterError> {
        let config_of = |file: &str, user: &str| {
            let path = self.folder.join(format!("{file}.kubeconfig"));
            let identity = self.identity(file, user, None, &[])?;
            self.write_kubeconfig(&path, ports.api_server, &identity)?;
            Ok::<_, ClusterError>(path)
        };
        let manager_config = config_of("controller-manager", "system:kube-controller-manager")?;
        let scheduler_config = config_of("scheduler", "system:kube-scheduler")?;
        let stages = self.folder.join("stages.yaml");
        fs::write(&stages, STAGES).map_err(ClusterError::io("write", &stages))?;

        let mut manager = self.programs.command("kube-controller-manager")?;
        let token_key = self.folder.join("service-accounts.key");
        let files = (self.authority.certificate.as_path(), token_key.as_path());
        programs::controller_manager(&mut manager, ports, &manager_config, files, &settings.hpa_period);
        let mut scheduler = self.programs.command("kube-scheduler")?;
        programs::scheduler(&mut scheduler, ports, &scheduler_config);
        let mut kwok = self.programs.command("kwok")?;
        programs::kwok(&mut kwok, &self.kubeconfig, &stages);
        let started = [
            Process::start("kube-controller-manager", &mut manager, &self.folder)?,
            Process::start("kube-scheduler", &mut scheduler, &self.folder)?,
            Process::start("kwok", &mut kwok, &self.folder)?,
        ];
        self.processes.splice(0..0, started);
        Ok(())
    }

    /// Until pods can be made: the controller manager has made the default service account.
    fn wait_until_ready(&mut self) -> Result<(), ClusterError> {
        self.wait("the controllers are ready", |cluster| {
            cluster.kubectl(&["get", "serviceaccount", "default", "--namespace=default"]).map(drop)
        })
    }

    /// Looks until it succeeds, as long as every program runs.
    fn wait(&mut self, what: &str, look: impl Fn(&Self) -> Result<(), ClusterError>) -> Result<(), ClusterError> {
        wait_while_it_may_come(what, START_PATIENCE, || {
            self.check().map_err(Setback::Never)?;
            look(self).map_err(|error| Setback::NotYet(error.to_string()))
        })
    }

    /// Makes sure that all programs run.
    pub fn check(&mut self) -> Result<(), ClusterError> {
        self.processes.iter_mut().try_for_each(Process::check)
    }

    /// Process ids, in the order in which they should end.
    pub fn process_ids(&self) -> Vec<u32> {
        self.processes.iter().map(Process::id).collect()
    }

    /// Where its data, keys and logs are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A certificate of the cluster's authority.
    fn identity(&self, file: &str, name: &str, group: Option<&str>, serves: &[&str]) -> Result<Identity, ClusterError> {
        self.authority.sign(file, Subject { name, group, serves })
    }

    fn write_kubeconfig(&self, path: &Path, port: u16, identity: &Identity) -> Result<(), ClusterError> {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
             clusters:\n- name: test\n  cluster:\n    server: https://127.0.0.1:{port}\n    certificate-authority: {}\n\
             users:\n- name: test\n  user:\n    client-certificate: {}\n    client-key: {}\n\
             contexts:\n- name: test\n  context: {{cluster: test, user: test}}\n",
            self.authority.certificate.display(),
            identity.certificate.display(),
            identity.key.display(),
        );
        fs::write(path, text).map_err(ClusterError::io("write", path))
    }

    /// Runs kubectl as an administrator, and returns what it prints.
    ///
    /// # Errors
    /// It failed; what it said is in the error.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String, ClusterError> {
        self.kubectl_with(arguments, "")
    }

    /// Runs kubectl with a text on its standard input.
    ///
    /// # Errors
    /// As [`Cluster::kubectl`].
    pub fn kubectl_with(&self, arguments: &[&str], input: &str) -> Result<String, ClusterError> {
        let failed = |source| ClusterError::Io { action: "run", path: "kubectl".into(), source };
        let mut child = self
            .programs
            .command("kubectl")?
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            // It may end without reading.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().map_err(failed)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(ClusterError::Kubectl { arguments: arguments.join(" "), message })
    }

    /// Applies manifests.
    ///
    /// # Errors
    /// As [`Cluster::kubectl`].
    pub fn apply(&self, manifests: &str) -> Result<(), ClusterError> {
        self.kubectl_with(&["apply", "--filename=-"], manifests).map(drop)
    }

    /// An object or list as JSON, `Null` where kubectl prints none.
    ///
    /// # Errors
    /// As [`Cluster::kubectl`].
    pub fn get(&self, arguments: &[&str]) -> Result<Value, ClusterError> {
        let text = self.kubectl(&[&["get", "--output=json"], arguments].concat())?;
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }
}
