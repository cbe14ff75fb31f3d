# make demo | test | test-unit | test-long | kerberos | coverage | check | docs | bench | bench-ch | server | dist, and nothing else to remember.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.interbed-ready
KERBEROS := $(VENV)/.interbed-kerberos-ready
SUDO := $(shell test "$$(id -u)" = 0 || echo sudo)
DIST_TOOLS := build/dist-tools

.PHONY: demo test test-unit test-long kerberos coverage check mypy pyright imports docs bench bench-ch server dist idl clean
.DELETE_ON_ERROR:

$(READY): pyproject.toml constraints.txt hatch_build.py thrift_idl/planner.thrift $(shell find spark_ext/jvm/src thrift_idl/java -name '*.java')
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev --group docs
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[demo,postgres]"
	touch $@

# A store with S3's interface comes from an environment of its own, as the reader that agrees at the end does.
DEMO_STORE = $(if $(findstring s3,$(ARGS)),--moto-python "$$($(BIN)/python -m tests.support.servers.http_servers)")

demo: $(READY) ## The main job on embedded defaults and real data.
	$(BIN)/python demo/flights.py --peer-python "$$($(BIN)/python -m tests.support.peers.cache)" $(DEMO_STORE) $(ARGS)

# Every process of the tests finds the modules compiled, whatever the environment says: a server starts in half the time.
test test-unit test-long coverage: export PYTHONDONTWRITEBYTECODE :=

# The order in which files start is that of tests/durations.json, the longest first.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# Directories of tests that passed are deleted at once: they are in memory (tests/support/memory_disk.py).
test: $(READY) ## The tests of each run; starts the servers and fetches the peers that it needs.
	$(PYTEST) -o tmp_path_retention_policy=failed $(ARGS)

test-unit: $(READY) ## The tests that need neither a JVM nor a server.
	INTERBED_TEST_TIER=unit $(PYTEST) $(ARGS)

test-long: $(READY) ## The long tests, or the share of them that INTERBED_TEST_SHARE names: k/n, commit/n or date/n.
	INTERBED_TEST_LONG=1 $(PYTEST) $(ARGS)

kerberos: $(KERBEROS) ## The extra `kerberos`, which is built with the headers of MIT's library; its long tests run then.

$(KERBEROS): $(READY)
	command -v krb5-config > /dev/null || ($(SUDO) apt-get update -qq && $(SUDO) apt-get -o DPkg::Lock::Timeout=300 install -qq --yes --no-install-recommends libkrb5-dev)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt gssapi
	touch $@

# A failed test is an error of `make test-unit`: threads of Python 3.11 may fail to start under a tracer.
coverage: $(READY) ## The unit tests with branch coverage; fails below the floor of pyproject.toml.
	$(BIN)/python -m coverage erase
	INTERBED_TEST_TIER=unit $(BIN)/python -m coverage run -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS) || test $$? = 1
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --skip-covered --sort=cover

check: $(READY) ## Lint, types, layers, and the documentation's links.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(MAKE) --no-print-directory --jobs=2 mypy pyright imports docs

# Parts of `make check`, two at a time: mypy and pyright take a minute each, and use one core.
mypy: $(READY)
	$(BIN)/mypy --package interbed --package tests

pyright: $(READY)
	$(BIN)/pyright --pythonpath $(BIN)/python

imports: $(READY)
	$(BIN)/lint-imports --no-cache

docs: $(READY) ## The documentation site, in build/site; fails on dead links and pages outside the navigation.
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

bench: $(READY) ## Benchmarks against the peers, in one run, with ratios.
	@$(BIN)/python -m tests.benchmarks $(ARGS)

bench-ch: $(READY) ## Transactions and queries at once: CH-benchmark on tables that follow a PostgreSQL.
	@$(BIN)/python -m tests.benchmarks.ch $(ARGS)

server: $(READY) ## The catalog server on its defaults.
	$(BIN)/interbed server

dist: ## Wheel and sdist: built, compared, installed in empty environments and tried there; left in dist/.
	test -x $(DIST_TOOLS)/bin/python || $(PYTHON) -m venv $(DIST_TOOLS)
	$(DIST_TOOLS)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(DIST_TOOLS)/bin/python -m pip install --quiet --constraint constraints.txt --group dist
	$(DIST_TOOLS)/bin/python -m tests.packaging $(ARGS)

idl: ## Regenerate the code from the interface definitions; needs the thrift compiler, 0.17 or newer.
	thrift_idl/generate.sh

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache spark_ext/jvm/*.jar
