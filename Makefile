# The one list of commands. `make` alone prints it.
PYTHON ?= python3
BIN := .venv/bin
SETUP := $(PYTHON) -m scripts.setup

# Two workers suit the two cores that CI has; more make the timing tests lie.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadgroup

.DEFAULT_GOAL := help
.PHONY: help setup up check test soak bench peers fix openapi lock clean
.PHONY: venv format lint types walls unit

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install everything: the package, its tools, and what the machine lacks for the tests
	@$(SETUP)

up: venv ## run the catalog with a small sample lake and print where to point each client
	@$(BIN)/moorage up

check: venv ## format, lint, types, import walls, unit tests: under a minute
	@$(MAKE) --no-print-directory --jobs 2 --keep-going --output-sync=target types unit format lint walls

test: ## everything that must hold before a change goes in
	@$(SETUP) tests
	@$(MAKE) --no-print-directory check
	@$(PYTEST) tests --ignore tests/unit --ignore tests/house

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
