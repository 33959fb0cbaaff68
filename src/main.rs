//! Headroom, an autoscaler for LLM inference servers.

use std::process::ExitCode;

fn main() -> ExitCode {
    headroom::cli::main()
}
