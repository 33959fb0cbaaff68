//! What the README says can be typed. What is not run here is run by `.ci/run`.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../metrics-adapter/tests/scrape_support/mod.rs"]
mod servers;
mod support;

use std::path::Path;

use servers::{Behaviour, Server};
use support::{Running, headroom, stderr, stdout, until};

fn root(file: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

/// The fenced blocks of one language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let parts = text.split(&fence).skip(1);
    parts.map(|part| part.split("```").next().unwrap().to_owned()).collect()
}

/// Every command line of the README, in order.
fn commands() -> Vec<String> {
    let blocks = blocks(&root("README.md"), "sh");
    blocks.iter().flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// A command line as a shell would split it.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in line.split('"').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

#[test]
fn ci_runs_what_is_not_run_here() {
    let ci = root(".ci/run");
    for line in commands().iter().filter(|line| !line.starts_with("headroom ")) {
        assert!(ci.lines().any(|own| own.starts_with(line.as_str())), "{line:?} is not a line of .ci/run");
    }
}

#[test]
fn links_lead_somewhere() {
    for file in ["README.md", "examples/README.md"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(file).parent().unwrap().to_owned();
        for link in root(file).split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            assert!(link.starts_with("https://") || folder.join(link).exists(), "{file} links to {link}");
        }
    }
}

/// The first policy of the README with servers of loopback in place of its own, and each `headroom` line as written
/// but for addresses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_policy_as_written() {
    let page = "vllm:num_requests_waiting 22\nvllm:kv_cache_usage_perc 0.881\n";
    let (one, two) = (Server::start(Behaviour::page(page)).await, Server::start(Behaviour::page(page)).await);
    let folder = tempfile::tempdir().unwrap();
    let local = [("10.0.0.11:8000", one.address.to_string()), ("10.0.0.12:8000", two.address.to_string())];
    let with_local = |text: &str| local.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    let policy = blocks(&root("README.md"), "yaml").remove(0);
    assert!(policy.starts_with("# autoscaler.yaml\n"), "{policy}");
    let config = folder.path().join("autoscaler.yaml");
    std::fs::write(&config, with_local(&policy)).unwrap();
    let lines: Vec<String> = commands()
        .iter()
        .filter(|line| line.starts_with("headroom ") && !line.starts_with("headroom run "))
        .map(|line| with_local(line))
        .collect();
    let folder = folder.path().to_owned();
    tokio::task::spawn_blocking(move || {
        let running = Running::start(&config, &[]);
        until("six are wanted", || (running.desired("chat", "chat-8b") == Some(6)).then_some(()));
        let server = format!("http://{}", running.state);
        let mut explained = String::new();
        for line in &lines {
            let words = words(line);
            let mut args: Vec<&str> = words[1..].iter().map(String::as_str).collect();
            if ["explain", "hold", "resume"].contains(&args[0]) {
                args.extend(["--server", &server]);
            }
            let done = headroom(&args).current_dir(&folder).output().unwrap();
            assert!(done.status.success(), "{line}: {}{}", stdout(&done), stderr(&done));
            if args[0] == "explain" {
                explained = stdout(&done);
            }
        }
        for shown in
            ["WaitingRequests: 44 at 5 a replica asks for 9", "KVCacheUtilization: 1.762 at 0.75 a replica asks for 3"]
        {
            assert!(root("README.md").contains(shown) && explained.contains(shown), "{explained}");
        }
    })
    .await
    .unwrap();
}

/// Flags, ports, states and signals of the README are those of the program.
#[test]
fn names_are_right() {
    let readme = root("README.md");
    let help = stdout(&headroom(&["run", "--help"]).output().unwrap());
    for line in commands().iter().filter(|line| line.starts_with("headroom run ")) {
        for flag in words(line).iter().filter(|word| word.starts_with("--")) {
            assert!(help.contains(flag.as_str()), "{flag}");
        }
    }
    for flag in ["--external-metrics-address", "--address", "--state-dir"] {
        assert!(readme.contains(flag) && help.contains(flag), "{flag}");
    }
    for state in headroom_adapter::scrape::TargetState::ALL {
        assert!(readme.contains(&format!("`{state}`")), "{state}");
    }
    for signal in headroom_policies::Signal::ALL {
        assert!(readme.contains(&format!("`{signal}`")), "{signal}");
    }
}
