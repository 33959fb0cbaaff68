//! `headroom kv`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use headroom_policies::Quantity;
use headroom_policies::quantity::QuantityError;
use serde_json::{Value, json};

use super::{Output, say, say_json};

/// Tokens of a block, vLLM's default.
const BLOCK_TOKENS: u64 = 16;
/// Real conversations vary: a target leaves a quarter of the cache.
const SHARE_USED: f64 = 0.75;

/// Work out the KV cache: bytes a token, conversations that fit, targets to start with.
///
/// Bytes a token = 2 (key and value) x layers x KV heads x head size x bytes a number.
#[derive(Debug, Args)]
pub(super) struct KvArgs {
    /// The model's config.json; what is given besides goes before it.
    #[arg(long, value_name = "FILE")]
    model_config: Option<PathBuf>,
    /// Layers that keep a cache.
    #[arg(long)]
    layers: Option<u64>,
    /// Key-value heads, over all GPUs.
    #[arg(long)]
    kv_heads: Option<u64>,
    /// Numbers a head.
    #[arg(long)]
    head_size: Option<u64>,
    /// The cache's data type.
    #[arg(long, value_enum)]
    dtype: Option<DataType>,
    /// Memory for the cache of one replica, e.g. 34Gi.
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    memory: Option<Quantity>,
    /// Tokens of a usual conversation, prompt and answer.
    #[arg(long, default_value_t = 2048)]
    context: u64,
    /// The engine's limit on running requests (vLLM's --max-num-seqs).
    #[arg(long, default_value_t = 256)]
    max_num_seqs: u64,
    /// How to answer.
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,
}

/// Bytes; a cache is never smaller, so that a number without a unit was meant in another one.
const LEAST_MEMORY: i64 = 1 << 20;

/// A Kubernetes quantity; `34GiB` is taken for `34Gi`.
fn memory(text: &str) -> Result<Quantity, String> {
    let text = text.trim();
    text.strip_suffix('B').unwrap_or(text).parse().map_err(|error: QuantityError| error.to_string())
}

/// A number's type in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DataType {
    /// 32 bits.
    #[value(alias = "float32")]
    Fp32,
    /// 16 bits.
    #[value(alias = "float16", alias = "half")]
    Fp16,
    /// 16 bits.
    #[value(alias = "bfloat16")]
    Bf16,
    /// 8 bits.
    #[value(alias = "fp8_e4m3", alias = "fp8_e5m2")]
    Fp8,
    /// 8 bits.
    Int8,
}

impl DataType {
    fn bytes(self) -> u64 {
        match self {
            Self::Fp32 => 4,
            Self::Fp16 | Self::Bf16 => 2,
            Self::Fp8 | Self::Int8 => 1,
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::from_str(name, true).ok()
    }
}

/// The shape of a model's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Shape {
    layers: Option<u64>,
    kv_heads: Option<u64>,
    head_size: Option<u64>,
    dtype: Option<DataType>,
}

impl Shape {
    /// Reads a Hugging Face `config.json`.
    fn of_config(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let json: Value = serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))?;
        // A multimodal model keeps its language model's settings one level down.
        let json = json.get("text_config").unwrap_or(&json);
        if json.get("kv_lora_rank").is_some_and(|rank| !rank.is_null()) {
            bail!(
                "{}: a model with latent attention (kv_lora_rank) keeps one compressed vector a layer; give \
                 --layers, --kv-heads 1, and as --head-size half of kv_lora_rank + qk_rope_head_dim",
                path.display()
            );
        }
        let number = |name: &str| json.get(name).and_then(Value::as_u64);
        let heads = number("num_attention_heads").or(number("n_head"));
        let hidden = number("hidden_size").or(number("n_embd"));
        let head_size = number("head_dim")
            .or(hidden.zip(heads).filter(|(_, heads)| *heads > 0).map(|(hidden, heads)| hidden / heads));
        let dtype = json.get("torch_dtype").or(json.get("dtype")).and_then(Value::as_str).and_then(DataType::named);
        Ok(Self {
            layers: number("num_hidden_layers").or(number("n_layer")),
            kv_heads: number("num_key_value_heads").or(heads),
            head_size,
            dtype,
        })
    }

    fn bytes_per_token(self) -> anyhow::Result<u64> {
        let need = |value: Option<u64>, flag: &str| {
            value.filter(|value| *value > 0).with_context(|| {
                format!("{flag} is needed, above 0; or name the model's config.json with --model-config")
            })
        };
        let layers = need(self.layers, "--layers")?;
        let kv_heads = need(self.kv_heads, "--kv-heads")?;
        let head_size = need(self.head_size, "--head-size")?;
        let bytes = self.dtype.unwrap_or(DataType::Bf16).bytes();
        [layers, kv_heads, head_size, bytes]
            .iter()
            .try_fold(2_u64, |product, factor| product.checked_mul(*factor))
            .context("these numbers are too large for any model")
    }
}

/// What fits in a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fit {
    tokens: u64,
    conversations: u64,
    running_target: u64,
}

fn fit(bytes_per_token: u64, memory: u64, context: u64, max_num_seqs: u64) -> Fit {
    let blocks = memory / bytes_per_token.saturating_mul(BLOCK_TOKENS).max(1);
    let blocks_each = context.div_ceil(BLOCK_TOKENS).max(1);
    let conversations = blocks / blocks_each;
    let most = conversations.min(max_num_seqs);
    let running_target = (most as f64 * SHARE_USED).floor().max(1.0) as u64;
    Fit { tokens: blocks * BLOCK_TOKENS, conversations, running_target }
}

