# Needs the Rust toolchain that rust-toolchain.toml names, with its C compiler; what has to do with a cluster needs Go
# too, and `image` Docker.

CARGO ?= cargo
# Options of `headroom demo`, such as ARGS="--duration 20s --profile P1".
ARGS ?=

.PHONY: demo test e2e cluster cluster-up cluster-down lint bench image

# A simulated fleet under a real trace, autoscaled for about a minute.
demo:
	$(CARGO) run --locked --release --bin headroom -- demo $(ARGS)

# The fast suite.
test:
	$(CARGO) test --locked --workspace --exclude headroom-cluster

# Against a real etcd, API server, HPA and scheduler on loopback.
e2e: cluster
	$(CARGO) build --locked --bin headroom
	$(CARGO) test --locked --package headroom-cluster -- --nocapture

# Builds the programs of the control plane from their Go modules: 15 minutes on two cores the first time.
cluster:
	tests/cluster/build

# A control plane to look around in; prints the KUBECONFIG to use.
cluster-up: cluster
	$(CARGO) run --locked --quiet --package headroom-cluster -- up

cluster-down:
	$(CARGO) run --locked --quiet --package headroom-cluster -- down

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
