# Everything but `image` needs the Rust toolchain alone, with its C compiler; rust-toolchain.toml names it.

CARGO ?= cargo
# Options of `headroom demo`, such as ARGS="--duration 20s --profile P1".
ARGS ?=

.PHONY: demo test lint bench image

# A simulated fleet under a real trace, autoscaled for about a minute.
demo:
	$(CARGO) run --locked --release --bin headroom -- demo $(ARGS)

# The fast suite.
test:
	$(CARGO) test --locked --workspace

# Format, lints, licences and sources of dependencies.
lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	.ci/deny

# Every benchmark; benches/README.md says how to run one quietly, and what was measured.
bench:
	$(CARGO) bench --locked

# A minimal image that runs as no one.
image:
	docker build --tag headroom:dev .
