# Every target makes what it needs: a virtual environment in .venv from the pinned constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
PIP := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip --disable-pip-version-check install --quiet

.PHONY: demo test check bench docs clean

demo: .venv/demo.done  ## the main job on the built-in collection
	$(BIN)/tamis demo

test: check  ## all checks: format, lint, types, tests
	$(BIN)/python -m pytest -n 2

check: .venv/dev.done  ## format, lint and types only
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: .venv/bench.done  ## speed against peers, in one interleaved run
	$(BIN)/python -m benchmarks

docs: .venv/dev.done  ## run every code block of the documentation
	$(BIN)/python -m pytest tests/test_docs.py

clean:  ## forget the environment and all caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build

.venv/made.done: constraints.txt
	$(PYTHON) -m venv .venv
	touch $@

.venv/demo.done: .venv/made.done pyproject.toml
	$(PIP) -e '.[neural,models]'
	touch $@

.venv/dev.done: .venv/made.done pyproject.toml
	$(PIP) -e '.[dev]'
	touch $@ .venv/demo.done

.venv/bench.done: .venv/dev.done
	$(PIP) -e '.[dev,bench]'
	touch $@
