# Every target is a few lines; longer tasks are programs of the workspace.
# `make run` and `make test` set up everything that a fresh machine with Rust needs.

CARGO ?= cargo
TOOLS := $(CURDIR)/target/tools
DENY := $(TOOLS)/bin/cargo-deny
FUZZ := $(TOOLS)/bin/cargo-fuzz
SBOM := $(TOOLS)/bin/cargo-cyclonedx

# The browser for tests of the page. An empty variable counts as unset.
ifeq ($(BUCKSAW_CHROMIUM),)
BUCKSAW_CHROMIUM := $(or $(shell command -v chromium),/usr/bin/chromium)
endif
export BUCKSAW_CHROMIUM
# Use the system's browser; npm downloads none.
export PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD := 1
# Checks and tests use the OpenSSL of the system, if its headers are there: building ours, which the program has, takes minutes.
ifneq ($(shell pkg-config --exists 'openssl >= 3' 2>/dev/null && echo yes),)
check test-rust test-ui test-sdk test-corpus senders: export OPENSSL_NO_VENDOR := 1
endif
# Clients of other log systems: in Python, for Node.js, and packages of Debian; Kafka and ClickHouse as servers.
CLIENTS := target/clients/requirements.txt target/clients/node/package-lock.json target/clients/debian/debian.txt \
	target/clients/kafka/pom.xml target/clients/clickhouse/launcher
# Senders in Go, which take minutes to build.
GO_SENDERS := $(addprefix target/clients/go/,collector docker-logs filebeat promtail)
NPM_DONE := ui/node_modules/.package-lock.json
SDKS ?= go python node java

# Number of seeds of `make sim`, and the first one.
SEEDS ?= 1000
FROM ?= 0

.PHONY: help run cluster build test clients clickhouse senders sdk-tools test-rust test-ui test-sdk test-corpus check soak kills damage power faults upgrade sim queueing fuzz bench calibrate fmt clean sbom setup chromium

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

setup: ## check for the tools that building needs
	@command -v $(CARGO) >/dev/null || { echo "Rust is missing: get it from https://rustup.rs, then run this again"; exit 1; }
	@command -v cc >/dev/null || { echo "a C compiler is missing (for zstd and librdkafka): try 'apt-get install gcc'"; exit 1; }
	@perl -MIPC::Cmd -e 1 2>/dev/null || { echo "Perl is missing (for OpenSSL): try 'apt-get install perl'"; exit 1; }

run: setup ## build, start a node on the default ports, and send it sample logs
	$(CARGO) build --release -p bucksaw
	./demo.sh

cluster: setup ## build, start three nodes on loopback, and send them sample logs
	$(CARGO) build --release -p bucksaw
	./cluster.sh

build: setup ## build the release binary: target/release/bucksaw
	$(CARGO) build --release -p bucksaw

# All parts run even if one fails; then the target fails.
test: setup ## formatting, lints, docs, licences, all tests
	@$(MAKE) --no-print-directory --keep-going check test-rust test-ui test-sdk

# Three times the two cores that the tests are made for: most of them wait for a node.
test-rust: setup $(CLIENTS)
	RUST_TEST_THREADS=$${RUST_TEST_THREADS:-6} $(CARGO) test --workspace --no-fail-fast

# Builds target/debug/bucksaw with the features of dependencies that `test-rust` selects: `build -p bucksaw` selects fewer, and
# would build tokio and all that needs it again.
define build_tested
$(CARGO) test --workspace --test e2e --no-run
endef

test-ui: setup $(NPM_DONE) chromium # the page: lints, types, unit tests, and browser tests against the program
	cd ui && npm run --silent check
	cd ui && npm run --silent test
	$(build_tested)
	cd ui && npm run --silent e2e

test-sdk: setup sdk-tools ## the SDKs against the program: lints, tests; SDKS=go for one
	$(build_tested)
	@status=0; for sdk in $(SDKS); do BUCKSAW_BIN=$(CURDIR)/target/debug/bucksaw sdk/$$sdk/test.sh || status=1; done; exit $$status

sdk-tools:
	@command -v go >/dev/null || { echo "Go is missing: get version 1.25 or newer, then run this again"; exit 1; }
	@command -v npm >/dev/null || { echo "npm is missing: get Node.js 20 or newer, then run this again"; exit 1; }
	@{ command -v mvn && command -v javac && python3 -c 'import ensurepip'; } >/dev/null 2>&1 \
	|| { test "$$(id -u)" = 0 && apt-get update && apt-get install -y --no-install-recommends openjdk-17-jdk-headless maven python3-venv; } \
	|| { echo "Java 17, Maven or Python 3 with venv is missing: try 'apt-get install openjdk-17-jdk-headless maven python3-venv'"; exit 1; }

test-corpus: setup $(NPM_DONE) chromium ## tests on real logs: BUCKSAW_CORPUS=<directory>
	@test -d "$(BUCKSAW_CORPUS)" || { echo "missing a directory of logs: make test-corpus BUCKSAW_CORPUS=<directory>"; exit 1; }
	$(CARGO) test --workspace --test e2e same_as_grep
	$(CARGO) test --workspace --lib tests::corpus
	$(build_tested)
	cd ui && npm run --silent e2e -- --grep "real logs"

