# Thin targets: people and CI call the same ones. A fresh machine needs Python 3.11+ and make, nothing more.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= $(firstword $(shell for name in python3.13 python3.12 python3.11 python3; do \
	command -v $$name >/dev/null && $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' && echo $$name; \
	done 2>/dev/null) python3)
BIN := .venv/bin
PYTEST := $(BIN)/pytest
# Two processes: one has the tests that share a broker, the other takes the pure ones meanwhile.
TWO := -n 2 --dist loadscope
TESTS ?= tests
BENCH ?=
SETUP_DONE := .venv/.setup-done
DEV_DONE := .venv/.dev-done
FUZZ_DONE := .venv/.fuzz-done
FUZZ_SECONDS ?= 60
FUZZ_SEED ?= 0
CHAOS_SECONDS ?= 60
CHAOS_SEED ?=
DEPLOY_DONE := .venv/.deploy-done

.PHONY: help setup demo dev test test-real chaos check lint types contracts tidy fix bench lab fuzz deploy-check lock upgrade clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(SETUP_DONE) ## .venv with everything the fleet, `dev` and `demo` need

$(SETUP_DONE): requirements.lock requirements-bootstrap.lock pyproject.toml scripts/bootstrap.py
	$(PYTHON) scripts/bootstrap.py setup
	@touch $@

$(DEV_DONE): requirements-dev.lock $(SETUP_DONE)
	$(PYTHON) scripts/bootstrap.py dev
	@touch $@

$(FUZZ_DONE): requirements-fuzz.lock $(DEV_DONE)
	$(PYTHON) scripts/bootstrap.py fuzz
	@touch $@

$(DEPLOY_DONE): requirements-deploy.lock $(DEV_DONE)
	$(PYTHON) scripts/bootstrap.py deploy
	@touch $@

demo: $(SETUP_DONE) ## a scripted run of the whole fleet, with a picture of what happened
	$(BIN)/turngate demo

dev: $(SETUP_DONE) ## the whole fleet with embedded Kafka and Redis, until Ctrl-C
	$(BIN)/turngate dev

test: $(DEV_DONE) ## all tests on embedded Kafka and Redis; TESTS=tests/unit for a part
	$(PYTEST) -q $(TWO) $(TESTS) --ignore=tests/deploy

test-real: $(DEV_DONE) ## the same tests on real Apache Kafka and redis-server, which it fetches and starts
	$(BIN)/python scripts/real_kafka.py run -- $(PYTEST) -q $(TWO) $(TESTS) --ignore=tests/deploy --ignore=tests/tidy

chaos: $(DEV_DONE) ## 2,000 streams through reassemblers that are killed all the time, on real Apache Kafka; CHAOS_SEED=7
	TURNGATE_TEST_CHAOS_SECONDS=$(CHAOS_SECONDS) $(if $(CHAOS_SEED),TURNGATE_TEST_CHAOS_SEED=$(CHAOS_SEED)) \
	$(BIN)/python scripts/real_kafka.py run -- $(PYTEST) -q -s tests/e2e/test_reassembler_chaos.py

check: lint types contracts tidy ## everything CI checks besides running the tests

lint: $(DEV_DONE)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV_DONE)
	$(BIN)/mypy
	$(BIN)/pyright

contracts: $(DEV_DONE)
	$(BIN)/lint-imports

tidy: $(DEV_DONE)
	$(PYTEST) -q tests/tidy

fix: $(DEV_DONE) ## format, and mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV_DONE) ## the benchmarks against their baselines; BENCH=accumulators for one
	$(BIN)/python -m benchmarks $(BENCH)

fuzz: $(FUZZ_DONE) ## look for inputs that break the stream core; FUZZ_SECONDS=600 for longer
	$(BIN)/python tests/fuzz/fuzz.py --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED)

lab: $(DEV_DONE) ## docs/lab.md anew: who executes what it must not; installs other libraries below .turngate/lab
	$(BIN)/python -m benchmarks lab

deploy-check: $(DEPLOY_DONE) ## chart, compose file and Dockerfile, by their own tools
	$(PYTEST) -q tests/deploy

lock: $(SETUP_DONE) ## write the locks anew from pyproject.toml
	$(PYTHON) scripts/bootstrap.py lock

upgrade: $(SETUP_DONE) ## write the locks anew with the newest versions allowed
	$(PYTHON) scripts/bootstrap.py lock --upgrade

clean: ## everything that was made here
	rm -rf .venv .turngate .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist build
	find services schemas topology tests scripts benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
