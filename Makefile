# make demo: set up, then run the main job on the embedded broker; make demo-spark: with an export by Spark, too
# make quick: set up, lint, and run the fast tests: a verdict within a minute
# make test: set up, then lint, types, layers, and tests of every kind
# make nightly: all tests, on four times as many random cases, with coverage; the fast ones on each other Python
# make docs: write man pages and completions, and the reference of the library into build/reference
# make release: build, check and try the files of a release, from a clean checkout of its tag; upload nothing
PY := .venv/bin/python
# One more than there are cores: some tests wait for processes and clocks. More than five need much memory.
WORKERS := $(shell n=$$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN); echo $$(( n < 4 ? n + 1 : 5 )))

# A tenth of the tests' CPU time, and a third of their time, are calls to the disk.
MEMORY := $(shell [ "$$(df -Pk /dev/shm 2>/dev/null | awk 'END {print $$4}')" -gt 6000000 ] 2>/dev/null && echo PYTEST_DEBUG_TEMPROOT=/dev/shm)

# The types of the tests, which take 40 % of mypy's time, are checked by make nightly, make types and the hook.
PRODUCT := -p rmqcli -p benchmarks -m tests.client.typed_program

# The bytecode of the tests, of which every worker needs all.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo demo-spark quick test nightly core lint types layers interpreted tests bench crash docs release clean

demo:
	@.ci/prepare demo
	@bash docs/demo.sh

demo-spark:
	@.ci/prepare demo-spark
	@bash docs/demo.sh --spark

quick:
	@MYPYC_OPT_LEVEL=1 .ci/prepare test
	@$(MAKE) --no-print-directory lint
	$(PY) -m pytest -q -n 2 -m "not (slow or nightly or spark or foreign or crash or docs)"

test:
	@.ci/prepare tools
	@$(MAKE) --no-print-directory -j2 types core lint layers interpreted TYPED="$(PRODUCT)"
	@$(MAKE) --no-print-directory tests

nightly:
	@.ci/prepare test
	@$(MAKE) --no-print-directory -j2 lint types layers
	@.ci/nightly $(WORKERS)

# Beside mypy, which needs one core. The compiler takes twice as long for -O3, which the tests of make nightly run.
core:
	@MYPYC_OPT_LEVEL=1 .ci/prepare core

lint:
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .

types:
	$(PY) -m mypy $(TYPED)

layers:
	.venv/bin/lint-imports

# Collects all tests: their bytecode, and what Hypothesis reads in the modules, are made once instead of in each worker.
interpreted:
	RMQ_PURE=1 $(PY) -m pytest -q -m "core and not slow"

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
