# All commands of the project. `make` without a target lists them.
PYTHON ?= python3
BIN := .venv/bin
SETUP := $(PYTHON) -m scripts.setup

# Processes that run tests: `make test WORKERS=4`. With more of them than cores, tests that measure time fail.
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

# The clients that `make judges` runs: `make judges CLIENTS='DuckDB daft'`. The default is all.
CLIENTS ?=

# The tests of one table format: its documents, its API, and its real clients.
CONFORMANCE := tests/conformance
ALL_FORMATS := $(CONFORMANCE)/test_three_formats.py $(CONFORMANCE)/test_every_client.py $(CONFORMANCE)/test_access.py \
	$(CONFORMANCE)/test_access_spark.py $(CONFORMANCE)/test_tls.py $(CONFORMANCE)/test_vended_keys.py \
	$(CONFORMANCE)/test_vended_keys_spark.py
DELTA_TESTS := tests/unit/formats/delta tests/unit/formats/sharing tests/unit/uniform \
	tests/snapshots tests/api/delta tests/api/unity \
	tests/api/sharing $(wildcard $(CONFORMANCE)/test_delta_*.py $(CONFORMANCE)/test_uniform*.py $(CONFORMANCE)/test_sharing*.py) \
	$(CONFORMANCE)/test_unity_client.py $(CONFORMANCE)/test_sample.py $(CONFORMANCE)/test_polars_catalog.py
ICEBERG_TESTS := tests/unit/formats/iceberg tests/api/iceberg \
	$(wildcard $(CONFORMANCE)/test_iceberg_*.py $(CONFORMANCE)/test_pyiceberg*.py)
LANCE_TESTS := tests/unit/formats/lance tests/unit/datasets tests/datasets tests/api/lance $(CONFORMANCE)/lance \
	$(wildcard $(CONFORMANCE)/test_lance*.py) $(CONFORMANCE)/test_pylance.py

.DEFAULT_GOAL := help
.PHONY: help setup up check test test-delta test-iceberg test-lance soak judges bench peers fix openapi lock clean
.PHONY: venv format lint types walls unit

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install the package, its tools, and what is missing on the machine for the tests
	@$(SETUP)

up: venv ## run a catalog with a sample lake and print the addresses for clients
	@$(SETUP) spark & $(BIN)/moorage up

check: venv ## check format, lint, types and import rules, run the unit tests (under a minute)
	@$(MAKE) --no-print-directory --jobs 2 --keep-going --output-sync=target types unit format lint walls

test: ## run all checks and tests that a change must pass; WORKERS=4 uses four processes
	@$(SETUP) tests
	@$(MAKE) --no-print-directory check
	@$(PYTEST) tests --ignore tests/unit --ignore tests/house

test-delta: ## run the Delta tests: formats, snapshots, the Delta, Unity and Sharing APIs, real clients
	@$(SETUP) tests
	@$(PYTEST) $(DELTA_TESTS) $(ALL_FORMATS)

test-iceberg: ## run the Iceberg tests: formats, its API, real clients
	@$(SETUP) tests
	@$(PYTEST) $(ICEBERG_TESTS) $(ALL_FORMATS)

test-lance: ## run the Lance tests: formats, rows, its API, real clients
	@$(SETUP) tests
	@$(PYTEST) $(LANCE_TESTS) $(ALL_FORMATS)

soak: ## run the long versions of the crash and property tests (several hours)
	@$(SETUP) tests
	@MOORAGE_SOAK=1 $(PYTEST) tests

judges: ## run every client on local disk and on S3, print what each can do (about 20 minutes)
	@$(SETUP) judges
	@$(BIN)/python -m tests.judges $(CLIENTS)

bench: ## measure the speed, as ratios within one run
	@$(SETUP) bench
	@$(BIN)/python -m bench

peers: ## compare the speed with other catalog servers, in turns (about six minutes)
	@$(SETUP) peers
	@$(BIN)/python -m bench.peers

fix: venv ## format the code and apply the linter's automatic fixes
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

openapi: venv ## regenerate the files under openapi/ after a change to a route or a wire struct
	@$(BIN)/python -m scripts.openapi write

lock: ## regenerate the lock files after a change to the dependencies
	@$(PYTHON) -m scripts.lock

clean: ## remove generated files (not the data of `make up`)
	@rm -rf .venv .tools .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	@rm -rf openapi/tools/node_modules tests/contract/azurite/node_modules
	@find src tests scripts bench -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

venv:
	@$(SETUP) venv

format:
	@$(BIN)/ruff format --check --quiet . || { echo 'the code is not formatted: run make fix'; exit 1; }

lint:
	@$(BIN)/ruff check --quiet .

types:
	@$(BIN)/mypy

walls:
	@$(BIN)/lint-imports --no-logo

unit:
	@$(PYTEST) -q tests/unit tests/house
