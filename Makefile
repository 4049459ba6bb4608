# The commands of this repository. `make` alone lists them. Rust, make and a C compiler are enough for
# `make run`; `make install-tools` gets what the whole test suite needs beyond them.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test guest guest-check bench install-tools fmt clippy doc unit control-plane e2e parity

# Flags of `foo-host dev`, for instance: make run ARGS="--workers 4"
ARGS ?=

help: ## List what there is
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | \
	  while IFS='|' read -r target text; do printf '  make %-14s %s\n' "$$target" "$$text"; done

run: ## A working controller before an in-memory Kubernetes API, until Ctrl-C
	cargo run --locked -p host -- dev $(ARGS)

# In order, also under -j: cargo would only wait for its own lock. The summary comes last. Outside CI what could
# not be installed is skipped, and said to be.
test: ## Format, lints, documentation and all tests; installs what is missing; with CI=true nothing is skipped
	@$(MAKE) --no-print-directory install-tools || [ "$(CI)" != true ]
	@$(MAKE) --no-print-directory fmt
	@$(MAKE) --no-print-directory clippy
	@$(MAKE) --no-print-directory doc
	@$(MAKE) --no-print-directory unit

fmt: ## Only the format check
	cargo fmt --all --check

clippy: ## Only the lints
	cargo clippy --locked --workspace --all-targets -- -D warnings
	@if [ -d "$$(rustc --print target-libdir --target wasm32-unknown-unknown)" ]; then \
	  set -x; cargo clippy --locked -p foo-reconciler --target wasm32-unknown-unknown -- -D warnings; \
	fi

doc: ## Only the documentation, which may not have a broken link
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps

unit: ## Only the tests, with their sum at the end
	@scripts/test-summary --locked --workspace --no-fail-fast

control-plane: ## A real control plane from Go modules, with pods, until Ctrl-C; prints its kubeconfig
	cargo run --locked -p controlplane -- up

e2e: ## Only the end-to-end tests on a real control plane
	@scripts/test-summary --locked -p tests --test e2e -- plane rbac

parity: ## Side by side with the Go sample-controller; writes tests/parity/README.md
	BLESS=1 cargo test --locked -p tests --test parity -- --nocapture

guest: ## Rebuild artifacts/foo_reconciler.wasm after a change in guest/ or wit/
	@scripts/guest

guest-check: ## Fail unless a rebuild gives the committed artifact byte for byte (same rustc)
	@scripts/guest --check

bench: ## Benchmarks: guest calls, and 1,000 Foos from nothing
	cargo bench --locked -p guest-engine -p tests --benches

install-tools: ## Wasm targets, cargo-component, kubectl and the control plane, into a cache outside the checkout
	@scripts/install-tools