pub(super) fn run(args: &KvArgs) -> anyhow::Result<ExitCode> {
    let config = args.model_config.as_deref().map(Shape::of_config).transpose()?.unwrap_or_default();
    let shape = Shape {
        layers: args.layers.or(config.layers),
        kv_heads: args.kv_heads.or(config.kv_heads),
        head_size: args.head_size.or(config.head_size),
        dtype: args.dtype.or(config.dtype),
    };
    if args.context == 0 || args.max_num_seqs == 0 {
        bail!("--context and --max-num-seqs must be above 0");
    }
    let bytes_per_token = shape.bytes_per_token()?;
    let memory = args.memory.map(|memory| memory.to_milli().get() / 1000).filter(|bytes| *bytes > 0);
    let fit = memory.map(|memory| fit(bytes_per_token, memory as u64, args.context, args.max_num_seqs));
    match args.output {
        Output::Json => say_json(&as_json(bytes_per_token, args, fit))?,
        Output::Text => say(&as_text(bytes_per_token, args, fit))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(bytes_per_token: u64, args: &KvArgs, fit: Option<Fit>) -> Value {
    let mut json = json!({ "bytesPerToken": bytes_per_token, "contextTokens": args.context });
    if let Some(fit) = fit {
        json["tokens"] = json!(fit.tokens);
        json["conversations"] = json!(fit.conversations);
        json["targets"] = json!({
            "WaitingRequests": 5,
            "RunningRequests": fit.running_target,
            "KVCacheUtilization": "75%",
        });
    }
    json
}

fn as_text(bytes_per_token: u64, args: &KvArgs, fit: Option<Fit>) -> String {
    let context = args.context;
    let head = format!("{bytes_per_token} bytes a token ({:.1} KiB)\n", bytes_per_token as f64 / 1024.0);
    let Some(fit) = fit else {
        return format!("{head}Give --memory to see how many conversations of {context} tokens fit.\n");
    };
    let (tokens, conversations) = (fit.tokens, fit.conversations);
    let head = format!("{head}{tokens} tokens fit, which is {conversations} conversations of {context} tokens\n");
    if conversations == 0 && args.memory.is_some_and(|memory| memory.to_milli().get() / 1000 < LEAST_MEMORY) {
        return format!("{head}--memory is in bytes; write 34Gi for 34 GiB.\n");
    }
    if conversations == 0 {
        return format!("{head}Not one conversation fits: use a smaller model, more memory, or --dtype fp8.\n");
    }
    let bound = if conversations < args.max_num_seqs { "the cache" } else { "--max-num-seqs" };
    format!(
        "{head}{bound} is what limits a replica. Targets to start with:\n\n  metrics:\n  \
         - {{signal: WaitingRequests, target: 5}}\n  \
         - {{signal: RunningRequests, target: {}}}   # three quarters of what fits\n  \
         - {{signal: KVCacheUtilization, target: 75%}}\n",
        fit.running_target
    )
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn shape(layers: u64, kv_heads: u64) -> Shape {
        Shape { layers: Some(layers), kv_heads: Some(kv_heads), head_size: Some(128), dtype: Some(DataType::Bf16) }
    }

    /// Llama-3-8B keeps 128 KiB a token, Llama-3-70B 320 KiB, Llama-2-13B 800 KiB.
    #[test]
    fn bytes_of_known_models() {
        for (layers, kv_heads, kib) in [(32, 8, 128), (80, 8, 320), (40, 40, 800)] {
            assert_eq!(shape(layers, kv_heads).bytes_per_token().unwrap(), kib * 1024);
        }
        let fp8 = Shape { dtype: Some(DataType::Fp8), ..shape(32, 8) };
        assert_eq!(fp8.bytes_per_token().unwrap(), 64 * 1024);
        let error = Shape::default().bytes_per_token().unwrap_err().to_string();
        assert!(error.contains("--layers"), "{error}");
    }

    #[test]
    fn what_fits() {
        let gib = 1 << 30;
        assert_eq!(fit(128 * 1024, gib, 2048, 256), Fit { tokens: 8192, conversations: 4, running_target: 3 });
        // A conversation takes whole blocks.
        assert_eq!(fit(128 * 1024, gib, 2049, 256).conversations, 3);
        assert_eq!(
            fit(128 * 1024, 64 * gib, 1024, 256),
            Fit { tokens: 524_288, conversations: 512, running_target: 192 }
        );
        assert_eq!(fit(128 * 1024, 1024, 1024, 256).conversations, 0);
    }

    #[test]
    fn a_config_is_read() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write!(
            file,
            "{{\"num_hidden_layers\": 32, \"num_attention_heads\": 32, \"num_key_value_heads\": 8, \
             \"hidden_size\": 4096, \"torch_dtype\": \"bfloat16\"}}"
        )
        .unwrap();
        assert_eq!(Shape::of_config(file.path()).unwrap().bytes_per_token().unwrap(), 128 * 1024);
        let error = Shape::of_config(Path::new("/nowhere/config.json")).unwrap_err().to_string();
        assert!(error.contains("/nowhere/config.json"), "{error}");
    }
}
