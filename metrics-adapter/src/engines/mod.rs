//! Model servers: which families of which engine mean which signal, across versions.
//!
//! One file an engine. Each names the samples it wants and turns the series of a page into a [`Plan`], once for
//! each page layout; reading a page is then arithmetic over its values. Roll-up rules: counts add over ranks, KV
//! occupancy is the largest rank's, label sets that repeat the same fact (tensor-parallel ranks, processes) count
//! once, and of several names of one thing only the first that is there is read.

mod absence;
mod custom;
mod dynamo;
mod llama_cpp;
mod lmdeploy;
mod nim;
mod plan;
mod ray_serve;
mod reading;
mod select;
mod sglang;
mod tensorrt_llm;
mod tgi;
mod triton;
mod vllm;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

pub use custom::{CustomMetric, RollUp};
pub use plan::{Absence, Gauge, HistogramGroup, HistogramPlan, Plan, Rates, Source};
pub use reading::{Increase, Reading, Readings};

use crate::exposition::{Layout, Layouts, NameSet, Page};
use headroom_policies::Signal;
use plan::PlanBuilder;
use select::Selection;

/// A model server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Engine {
    /// vLLM.
    #[serde(rename = "vLLM")]
    VLLM,
    /// SGLang.
    SGLang,
    /// Hugging Face Text Generation Inference.
    TGI,
    /// NVIDIA Triton.
    Triton,
    /// TensorRT-LLM's own server, `trtllm-serve`.
    TensorRTLLM,
    /// `llama-server` of llama.cpp.
    LlamaCpp,
    /// LMDeploy.
    LMDeploy,
    /// Ray Serve LLM.
    RayServe,
    /// NVIDIA Dynamo.
    Dynamo,
    /// NVIDIA NIM.
    NIM,
    /// Any other, mapped by the user.
    Custom,
}

impl Engine {
    /// Every engine that is recognised by its families, in the order in which they are tried.
    pub const KNOWN: [Self; 10] = [
        Self::RayServe,
        Self::Triton,
        Self::Dynamo,
        Self::VLLM,
        Self::SGLang,
        Self::TGI,
        Self::TensorRTLLM,
        Self::LlamaCpp,
        Self::LMDeploy,
        Self::NIM,
    ];

