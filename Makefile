# Needs Rust, a C and a C++ compiler, make and Python 3.11 or later. Everything else comes from crates.io and, for the
# Python package, the benchmark and the compiler of CUDA kernels, from PyPI; nothing is installed outside this folder and
# the caches of cargo and pip.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
PYTHON ?= python3
BUILD := build

# The C libraries inside crates are compiled from the sources they carry (`make rules` looks at their features). This
# variable would make zstd's build script take the library of the system instead, of whatever version it has.
unexport ZSTD_SYS_USE_PKG_CONFIG

.PHONY: help demo test test-python test-gpu servers wheel crate site figures judge round-trip check fmt clippy rules deny doc fuzz \
        asan valgrind soak coverage kernels kernels-check clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16

demo: ## build, make a sample raster, turn it into a COG, read a window, save a picture: build/demo/
	@mkdir -p $(BUILD)/demo
	$(CARGO) build --release --locked --package tiffjet-cli --example demo
	@$(CARGO) run --release --locked --quiet --package tiffjet-cli --example demo -- $(BUILD)/demo

test: ## every test that can run on this machine
	@mkdir -p $(BUILD)
	@{ failed=0; \
	   $(CARGO) test --workspace --all-features --locked --no-fail-fast || failed=1; \
	   $(PYTHON) -B -m unittest discover --start-directory scripts || failed=1; \
	   $(PYTHON) -B scripts/test_python.py || failed=1; \
	   exit $$failed; } 2>&1 | tee $(BUILD)/test.log || failed=1; \
	$(PYTHON) -B scripts/summarize_tests.py $(BUILD)/test.log || failed=1; \
	exit $${failed:-0}

test-python: ## the Python suite alone, from the wheel in fresh environments, on every Python from 3.11 on
	$(PYTHON) -B scripts/test_python.py

test-gpu: ## what needs a GPU: the suite of backends, damaged tiles, and the installed Python package on it
	$(CARGO) run --release --locked --quiet --package tiffjet-cuda --example conformance
	$(CARGO) run --release --locked --quiet --package tiffjet-cuda --example hostile
	$(CARGO) run --release --locked --quiet --package tiffjet-cuda --example hostile set
	TIFFJET_TEST_CUDA=1 $(PYTHON) -m pytest -q python/tests/test_cuda.py python/tests/test_snippets.py

servers: ## azurite and nginx for the tests of remote files, from npm and Debian, into build/servers
	$(PYTHON) -B scripts/install_servers.py

wheel: ## build/wheels/tiffjet-*.whl, for every Python from 3.11 on
	$(PYTHON) -m venv $(BUILD)/wheel-venv
	$(BUILD)/wheel-venv/bin/pip install --quiet "maturin>=1.9,<2"
	rm -f $(BUILD)/wheels/tiffjet-*.whl
	$(BUILD)/wheel-venv/bin/maturin build --release --locked --compatibility pypi --out $(BUILD)/wheels
	$(PYTHON) -B scripts/check_wheel.py $(BUILD)/wheels/tiffjet-*.whl

# Crates that are not published yet can't be looked up by those that need them: their files are listed, and the first is packed.
crate: ## can the crates be packed, with all they need
	@mkdir -p $(BUILD)
	for crate in tiffjet tiffjet-cuda tiffjet-cli; do $(CARGO) package --package $$crate --locked --allow-dirty --list > $(BUILD)/$$crate.files; done
	$(PYTHON) -B scripts/check_crates.py $(BUILD)
	$(CARGO) package --package tiffjet --locked --allow-dirty --no-verify --quiet

SITE_RUST ?= 1

site: ## build/site/index.html, the documentation, offline; SITE_RUST=0 leaves out the pages of rustdoc
	@mkdir -p $(BUILD)
	$(if $(filter 1,$(SITE_RUST)),$(CARGO) doc --workspace --exclude tiffjet-cli --exclude tiffjet-testkit --exclude tiffjet-bench --no-deps --locked --quiet)
	$(PYTHON) -m venv $(BUILD)/site-venv
	$(BUILD)/site-venv/bin/pip install --quiet -r docs/requirements.txt
	$(BUILD)/site-venv/bin/python -B scripts/make_site.py $(BUILD)/site $(if $(filter 1,$(SITE_RUST)),--rust target/doc)