clients: $(CLIENTS) ## clients of other log systems, for the tests with them

# Debian's Python makes environments only with its package python3-venv.
target/clients/requirements.txt: senders/requirements.txt
	@command -v python3 >/dev/null && python3 -c 'import ensurepip' 2>/dev/null \
	|| { test "$$(id -u)" = 0 && apt-get update && apt-get install -y --no-install-recommends python3 python3-venv; } \
	|| { echo "Python 3 with venv is missing: try 'apt-get install python3-venv'"; exit 1; }
	python3 -m venv target/clients
	target/clients/bin/pip install --quiet --disable-pip-version-check --requirement $<
	@cp $< $@

target/clients/node/package-lock.json: senders/package-lock.json senders/package.json
	@command -v npm >/dev/null || { echo "npm is missing: get Node.js 20 or newer, then run this again"; exit 1; }
	@mkdir -p $(dir $@) && cp senders/package.json $(dir $@)
	@cp $< $@ && (cd $(dir $@) && npm ci --no-audit --no-fund) || { rm $@; exit 1; }

target/clients/debian/debian.txt: senders/debian.txt senders/debian.sh
	@command -v apt-get >/dev/null || { echo "apt-get is missing: tests with senders need Debian or Ubuntu"; exit 1; }
	@senders/debian.sh $(dir $@) $< || { test "$$(id -u)" = 0 && apt-get update && senders/debian.sh $(dir $@) $<; }
	@cp $< $@

target/clients/kafka/pom.xml: senders/kafka/pom.xml
	@{ command -v mvn && command -v keytool; } >/dev/null 2>&1 \
	|| { test "$$(id -u)" = 0 && apt-get update && apt-get install -y --no-install-recommends openjdk-17-jdk-headless maven; } \
	|| { echo "Java 17 or Maven is missing: try 'apt-get install openjdk-17-jdk-headless maven'"; exit 1; }
	rm -rf $(dir $@)lib && mkdir -p $(dir $@)
	mvn -B -ntp -q -f $< dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/$(dir $@)lib
	@cp $< $@

clickhouse: target/clients/clickhouse/launcher ## the ClickHouse server of the tests: 566 MB, kept in target/

target/clients/clickhouse/launcher: $(addprefix senders/clickhouse/,install.sh launcher.c package-lock.json)
	@senders/clickhouse/install.sh $(dir $@)
	@touch $@

$(NPM_DONE): ui/package-lock.json
	@command -v npm >/dev/null || { echo "npm is missing: get Node.js 20 or newer, then run this again"; exit 1; }
	cd ui && npm ci --no-audit --no-fund
	@touch $@

senders: setup $(GO_SENDERS) ## the Collector, promtail, Filebeat and Docker's log drivers, built and tested; MAKE_FIXTURES=1 records them
	$(CARGO) test -p bucksaw --test e2e senders:: -- --ignored --nocapture

