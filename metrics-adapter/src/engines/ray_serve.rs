//! Ray Serve LLM: vLLM's metrics through the Ray node agent, with underscores and the prefix `ray_`.
//!
//! A scrape consumes the gauges, and vLLM pushes them only when it computes: gauges that are gone are unknown,
//! and zero only while the token counters stand still and Serve itself has nothing queued or running.

use super::EngineMap;
use super::plan::PlanBuilder;
use super::select::Selection;
use super::vllm::{self, Names};

pub(super) const MAP: EngineMap = EngineMap { names, recognises, plan };

const VLLM: Names = Names::new("ray_vllm_");
/// Serve's own work: with both at zero, absent gauges mean rest.
const SERVE: [&str; 2] = ["ray_serve_deployment_queued_queries", "ray_serve_replica_processing_queries"];

fn names() -> Vec<String> {
    let mut wanted = vllm::names(&VLLM);
    wanted.extend(SERVE.map(str::to_owned));
    wanted
}

fn recognises(selection: &Selection<'_>) -> bool {
    vllm::recognises(selection, &VLLM)
}

fn plan(selection: &Selection<'_>, builder: &mut PlanBuilder) {
    vllm::plan(selection, builder, &VLLM);
    // Without Serve's word an absent gauge says nothing.
    if SERVE.iter().all(|name| selection.has(name)) {
        builder.plan().also_still = SERVE.iter().flat_map(|name| selection.family(name).slots()).collect();
        vllm::silent_at_rest(builder);
    }
}
