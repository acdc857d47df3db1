# The one list of commands. `make` alone prints it.
PYTHON ?= python3
BIN := .venv/bin
SETUP := $(PYTHON) -m scripts.setup

# Processes that run tests: `make test WORKERS=4`. With more of them than cores, tests that measure time fail.
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

# The tests of one table format: its documents, its API, and its real clients.
CONFORMANCE := tests/conformance
ALL_FORMATS := $(CONFORMANCE)/test_three_formats.py
DELTA_TESTS := tests/unit/formats/delta tests/snapshots tests/api/delta tests/api/unity \
	$(wildcard $(CONFORMANCE)/test_delta_*.py) $(CONFORMANCE)/test_unity_client.py $(CONFORMANCE)/test_sample.py
ICEBERG_TESTS := tests/unit/formats/iceberg tests/api/iceberg \
	$(wildcard $(CONFORMANCE)/test_iceberg_*.py $(CONFORMANCE)/test_pyiceberg*.py)
LANCE_TESTS := tests/unit/formats/lance tests/unit/datasets tests/datasets tests/api/lance $(CONFORMANCE)/lance \
	$(wildcard $(CONFORMANCE)/test_lance*.py) $(CONFORMANCE)/test_pylance.py

.DEFAULT_GOAL := help
.PHONY: help setup up check test test-delta test-iceberg test-lance soak bench peers fix openapi lock clean
.PHONY: venv format lint types walls unit

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install everything: the package, its tools, and what the machine lacks for the tests
	@$(SETUP)

up: venv ## run the catalog with a small sample lake and print where to point each client
	@$(BIN)/moorage up

check: venv ## format, lint, types, import walls, unit tests: under a minute
	@$(MAKE) --no-print-directory --jobs 2 --keep-going --output-sync=target types unit format lint walls

test: ## everything that must hold before a change goes in; WORKERS=4 runs it in four processes
	@$(SETUP) tests
	@$(MAKE) --no-print-directory check
	@$(PYTEST) tests --ignore tests/unit --ignore tests/house

test-delta: ## the tests of Delta: formats, snapshots, the Delta and Unity APIs, real clients
	@$(SETUP) tests
	@$(PYTEST) $(DELTA_TESTS) $(ALL_FORMATS)

test-iceberg: ## the tests of Iceberg: formats, its API, real clients
	@$(SETUP) tests
	@$(PYTEST) $(ICEBERG_TESTS) $(ALL_FORMATS)

test-lance: ## the tests of Lance: formats, rows, its API, real clients
	@$(SETUP) tests
	@$(PYTEST) $(LANCE_TESTS) $(ALL_FORMATS)

soak: ## the long forms of the kill runs and random walks, for an evening
	@$(SETUP) tests
	@MOORAGE_SOAK=1 $(PYTEST) tests

bench: ## how fast it is, as ratios measured in one run
	@$(SETUP) bench
	@$(BIN)/python -m bench

peers: ## how fast it is beside the servers of others, in turns (about six minutes)
	@$(SETUP) peers
	@$(BIN)/python -m bench.peers

fix: venv ## format, and mend what the linter can mend
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

openapi: venv ## write the files under openapi/ again after a change of a route or a wire struct
	@$(BIN)/python -m scripts.openapi write

lock: ## write the locks again after a change of dependencies
	@$(PYTHON) -m scripts.lock

clean: ## remove what the tools made (not the data of `make up`)
	@rm -rf .venv .tools .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	@rm -rf openapi/tools/node_modules
	@find src tests scripts bench -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

venv:
	@$(SETUP) venv

format:
	@$(BIN)/ruff format --check --quiet . || { echo 'formatting differs: run make fix'; exit 1; }

lint:
	@$(BIN)/ruff check --quiet .

types:
	@$(BIN)/mypy

walls:
	@$(BIN)/lint-imports --no-logo

unit:
	@$(PYTEST) -q tests/unit tests/house
