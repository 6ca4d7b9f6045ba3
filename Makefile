# make demo: set up and run the main job on the embedded broker
# make test: set up, lint, types, layers, all tests
PY := .venv/bin/python

.PHONY: demo test lint types layers tests bench crash docs clean

demo:
	@.ci/prepare demo
	@bash docs/demo.sh

test:
	@.ci/prepare test
	@$(MAKE) --no-print-directory lint types layers tests

lint:
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .

types:
	$(PY) -m mypy

layers:
	.venv/bin/lint-imports

tests:
	$(PY) -m coverage erase
	$(PY) -m pytest -n auto --maxprocesses=4 --dist=loadscope --no-loadscope-reorder --cov=codec --cov=broker --cov-report=term:skip-covered --cov-fail-under=90

bench:
	@.ci/prepare test
	$(PY) -m benchmarks

crash:
	@.ci/prepare test
	$(PY) -m pytest tests/crash -q --crash-rounds=200

docs:
	$(PY) -m rmqcli.manual

clean:
	rm -rf .venv .venv-foreign build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage*
