# Two commands do everything on a fresh machine with Python 3.11 or newer: `make demo` and `make test`.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: help setup demo test lint types docs mutants clean device-wheels

help:
	@echo "make demo      install, train a text classifier on the corpus that comes with Catena, evaluate it, show predictions"
	@echo "make test      install what the tests need and run them"
	@echo "make lint      ruff"
	@echo "make types     mypy"
	@echo "make docs      run every command, every Python block and every example of the docs"
	@echo "make mutants   one-line mutants of the algorithms; the tests must catch every one"
	@echo "make device-wheels   what the tests need, for a machine that reaches no package registry"
	@echo "make clean     remove the virtual environments and caches"

setup: $(VENV)/installed

# Compiling every file of torch takes longer than compiling those that are used, when they are first used.
INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt

# The stamp is written last, so that an install that was cut short starts again.
$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Catena needs Python 3.11 or newer, and '$(PYTHON)' is older: make setup PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) -e .
	@touch $@

$(VENV)/tested: $(VENV)/installed
	$(BIN)/python $(INSTALL) -e '.[dev]'
	@touch $@

demo: setup
	$(BIN)/python -m catena demo

# What is compiled is kept: a worker, or a command that a test starts, would else compile torch and the tests again.
test docs: export PYTHONDONTWRITEBYTECODE =

test: $(VENV)/tested
	$(BIN)/python -m pytest -n 2 $(TESTS)

lint: $(VENV)/tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/tested
	$(BIN)/mypy

docs: $(VENV)/tested
	$(BIN)/python -m pytest -n 2 tests/test_docs.py

mutants: $(VENV)/tested
	$(BIN)/python tests/mutants/run.py --jobs 2 $(ONLY)

# Wheels for a machine that cannot reach a registry; FOR names its Python, such as 3.12.
FOR ?= 3.12
device-wheels:
	$(BIN)/python -m pip download --quiet --no-deps --only-binary=:all: --python-version $(FOR) --dest carry/wheels \
	  pydantic pydantic-core annotated-types typing-inspection typing-extensions tyro docstring-parser typeguard beartype \
	  regex pytest pytest-xdist execnet pluggy iniconfig hypothesis sortedcontainers

clean:
	rm -rf $(VENV) .venv-peers .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