    /// Its name as in the resource.
    pub const fn name(self) -> &'static str {
        match self {
            Self::VLLM => "vLLM",
            Self::SGLang => "SGLang",
            Self::TGI => "TGI",
            Self::Triton => "Triton",
            Self::TensorRTLLM => "TensorRTLLM",
            Self::LlamaCpp => "LlamaCpp",
            Self::LMDeploy => "LMDeploy",
            Self::RayServe => "RayServe",
            Self::Dynamo => "Dynamo",
            Self::NIM => "NIM",
            Self::Custom => "Custom",
        }
    }

    /// The port on which it serves its metrics by default.
    pub const fn default_port(self) -> u16 {
        match self {
            Self::SGLang => 30000,
            Self::TGI => 80,
            Self::Triton => 8002,
            Self::LlamaCpp | Self::RayServe => 8080,
            Self::LMDeploy => 23333,
            Self::VLLM | Self::TensorRTLLM | Self::Dynamo | Self::NIM | Self::Custom => 8000,
        }
    }

    /// The path at which it serves its metrics.
    pub const fn default_path(self) -> &'static str {
        match self {
            Self::TensorRTLLM => "/prometheus/metrics",
            Self::NIM => "/v1/metrics",
            _ => "/metrics",
        }
    }

    /// Whether any version of it exports a signal. `None` where that depends on what runs inside it.
    pub const fn exports(self, signal: Signal) -> Option<bool> {
        use Signal::{
            InterTokenLatency, KVCacheTokens, KVCacheUtilization, PreemptionRate, QueueTime, RejectedRequestRate,
            TimeToFirstToken,
        };
        let never = match self {
            Self::Triton | Self::Dynamo | Self::Custom => return None,
            Self::VLLM | Self::RayServe => return Some(true),
            Self::SGLang => matches!(signal, RejectedRequestRate),
            Self::TGI => matches!(signal, KVCacheUtilization | KVCacheTokens | TimeToFirstToken | PreemptionRate),
            Self::TensorRTLLM => matches!(signal, PreemptionRate | RejectedRequestRate),
            // Occupancy was there until May 2025.
            Self::LlamaCpp if matches!(signal, KVCacheUtilization | KVCacheTokens) => return None,
            Self::LlamaCpp => {
                matches!(
                    signal,
                    TimeToFirstToken | InterTokenLatency | QueueTime | PreemptionRate | RejectedRequestRate
                )
            }
            Self::LMDeploy => matches!(signal, KVCacheTokens | PreemptionRate | RejectedRequestRate),
            Self::NIM => matches!(signal, KVCacheTokens | QueueTime | PreemptionRate | RejectedRequestRate),
        };
        Some(!never)
    }

    /// What to check when its families are not there.
    pub const fn absence_hint(self) -> &'static str {
        match self {
            Self::VLLM => "vLLM shows none of its own with --disable-log-stats",
            Self::SGLang => "SGLang needs --enable-metrics",
            Self::LlamaCpp => "llama-server needs --metrics",
            Self::LMDeploy => "LMDeploy shows none with --disable-metrics",
            Self::TensorRTLLM => {
                "TensorRT-LLM's gauges need enable_iter_perf_stats, and are at /prometheus/metrics, not at /metrics"
            }
            Self::RayServe => "Ray Serve needs log_engine_metrics; its gauges are gone while idle",
            Self::Triton => "Triton's vLLM backend shows no queue and no cache occupancy",
            Self::Dynamo => "Dynamo's families appear with the first request",
            Self::TGI | Self::NIM | Self::Custom => "the server may not have served a request yet",
        }
    }

    fn map(self) -> Option<&'static EngineMap> {
        Some(match self {
            Self::VLLM => &vllm::MAP,
            Self::SGLang => &sglang::MAP,
            Self::TGI => &tgi::MAP,
            Self::Triton => &triton::MAP,
            Self::TensorRTLLM => &tensorrt_llm::MAP,
            Self::LlamaCpp => &llama_cpp::MAP,
            Self::LMDeploy => &lmdeploy::MAP,
            Self::RayServe => &ray_serve::MAP,
            Self::Dynamo => &dynamo::MAP,
            Self::NIM => &nim::MAP,
            Self::Custom => return None,
        })
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How one engine's pages are read.
struct EngineMap {
    /// The samples it wants.
    names: fn() -> Vec<String>,
    /// Whether a page with these series is this engine's.
    recognises: fn(&Selection<'_>) -> bool,
    /// What its series mean.
    plan: fn(&Selection<'_>, &mut PlanBuilder),
}

/// What a fleet's pages are and how to read them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EngineSettings {
    /// The engine; `None` = recognised by its families.
    pub engine: Option<Engine>,
    /// Only series of this model; `None` = all.
    pub model: Option<Box<str>>,
    /// For [`Engine::Custom`]: the families of each signal.
    pub custom: Vec<CustomMetric>,
}

/// Reads the pages of a fleet: holds the wanted names, the layouts seen, and a plan for each.
#[derive(Debug)]
pub struct EngineReader {
    settings: EngineSettings,
    layouts: Arc<Layouts>,
    plans: Mutex<Vec<(Arc<Layout>, Arc<Plan>)>>,
}

/// Plans kept; a rollout of several versions needs a few.
const PLANS_KEPT: usize = 16;

impl EngineReader {
    /// A reader for pages of these settings.
    pub fn new(settings: EngineSettings) -> Self {
        let mut names = Vec::new();
        match settings.engine {
            Some(Engine::Custom) => names.extend(custom::names(&settings.custom)),
            Some(engine) => names.extend(engine.map().map(|map| (map.names)()).unwrap_or_default()),
            None => names.extend(Engine::KNOWN.iter().filter_map(|engine| engine.map()).flat_map(|map| (map.names)())),
        }
        names.push(plan::PROCESS_START.to_owned());
        let layouts = Arc::new(Layouts::new(NameSet::new(names.iter().map(String::as_str))));
        Self { settings, layouts, plans: Mutex::default() }
    }

    /// The wanted names and known layouts, for [`crate::exposition::PageReader`].
    pub fn layouts(&self) -> &Arc<Layouts> {
        &self.layouts
    }

    /// How to read a page: made at its first sight, then looked up.
    pub fn plan(&self, page: &Page) -> Arc<Plan> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, plan)) = plans.iter().find(|(layout, _)| Arc::ptr_eq(layout, page.layout())) {
            return Arc::clone(plan);
        }
        if plans.len() >= PLANS_KEPT {
            plans.remove(0);
        }
        let plan = Arc::new(self.make_plan(page.layout()));
        plans.push((Arc::clone(page.layout()), Arc::clone(&plan)));
        plan
    }

    fn make_plan(&self, layout: &Layout) -> Plan {
        let selection = Selection::new(layout, self.layouts.names(), self.settings.model.as_deref());
        let engine = match self.settings.engine {
            Some(engine) => Some(engine),
            None => {
                Engine::KNOWN.into_iter().find(|engine| engine.map().is_some_and(|map| (map.recognises)(&selection)))
            }
        };
        let mut builder = PlanBuilder::new(engine);
        match engine {
            Some(Engine::Custom) => custom::plan(&self.settings.custom, &selection, &mut builder),
            Some(engine) => {
                if let Some(map) = engine.map() {
                    (map.plan)(&selection, &mut builder);
                }
            }
            None => {}
        }
        builder.finish(&selection)
    }
}
