# make demo: set up, then run the main commands with the embedded broker; make demo-spark: also export with Spark
# make quick: set up, lint, and run the fast tests, within a minute
# make test: set up, then check style, types and layers, and run tests of every kind
# make nightly: run all tests with four times as many random cases and coverage; most of make test on every other Python
# make docs: write man pages and completions, and the library reference in build/reference
# make release: build, check and try the files of a release, from a clean checkout of its tag; upload nothing
PY := .venv/bin/python
# One more than the number of cores, because some tests wait for processes and clocks. More than five use much memory.
WORKERS := $(shell n=$$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN); echo $$(( n < 4 ? n + 1 : 5 )))

# Calls to the disk take a tenth of the tests' CPU time and a third of their elapsed time.
MEMORY := $(shell [ "$$(df -Pk /dev/shm 2>/dev/null | awk 'END {print $$4}')" -gt 6000000 ] 2>/dev/null && echo PYTEST_DEBUG_TEMPROOT=/dev/shm)

# Checking the types of the tests takes 40 % of mypy's time, so only make nightly, make types and the hook do it.
PRODUCT := -p rmqcli -p benchmarks -m tests.client.typed_program

# The tests of make quick, and the folders that take half of its time.
FAST := "not (slow or nightly or spark or foreign or crash or docs)"
HALF := tests/broker tests/codec tests/client

# Write the bytecode of the tests, all of which every worker imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo demo-spark quick quick-half quick-rest test nightly core lint types layers interpreted tests bench crash docs release clean

demo:
	@.ci/prepare demo
	@bash docs/demo.sh

demo-spark:
	@.ci/prepare demo-spark
	@bash docs/demo.sh --spark

# Two processes that share nothing: with a controller, each would collect all tests, which takes a third of the CPU time.
quick:
	@MYPYC_OPT_LEVEL=1 .ci/prepare test
	@$(MAKE) --no-print-directory -j2 --output-sync lint quick-half quick-rest

quick-half:
	$(MEMORY) $(PY) -m pytest -q -m $(FAST) $(HALF)

quick-rest:
	$(MEMORY) $(PY) -m pytest -q -m $(FAST) $(HALF:%=--ignore=%)

test:
	@.ci/prepare tools
	@$(MAKE) --no-print-directory -j2 types core lint layers interpreted TYPED="$(PRODUCT)"
	@$(MAKE) --no-print-directory tests

nightly:
	@.ci/prepare test
	@$(MAKE) --no-print-directory -j2 lint types layers
	@.ci/nightly $(WORKERS)

# Runs in parallel with mypy, which uses one core. -O3 would take twice as long; make nightly tests that.
core:
	@MYPYC_OPT_LEVEL=1 .ci/prepare core

lint:
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .

types:
	$(PY) -m mypy $(TYPED)

layers:
	.venv/bin/lint-imports

# Collects all tests, so that bytecode and Hypothesis' data about modules are made once instead of in each worker.
interpreted:
	RMQ_PURE=1 $(PY) -m pytest -q -m "core and not nightly"

tests:
	$(MEMORY) $(PY) -m pytest -n $(WORKERS) --dist=loadscope --no-loadscope-reorder -m "not nightly"

bench:
	@.ci/prepare test
	$(PY) -m benchmarks

crash:
	@.ci/prepare test
	RMQ_SEEDS=20 $(PY) -m pytest tests/crash tests/store tests/client/push/test_cancellation.py -q -n $(WORKERS) --dist=loadscope --crash-rounds=1000 --frames=2000000 --cuts=10000 --errors-step=1

docs:
	$(PY) -m rmqcli.manual
	$(PY) .ci/reference.py build/reference

release:
	@.ci/release

clean:
	rm -rf .venv .venv-foreign build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* rmq_core__mypyc.* codec/core/*.so
