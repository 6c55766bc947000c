# make demo    diagnose a run whose learning rate jumped
# make test    every check, in .venv; make test-torch for the recorder
# make help    the rest

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
LOG ?= fixtures/runs/spike-lr-jump/log.jsonl

PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
CONSTRAINTS ?= constraints.txt
INSTALL := $(PIP) install --quiet --constraint $(CONSTRAINTS)

# The environment that is active, if there is one: the demo needs no second one.
ACTIVE := $(or $(VIRTUAL_ENV),$(CONDA_PREFIX))
DEMO := $(or $(ACTIVE),$(VENV))/bin/python

# One stamp for each state of the virtual environment, remade when its dependencies change.
MADE := $(VENV)/.made
RUNTIME := $(VENV)/.runtime
TEST := $(VENV)/.test
DEV := $(VENV)/.dev

# The tests start hundreds of processes: without bytecode each would compile the program again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-torch tests test-all test-lowest test-newest check format bench fuzz accuracy accuracy-peers accuracy-page cure calibrate docs site snippets dist fixtures coverage clean

help:  ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

demo: $(if $(ACTIVE),,$(RUNTIME))  ## diagnose a run whose learning rate jumped; LOG=FILE for another
	@$(DEMO) -c 'import numpy, pyarrow, rich, typer' 2>/dev/null || $(DEMO) -m pip install --quiet .
	@$(DEMO) -m stabdiag diagnose $(LOG) --fail-on never

test: check tests  ## run every check, then the tests
	@echo "The recorder has tests of its own, which install PyTorch: make test-torch" >&2

# TESTS="--hypothesis-profile thorough" draws a thousand new examples for each property.
tests: $(TEST)  ## run only the tests; TESTS="tests/readers -x" for some of them
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder $(TESTS)

test-all:  ## run the tests on each Python from 3.11 on that is found, or on PYTHONS="PATH..."
	@set -e; for python in $(or $(PYTHONS),$$(.ci/pythons)); do \
		version=$$($$python -c 'import platform; print(platform.python_version())'); \
		echo "Python $$version"; \
		$(MAKE) --no-print-directory tests PYTHON=$$python VENV=.venvs/$$version; \
	done

# The version that the figures of docs/recorder.md were taken with.
TORCH ?= torch==2.13.0

# PyTorch, Lightning and Transformers warn about each other.
test-torch:  ## run the tests of the recorder (installs PyTorch in .venvs/torch); TORCH=torch==2.6.0 for another
	@$(MAKE) --no-print-directory $(abspath .venvs/torch)/.runtime VENV=$(abspath .venvs/torch)
	.venvs/torch/bin/python -m pip install --quiet --upgrade pip
	.venvs/torch/bin/python -m pip install --quiet --group torch $(TORCH)
	.venvs/torch/bin/python -m pytest --numprocesses auto --dist loadfile \
		-W ignore::DeprecationWarning -W ignore::FutureWarning -W ignore::UserWarning \
		tests/torch $(TESTS)

# Ignore deprecation warnings raised by the oldest supported dependencies. The tool that checks the import
# contracts needs a newer rich, and the generated pages need the pinned versions.
test-lowest:  ## run the tests with the lowest version of each dependency that is declared
	@mkdir -p .venvs && .ci/lowest > .venvs/lowest.txt
	@$(MAKE) --no-print-directory tests VENV=.venvs/lowest CONSTRAINTS=.venvs/lowest.txt \
		TESTS="-W ignore::DeprecationWarning --ignore tests/test_layers.py \
		--deselect tests/test_docs.py::test_generated_pages_are_current $(TESTS)"

test-newest:  ## run the tests with the newest version of everything
	@$(MAKE) --no-print-directory tests VENV=.venvs/newest CONSTRAINTS=/dev/null

check: $(DEV)  ## run all checks except the tests: format, lint, types, import contracts
	$(BIN)/ruff format --check --quiet
	$(BIN)/ruff check --quiet
	$(BIN)/mypy --no-error-summary
	$(BIN)/lint-imports --no-logo