# The exact versions are in go.mod, their checksums in go.sum. Programs of other modules are named by `tool` there.
target/clients/go/collector: $(wildcard senders/go/collector/*)
	$(call go_build,senders/go/collector,.)
target/clients/go/docker-logs: $(wildcard senders/go/docker/*)
	$(call go_build,senders/go/docker,.)
target/clients/go/filebeat: $(wildcard senders/go/filebeat/*)
	$(call go_build,senders/go/filebeat,github.com/elastic/beats/v7/filebeat)
target/clients/go/promtail: $(wildcard senders/go/promtail/*)
	$(call go_build,senders/go/promtail,github.com/grafana/loki/v3/clients/cmd/promtail)

define go_build
@command -v go >/dev/null || { echo "Go is missing: get version 1.25 or newer, then run this again"; exit 1; }
@mkdir -p target/clients/go
cd $(1) && go build -buildvcs=false -o $(CURDIR)/$@ $(2)
endef

chromium:
	@test -x "$(BUCKSAW_CHROMIUM)" || { test "$$(id -u)" = 0 && apt-get update && apt-get install -y --no-install-recommends chromium fonts-dejavu-core; } \
	|| { echo "Chromium is missing: install it, or name it in BUCKSAW_CHROMIUM"; exit 1; }

check: setup $(DENY) ## formatting, lints, documentation, licences of dependencies
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps
	$(DENY) --all-features check licenses bans sources
	@if $(DENY) fetch db >/dev/null 2>&1; then $(DENY) check advisories; \
	else echo "note: the advisory database is unreachable: not checked"; fi

soak: setup ## a hundred kills under load, 200 histories of followed files, 5,000 of a simulated agent, 1,000 damaged files, 1,000 power cuts
	BUCKSAW_KILL_ROUNDS=100 $(CARGO) test -p bucksaw --test e2e kill -- --nocapture
	BUCKSAW_TAILING_ROUNDS=200 $(CARGO) test -p bucksaw --test e2e tailing::random -- --nocapture
	BUCKSAW_TAILER_SEEDS=5000 $(CARGO) test -p bucksaw-tailer --lib random -- --nocapture
	BUCKSAW_AGENT_SEEDS=5000 $(CARGO) test -p bucksaw-forward --lib tests::random -- --nocapture
	$(MAKE) --no-print-directory kills damage ROUNDS=$(or $(ROUNDS),1000)
	$(MAKE) --no-print-directory power SEEDS=60

kills: setup ## kill -9 of real processes, with one node and with three: ROUNDS=… each; see docs/faults.md
	$(CARGO) build --release -p bucksaw -p bucksaw-faults
	./target/release/bucksaw-faults kill --rounds $(or $(ROUNDS),1000) --seed $(or $(SEED),1)
	./target/release/bucksaw-faults kill --rounds $(or $(ROUNDS),1000) --nodes 3 --seed $(or $(SEED),1)

damage: setup ## data directories with one damaged file each: ROUNDS=…; see docs/faults.md
	$(CARGO) build --release -p bucksaw -p bucksaw-faults
	./target/release/bucksaw-faults damage --rounds $(or $(ROUNDS),10000) --seed $(or $(SEED),1)

power: setup ## power cuts in simulated clusters, about 19 per seed: SEEDS=… FROM=…
	$(CARGO) run --release -p bucksaw-sim -- --only power --from $(FROM) --seeds $(SEEDS)

sim: setup ## simulated clusters with faults: SEEDS=… FROM=…; see docs/simulation.md
	$(CARGO) run --release -p bucksaw-sim -- --from $(FROM) --seeds $(SEEDS)

queueing: setup ## queues of simulated clusters against the formulas of docs/model.md, about ten minutes: NODES=… for one size
	$(CARGO) run --release -p bucksaw-sim -- --queueing $(if $(NODES),--nodes $(NODES))

faults: setup ## faults in a cluster of real processes, all of them as root; see docs/faults.md
	$(CARGO) build --release -p bucksaw -p bucksaw-faults
	./target/release/bucksaw-faults run --seed $(or $(SEED),1)

upgrade: setup ## a rolling upgrade of real processes under load, and back: FROM=<git revision>; see docs/faults.md
	@test "$(FROM)" != 0 || { echo "missing a revision: make upgrade FROM=…"; exit 1; }
	test -d target/upgrade/$(FROM) || git worktree add --detach target/upgrade/$(FROM) $(FROM)
	# A separate target directory: cargo treats the same crate in two checkouts as one, and older files as built.
	cd target/upgrade/$(FROM) && BUCKSAW_UI=off $(CARGO) build --release -p bucksaw --target-dir $(CURDIR)/target/upgrade/target
	cp target/upgrade/target/release/bucksaw target/upgrade/bucksaw-$(FROM)
	$(CARGO) build --release -p bucksaw -p bucksaw-faults
	./target/release/bucksaw-faults upgrade --from target/upgrade/bucksaw-$(FROM)

fuzz: setup $(FUZZ) ## every parser of outside bytes, one minute each
	./fuzz/run.sh $(FUZZ) 60

sbom: setup $(SBOM) $(NPM_DONE) ## what the program and the page are made of, as CycloneDX: target/sbom/
	@mkdir -p target/sbom
	CARGO_TERM_QUIET=true $(SBOM) cyclonedx --manifest-path bucksaw/Cargo.toml --format json --override-filename bucksaw-sbom
	@# Without the path of this checkout.
	@sed 's|file://$(CURDIR)/||g' bucksaw/bucksaw-sbom.json > target/sbom/bucksaw.cdx.json
	@find . -name bucksaw-sbom.json -not -path './target/*' -delete
	cd ui && npm sbom --sbom-format cyclonedx --omit dev > ../target/sbom/page.cdx.json
	@ls -l target/sbom

bench: setup ## side-by-side measurements; see bench/README.md
	$(CARGO) build --release -p bucksaw -p bucksaw-bench
	./target/release/bucksaw-bench ingest

calibrate: setup ## measure the costs of this machine for `bucksaw plan --calibration target/calibration.toml`: SAMPLE=<your logs>
	$(CARGO) build --release -p bucksaw
	@test -n "$(SAMPLE)" || ./target/release/bucksaw generate --rate 0 --count 500000 >target/sample.log
	./target/release/bucksaw plan --rate 10MB --sample $(or $(SAMPLE),target/sample.log) --save-calibration target/calibration.toml
	@echo written to target/calibration.toml

fmt: ## format all code
	$(CARGO) fmt --all
	@test ! -d ui/node_modules || (cd ui && npm run --silent format)

clean: ## remove build results
	$(CARGO) clean
	rm -rf ui/node_modules ui/dist ui/test-results

# Without optimisation, as it is built for longer than it runs.
$(DENY):
	CARGO_PROFILE_DEV_DEBUG=0 $(CARGO) install --locked --debug --root $(TOOLS) cargo-deny@0.20.2

$(SBOM):
	CARGO_PROFILE_DEV_DEBUG=0 $(CARGO) install --locked --debug --root $(TOOLS) cargo-cyclonedx@0.5.9

$(FUZZ):
	$(CARGO) install --locked --root $(TOOLS) cargo-fuzz@0.13.2
