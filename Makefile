# Every target does its own set-up in .venv.  A stamp file records each step; it is made again when a file that the
# step depends on changes.  `make help` lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Several processes, each with whole files: most of a slow test is waiting for one process after the other.
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile
DEMO_OUT := torchsleuth-out/demo
PYTEST_ARGS ?=
NAMES ?=

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo test test-fast test-slow test-gpu lint fmt record setup clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.stamp-package ## find, locate and reduce a planted compiler bug
	@command -v $${CXX:-g++} >/dev/null || { echo "make demo needs a C++ compiler: install g++" >&2; exit 1; }
	@rm -rf $(DEMO_OUT)
	@echo '$$ torchsleuth run --out $(DEMO_OUT) examples/relu.py'
	@# Status 1 means that a failure was found and reproduced, which is what the demo is for.  An uncaught Python error
	@# ends with 1 too, so the result itself is asked as well.
	@status=0; $(BIN)/torchsleuth run --out $(DEMO_OUT) examples/relu.py || status=$$?; \
	if [ $$status -ne 1 ]; then echo "make demo: torchsleuth ended with status $$status, expected 1" >&2; exit 1; fi
	@$(BIN)/python -c 'import json, sys; \
	result = json.load(open("$(DEMO_OUT)/result.json")); \
	troubles = [note for note in result["notes"] if "trouble of its own" in note]; \
	sys.exit(troubles[0] if troubles else 0 if result["failures"][0]["repro"]["verified"] else \
	"make demo: the repro was not verified")'
	@printf '\n==> $(DEMO_OUT)/repro.py\n\n'
	@cat $(DEMO_OUT)/repro.py

test: lint test-fast test-slow ## lint, then the fast tests, then the slow ones

test-fast: $(VENV)/.stamp-dev ## only the tests that take milliseconds
	$(PYTEST) -m "not slow and not gpu" $(PYTEST_ARGS)

test-slow: $(VENV)/.stamp-dev ## only the tests that compile
	@command -v $${CXX:-g++} >/dev/null || { echo "the slow tests need a C++ compiler: install g++" >&2; exit 1; }
	$(PYTEST) -m "slow and not gpu" $(PYTEST_ARGS)

test-gpu: $(VENV)/.stamp-dev ## only the tests that need a CUDA device
	$(PYTEST) -m gpu $(PYTEST_ARGS)

lint: $(VENV)/.stamp-dev ## ruff, mypy and the import directions
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python tools/check_imports.py
	$(BIN)/python -m mypy

fmt: $(VENV)/.stamp-dev ## format, and mend what ruff can mend
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

record: $(VENV)/.stamp-dev ## record the runs of tests/replays again, or those in NAMES="..."
	@command -v $${CXX:-g++} >/dev/null || { echo "recording needs a C++ compiler: install g++" >&2; exit 1; }
	$(BIN)/python tools/record_replays.py $(NAMES)

setup: $(VENV)/.stamp-dev ## only the set-up, for development

clean: ## remove .venv and all that is made by the targets above
	rm -rf $(VENV) torchsleuth-out torch_compile_debug build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests tools examples -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.stamp-venv:
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	{ rm -rf $(VENV); echo "$(PYTHON) -m venv failed; on Debian: apt install python3-venv" >&2; exit 1; }
	@touch $@

# torch by itself and by its exact version, before anything that asks for a range of it.
$(VENV)/.stamp-torch: constraints.txt | $(VENV)/.stamp-venv
	$(PIP) install --quiet --constraint constraints.txt torch
	@touch $@

$(VENV)/.stamp-package: pyproject.toml constraints.txt $(VENV)/.stamp-torch
	$(PIP) install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.stamp-dev: requirements-dev.txt pyproject.toml constraints.txt $(VENV)/.stamp-torch
	$(PIP) install --quiet --requirement requirements-dev.txt
	@touch $@ $(VENV)/.stamp-package
