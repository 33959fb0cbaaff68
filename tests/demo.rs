//! `headroom demo`: the whole path on one machine.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;
use support::{get_json, headroom, output, stderr};

/// While it runs, the external metrics path answers with what the table shows; it ends with the summary.
#[test]
fn the_table_and_the_external_metric_agree() {
    let args = ["demo", "--json", "--duration", "6s", "--speed", "20"];
    let mut child = headroom(&args).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (mut start, mut rows, mut summary) = (Value::Null, Vec::new(), Value::Null);
    for line in lines {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        match line["kind"].as_str() {
            Some("start") => start = line,
            Some("row") => {
                let (status, answer) = get_json(start["externalMetricsUrl"].as_str().unwrap());
                assert_eq!(status, 200, "{answer}");
                let served: i64 = answer["items"][0]["value"].as_str().unwrap().parse().unwrap();
                let state = get_json(start["stateUrl"].as_str().unwrap()).1;
                assert_eq!(state["overview"]["namespace"], "demo");
                rows.push((line, served));
            }
            Some("summary") => summary = line,
            other => panic!("{other:?}: {line}"),
        }
    }
    assert!(child.wait().unwrap().success());
    assert!(rows.len() >= 4, "{rows:?}");
    for (index, (row, served)) in rows.iter().enumerate() {
        // A decision may fall between the row and the answer; then the next row tells.
        let next = rows.get(index + 1).map(|(row, _)| &row["published"]);
        assert!(row["published"] == *served || next.is_none_or(|next| next == served), "{row} but served {served}");
    }
    assert!(rows.iter().any(|(row, _)| row["running"].as_u64() > Some(0)), "requests run");
    assert!(summary["requests"].as_u64() > Some(50), "{summary}");
    for fleet in ["scaled", "fixed"] {
        assert!(summary[fleet]["attainment"].as_f64() > Some(0.0), "{summary}");
        assert!(summary[fleet]["gpuHours"].as_f64() > Some(0.0), "{summary}");
    }
}

#[test]
fn what_cannot_be_shown_is_refused() {
    for (args, says) in [
        (&["--duration", "0s"][..], "--duration must be at least 1s"),
        (&["--speed", "0.1"], "--speed must be from 1 to 1000"),
        (&["--profile", "P9"], "P2a"),
    ] {
        let refused = output(&[&["demo"], args].concat());
        assert!(!refused.status.success() && stderr(&refused).contains(says), "{args:?}: {}", stderr(&refused));
    }
}