format: $(DEV)  ## format the code, and apply the fixes of ruff
	$(BIN)/ruff check --fix --exit-zero
	$(BIN)/ruff format

coverage: $(DEV)  ## run the tests and show the lines that they miss
	$(BIN)/python -m pytest --cov --cov-report=term-missing

bench: $(DEV)  ## measure the speed against Arrow and pandas; BENCH="--rows 100000" for less
	$(BIN)/python benchmarks/speed.py $(BENCH)

fuzz: $(DEV)  ## give every reader damaged logs (half an hour); FUZZ="--target csv --minutes 10" for one
	$(BIN)/python benchmarks/fuzz.py $(FUZZ)

accuracy: $(RUNTIME)  ## score the diagnoses of labeled runs; SPLIT=held, test, fresh, fifth, sixth or tenth
	$(BIN)/python benchmarks/accuracy/score.py --split $(or $(SPLIT),dev) $(ACCURACY)

accuracy-peers: $(RUNTIME)  ## ask other tools about the same runs (installs them apart; ten minutes)
	$(BIN)/python benchmarks/accuracy/peers.py $(ACCURACY)

accuracy-page: $(RUNTIME)  ## write the tables of docs/accuracy.md again
	$(BIN)/python benchmarks/accuracy/page.py $(ACCURACY)

cure: $(TEST)  ## score the advice on common failures; CURE=--cure retrains with the advised actions (installs torch)
	$(if $(CURE),$(INSTALL) --group fixtures)
	$(BIN)/python benchmarks/cure/first_actions.py $(CURE)

calibrate: $(RUNTIME)  ## regenerate docs/calibration.md: our own limits, halved and doubled (ten minutes)
	$(BIN)/python benchmarks/accuracy/calibrate.py

docs: $(RUNTIME)  ## regenerate pages, tables and images
	$(BIN)/python docs/build.py

site: $(RUNTIME)  ## build the documentation as a site, build/site/index.html; a dead link is an error
	$(INSTALL) --upgrade pip
	$(INSTALL) --group site
	$(BIN)/python docs/build.py --site build/pages
	$(BIN)/python -m sphinx --fail-on-warning --nitpicky --quiet --conf-dir docs/site build/pages build/site

# Use the time of the last commit, so that every build has the same bytes.
dist: $(MADE)  ## build the sdist and the wheel into dist/
	rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -c \
		'from flit_core import buildapi; print(buildapi.build_sdist("dist"), buildapi.build_wheel("dist"))'

snippets:  ## run the scripts of docs/logging.md (installs the frameworks in .venvs/snippets; gigabytes)
	@$(MAKE) --no-print-directory $(abspath .venvs/snippets)/.runtime VENV=$(abspath .venvs/snippets) CONSTRAINTS=/dev/null
	.venvs/snippets/bin/python -m pip install --quiet --upgrade pip
	.venvs/snippets/bin/python -m pip install --quiet --group snippets
	.venvs/snippets/bin/python -m pytest tests/docs/test_logging.py

fixtures: $(DEV)  ## retrain the fixtures (installs torch; about fifteen minutes)
	$(INSTALL) --group fixtures
	$(BIN)/python fixtures/train.py

clean:  ## remove all generated files
	rm -rf .venv .venvs .bench .fuzz .peers .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find stabdiag tests fixtures benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(MADE):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "stabdiag needs Python 3.11 or newer; PYTHON=/path/to/python make …")'
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) flit_core
	@touch $@

# Python compiles what it imports; to compile all of pandas takes longer than to install it.
$(RUNTIME): $(MADE) pyproject.toml constraints.txt
	$(INSTALL) --no-compile --no-build-isolation --editable .
	@touch $@

# Older versions of pip do not know --group.
$(TEST): $(RUNTIME)
	$(INSTALL) --upgrade pip
	$(INSTALL) --group test
	@touch $@

$(DEV): $(TEST)
	$(INSTALL) --group lint
	@touch $@
