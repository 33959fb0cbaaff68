//! `headroom-cluster up` and `down`: a control plane to look around in.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, mem};

use anyhow::Context;
use clap::Parser;
use headroom_cluster::{Cluster, ClusterError, Settings};

/// A Kubernetes control plane on loopback, without containers.
#[derive(Parser)]
#[command(version)]
enum Arguments {
    /// Starts it in the background, with one node of 8 GPUs, and prints how to use it
    Up {
        /// From one pass of the HPA to the next
        #[arg(long, default_value = "15s")]
        hpa_period: String,
        /// A folder for its data, keys and logs
        #[arg(long, default_value = "target/cluster/up")]
        folder: PathBuf,
    },
    /// Ends it and removes its folder
    Down {
        /// The folder it was started in
        #[arg(long, default_value = "target/cluster/up")]
        folder: PathBuf,
    },
}

const NODE: &str = include_str!("node.yaml");

fn main() -> anyhow::Result<()> {
    match Arguments::parse() {
        Arguments::Up { hpa_period, folder } => up(&folder, hpa_period),
        Arguments::Down { folder } => down(&folder),
    }
}

fn up(folder: &Path, hpa_period: String) -> anyhow::Result<()> {
    if folder.join("processes").exists() {
        let message = format!("a cluster runs in {} already; end it with `make cluster-down`", folder.display());
        return Err(ClusterError::State(message).into());
    }
    // One that never came up leaves its files.
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let folder = folder.canonicalize()?;
    let cluster = Cluster::start(&folder, &Settings { hpa_period })?;
    cluster.apply(NODE)?;
    let ids: Vec<String> = cluster.process_ids().iter().map(u32::to_string).collect();
    fs::write(folder.join("processes"), ids.join("\n"))?;
    println!("export KUBECONFIG={}", cluster.kubeconfig.display());
    // Its programs go on without this one.
    mem::forget(cluster);
    Ok(())
}

fn down(folder: &Path) -> anyhow::Result<()> {
    let file = folder.join("processes");
    let Ok(ids) = fs::read_to_string(&file) else {
        return Err(ClusterError::State(format!("no cluster runs in {}", folder.display())).into());
    };
    for id in ids.lines() {
        // Another program may have the id by now: only one that was started with this folder is ended.
        let arguments = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let own = folder.canonicalize()?.display().to_string();
        if String::from_utf8_lossy(&arguments).contains(&own) {
            Command::new("kill").args(["-KILL", id]).status().context("cannot run kill")?;
        }
    }
    fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    Ok(())
}
