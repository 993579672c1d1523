.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NATIVE := plugins/streams_recovery/kafka/native
GUARANTEE ?= exactly_once_v2
STRATEGY ?= full
SPARK ?= local
STORAGE ?= files
SHOW ?= running
SHARD ?= 1/8
# Units of the deep tests that take longer are in no slice.
SLICE_SECONDS := 900
# All of `make test`, in as many processes. A test compares it with what each file took.
TEST_SECONDS := 900
TEST_PROCESSES := 4
# Tests of one group (a file, mostly) run in one process; the longest groups begin first.
PYTEST := $(BIN)/python -m pytest -q --no-loadscope-reorder
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-annotate --generate-hashes
ORDERS ?= 200000
AIRFLOW = $(shell sed -n 's/^apache-airflow==\([^ ]*\).*/\1/p' requirements.lock)
VERSION = $(shell sed -n 's/^VERSION = "\(.*\)"/\1/p' plugins/streams_recovery/core/version.py)
export PYTHONPATH := plugins:.
# Without bytecode each of the many short processes would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup lock wheel image lint demo up down test test-fast test-deep seconds deep-status slice test-unit bench bench-starts bench-fleet pages site clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.installed $(VENV)/.compiled ## Install everything into .venv (needs Python 3.11+ and Java 17+)

$(VENV)/.installed: requirements.lock requirements-uv.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0])'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing Python packages ..."
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements-uv.lock
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-build-isolation --no-deps --editable .
	@$(BIN)/python -c 'from embedded.java import find_java; find_java()'
	@$(BIN)/python -m embedded.prepare
	@touch $@

# An installation compiles it too; this is for when the source has changed since.
$(VENV)/.compiled: $(NATIVE)/gather.c hatch_build.py $(VENV)/.installed
	@$(BIN)/python hatch_build.py > /dev/null
	@touch $@

lock: ## Resolve requirements*.txt into the lock files: a version and the hashes of its files for each package
	@$(LOCK) requirements-dev.txt -o requirements.lock
	@$(LOCK) requirements-uv.txt -o requirements-uv.lock
	@$(LOCK) requirements-wheel.txt -c requirements.lock -o requirements-wheel.lock
	@$(LOCK) requirements.txt -c requirements.lock -o docker/airflow/requirements.lock
	@$(LOCK) docker/spark/requirements.txt -c requirements.lock -o docker/spark/requirements.lock

wheel: ## Build the wheel into build/dist (needs Python 3.11+ only)
	@test -x build/wheel/bin/python || $(PYTHON) -m venv build/wheel
	@build/wheel/bin/python -m pip install --quiet --require-hashes -r requirements-wheel.lock
	@rm -rf build/dist
	@build/wheel/bin/python -m hatchling build --target wheel --directory build/dist

image: wheel ## Build an image with everything in it (needs Docker)
	@docker build --file docker/airflow/Dockerfile --tag streams-recovery/airflow:$(AIRFLOW) .
	@docker build --file docker/image/Dockerfile --tag streams-recovery/recovery:$(VERSION) build/dist

demo: setup ## Lose an application and bring it back (GUARANTEE=exactly_once_v2|at_least_once, STRATEGY=full|undo|rebuild|run|pitr|reprocess|clone|all, ORDERS=200000, SPARK=local|cluster, STORAGE=files|s3|gcs|azure, ENCRYPTED=1)
	@$(BIN)/python -m embedded demo --guarantee $(GUARANTEE) --strategy $(STRATEGY) --orders $(ORDERS) --spark $(SPARK) --storage $(STORAGE) $(if $(ENCRYPTED),--encrypted)

up: setup ## Leave the stack running, with the Airflow UI (SHOW=all: two savepoints, a moment to go back to and a drill too)
	@$(BIN)/python -m embedded up --guarantee $(GUARANTEE) --show $(SHOW)

down: setup ## Stop what `make up` started
	@$(BIN)/python -m embedded down

lint: setup ## ruff, mypy and the import rings
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy plugins/streams_recovery embedded examples spark_jobs dags bench documentation
	@$(BIN)/lint-imports --no-cache

test-unit: setup ## The tests that need neither a broker nor a JVM
	@$(PYTEST) -n 2 tests/unit

test-fast: setup ## Lint, unit tests, and every DAG parsed: three minutes
	@$(PYTEST) -n 2 tests/lint tests/unit tests/dags/test_dag*.py

test: setup ## Everything that is checked before a change is accepted: 15 minutes on two idle cores
	@$(PYTEST) -n $(TEST_PROCESSES) --tier test --junitxml build/test.xml tests; code=$$?; test $$code -ne 1 && exit $$code; \
	  echo "These failed beside others. Again, alone: a test that passes now waits for less than a busy machine needs."; \
	  $(PYTEST) -n 0 --tier test --last-failed --last-failed-no-failures none --maxfail 1 tests

test-deep: setup ## All other tests, in parts of 40 minutes at most: SHARD=1/8 is the first of eight
	@$(PYTEST) -v -n 2 --tier deep --shard $(SHARD) --junitxml build/deep.xml tests; code=$$?; \
	  $(BIN)/python -m tests.support.deep_runs record && exit $$code

seconds: ## Write down what the last runs of tests took: the next ones begin with the longest, and slices are divided by it
	@$(BIN)/python -m tests.support.stopwatch

deep-status: setup ## Which parts of the deep tests are green, and how many commits ago
	@$(BIN)/python -m tests.support.deep_runs status

slice: setup ## One small part of the deep tests, 15 minutes at most: the one whose number is in .ci/slice
	@$(PYTEST) -v -n 2 --tier deep --most $(SLICE_SECONDS) --shard $$(cat .ci/slice) --junitxml build/slice.xml tests

bench: setup ## How fast savepoints and restores are, beside what librdkafka and zstd allow: hours, or minutes with BENCH=--quick
	@$(BIN)/python bench/speed.py $(BENCH)

bench-starts: setup ## What commands cost that have next to nothing to copy: minutes
	@$(BIN)/python bench/starts.py $(BENCH)

bench-fleet: setup ## What savepoints of many applications cost on one Airflow, all due at once: minutes
	@$(BIN)/python bench/fleet.py $(BENCH)

pages: setup ## Make the pages of the DAGs and the tables of the command line again
	@$(BIN)/python -m documentation

# Without --quiet: with it MkDocs counts no warnings, and --strict fails nothing.
site: setup ## Build the documentation as a site into build/site; a broken link or anchor fails it
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "build/site/index.html"

clean: ## Remove what was built; the jar cache stays
	@rm -rf build .mypy_cache .ruff_cache .pytest_cache .hypothesis
