# Every target makes what it needs: a virtual environment in .venv from the pinned constraints.txt.
# PYTHON=python3.12 makes it anew where another version of Python had made it.
PYTHON ?= python3
BIN := .venv/bin
MADE := .venv/made-$(shell $(PYTHON) -c 'import platform; print(platform.python_version())').done
PIP := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip --disable-pip-version-check install --quiet

.PHONY: demo test check bench docs venv clean

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

venv: $(MADE)  ## an empty environment

clean:  ## forget the environment and all caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build

$(MADE): constraints.txt
	$(PYTHON) -m venv $(if $(wildcard $@),,--clear) .venv
	touch $@

.venv/demo.done: $(MADE) pyproject.toml
	$(PIP) -e '.[neural,models]'
	touch $@

.venv/dev.done: $(MADE) pyproject.toml
	$(PIP) -e '.[dev]'
	touch $@ .venv/demo.done

.venv/bench.done: .venv/dev.done
	$(PIP) -e '.[dev,bench]'
	touch $@