figures: ## figures and tables of the README, from the newest records in bench/records
	$(PYTHON) -B bench/figures.py

# Another judge, told the file and what it was made of (--expect), and how many of the files it sees: one of so many.
JUDGE_PYTHON ?= $(BUILD)/judges/bin/python
JUDGE_WITH ?=
JUDGE_EVERY ?= 1

judge: ## write in every way there is and let GDAL, tifffile and rio-cogeo judge; JUDGE_WITH= names one more judge
	$(PYTHON) -B -c 'import sys; sys.path.insert(0, "scripts"); import test_judge_written; test_judge_written.judges()'
	rm -rf $(BUILD)/matrix
	$(CARGO) run --release --locked --quiet --package tiffjet-cli --example matrix -- $(BUILD)/matrix
	$(JUDGE_PYTHON) -B scripts/judge_written.py $(BUILD)/matrix $(if $(JUDGE_WITH),--check $(JUDGE_WITH) --every $(JUDGE_EVERY))

round-trip: ## convert every file of the folder TIFFJET_CORPUS and let GDAL compare
	$(CARGO) build --release --locked --quiet --package tiffjet-cli
	$(JUDGE_PYTHON) -B scripts/round_trip.py

check: fmt clippy rules deny doc ## formatting, lints, rules of the architecture, dependencies, documentation

fmt: ## is the code formatted
	$(CARGO) fmt --all --check

clippy: ## lints, none allowed to warn
	$(CARGO) clippy --workspace --all-targets --all-features --locked -- -D warnings

rules: ## the rules of ARCHITECTURE.md that no compiler checks
	$(PYTHON) -B scripts/check_rules.py

# Not optimised: it is compiled in two minutes, and runs for a second.
DENY := $(or $(shell command -v cargo-deny),$(BUILD)/tools/bin/cargo-deny)

deny: $(DENY) ## licences, bans and sources of dependencies, by cargo-deny
	$(DENY) --log-level error --all-features check bans licenses sources

$(BUILD)/tools/bin/cargo-deny:
	CARGO_PROFILE_DEV_DEBUG=0 $(CARGO) install --quiet --locked --debug --root $(BUILD)/tools cargo-deny

# The command line has the name of the library; its pages would take the library's place.
doc: ## does the documentation build without a warning
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --exclude tiffjet-cli --no-deps --locked

FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?=

fuzz: ## fuzz every target under sanitizers for FUZZ_SECONDS each; FUZZ_TARGETS= names some
	$(PYTHON) -B scripts/fuzz.py --seconds $(FUZZ_SECONDS) $(FUZZ_TARGETS)

# Symbols of the standard library are not instrumented; GCC's objects and rustc's share one runtime.
asan: ## tests of the core under AddressSanitizer, C libraries among it
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address -Clink-arg=-fuse-ld=bfd" CFLAGS="-fsanitize=address -fno-omit-frame-pointer" \
	ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0 CARGO_PROFILE_DEV_DEBUG=line-tables-only \
	$(CARGO) test --locked --package tiffjet --lib --tests --target x86_64-unknown-linux-gnu --target-dir $(BUILD)/asan

VALGRIND := CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="valgrind --quiet --error-exitcode=9"

valgrind: ## tests of the host's modules with unsafe code under valgrind, where it is there
	$(VALGRIND) $(CARGO) test --locked --package tiffjet --all-features --lib -- --test-threads=1 \
	tensor:: dlpack:: cpu::stream cpu::team cpu::canvas predictor::

SOAK_SECONDS ?= 3600

soak: ## read and write for SOAK_SECONDS; memory must stay flat
	$(CARGO) run --release --locked --quiet --package tiffjet --example soak -- $(SOAK_SECONDS)

coverage: ## lines that tests run, by llvm-cov; 90 % of the parser, georeferencing and the codecs
	$(PYTHON) -B scripts/coverage.py

kernels: ## compile the CUDA kernels, with pinned compilers from PyPI, into the file that is committed
	$(PYTHON) -B scripts/make_kernels.py

kernels-check: ## is that file what the sources give
	$(PYTHON) -B scripts/make_kernels.py --check

clean: ## all that was built
	$(CARGO) clean
	rm -rf $(BUILD)

# bench, bench-full: ourselves against every rival
include bench/bench.mk
