# Two commands for a newcomer:
#
#   make demo      multiply two matrices and compare the times with NumPy
#   make test      run the checks for every change
#
# Both build .venv first, in either order; `make help` lists the rest.

PYTHON ?= python3
ARGS ?=
# Of the GPU commands: an interpreter with CuPy, such as .venv/bin/python.
GPU_PYTHON ?= python3
SANITIZE = PYTHONPATH=. compute-sanitizer --error-exitcode 1
EVERY_KERNEL = -m pytest -q -m gpu tests/gpu/test_kernels.py

VENV := .venv
BIN := $(VENV)/bin
# The package alone, which is all that the demo needs, and with the tools of all else.
PACKAGE := $(VENV)/.package
TOOLS := $(VENV)/.tools
FIGURES := $(VENV)/.figures
# uv takes a sixth of pip's time, but knows nothing of what pip has in place of PyPI.
# Python compiles what is imported, when it is: half of the time that pip takes.
INSTALL = install() { \
    { ! $(BIN)/python -m pip config list | grep -E '[.](index-url|no-index)=' >/dev/null && \
      VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet "$$@" 2>/dev/null; } || \
    $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile "$$@"; }; \
    install
# A process for each core, and one more where tests wait for clusters; tests of one file
# share theirs, and with it their cluster. Threads of OpenBLAS, which spin while they
# wait, would take the cores from the others. pytest finds zarr's plugin, zarr CuPy, and
# CuPy makes a folder: not in a home that may be read-only.
PROCESSES = $$(( $$(nproc) + 1 ))
PYTEST = OPENBLAS_NUM_THREADS=1 CUPY_CACHE_DIR="$(CURDIR)/$(VENV)/cupy" \
    $(BIN)/python -m pytest -n $(PROCESSES) --dist loadfile --no-loadscope-reorder
# What `make lowest` tests; tools of tests are there as they are today.
LOWEST := .venv-lowest
UV = $(LOWEST)/bin/uv
# What `make newest` tests.
NEWEST := .venv-newest
BOUNDED = $(addprefix --extra ,cloud jobqueue xarray)
# Tests start Python some hundred times: nothing is compiled twice.
unexport PYTHONDONTWRITEBYTECODE
# Those for every machine: two ask for a GPU, one for 24 GiB of disk and 15 minutes.
BENCHMARKS := $(filter-out %_gpu.py %/bench_out_of_core.py, \
    $(sort $(wildcard benchmarks/bench_*.py)))

.DEFAULT_GOAL := help
.PHONY: help demo test nightly check lowest newest emulate-arm counts bench figures tiles test-gpu sanitize-gpu bench-gpu kernels \
        lint lint-ruff lint-mypy lint-numpydoc lint-codespell docs format clean

help: ## print this list
	@awk -F ':[^#]*## ' '/^[a-z-]*:[^#]*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

demo: $(PACKAGE) ## multiply two matrices; A=file B=file N=size W=workers, all optional
	@$(BIN)/python -m benchmarks.demo $(if $(A),--a "$(A)") $(if $(B),--b "$(B)") \
	    $(if $(N),--size "$(N)") $(if $(W),--n-workers "$(W)")

check lowest newest: PROCESSES = $$(nproc)
check test: SELECT = -m "not nightly"
check: TESTS = tests/check
test: TESTS = tests/check tests/run tests/gpu --doctest-modules twom_dist
nightly: TESTS = tests/check tests/run tests/gpu tests/nightly --doctest-modules twom_dist
check test nightly: $(TOOLS)
	@$(MAKE) --no-print-directory -j2 lint kernels
	@$(PYTEST) $(TESTS) $(SELECT) $(ARGS)

check: ## run the quick checks: style, types, and tests that start nothing
test: ## run the checks for every change; ARGS="-k name" is passed to pytest
nightly: ## run every check, those as well that take long

lowest: ## run the quick tests with each dependency at its lower bound, in .venv-lowest
	@$(MAKE) --no-print-directory VENV=$(LOWEST) $(LOWEST)/bin/python
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(UV) pip compile --quiet --no-deps --resolution lowest-direct $(BOUNDED) pyproject.toml \
	    --output-file $(LOWEST)/lowest.txt
	VIRTUAL_ENV=$(LOWEST) $(UV) pip install --quiet -c $(LOWEST)/lowest.txt -e '.[test]'
	@NUMBA_CACHE_DIR=$(CURDIR)/$(LOWEST)/kernels \
	    $(subst $(BIN),$(LOWEST)/bin,$(PYTEST)) tests/check -m "not nightly" $(ARGS)

newest: ## run the quick tests with the newest dask, pre-releases as well, in .venv-newest
	@$(MAKE) --no-print-directory VENV=$(NEWEST) $(NEWEST)/.tools
	$(NEWEST)/bin/python -m pip install --quiet --disable-pip-version-check --pre --upgrade \
	    'dask[array]' distributed
	@NUMBA_CACHE_DIR=$(CURDIR)/$(NEWEST)/kernels \
	    $(subst $(BIN),$(NEWEST)/bin,$(PYTEST)) tests/check -m "not nightly" $(ARGS)

emulate-arm: $(TOOLS) ## compare products with those of Arm, which qemu plays, in .venv-arm
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q \
	    tests/nightly/architectures/test_arm.py $(ARGS)

counts: $(TOOLS) ## record what products cost in tasks, int8 products, bytes, calls, launches
	@rm -f tests/data/counts.json
	@TWOM_RECORD_COUNTS=1 $(BIN)/python -m pytest -q tests/check/project/test_counts.py \
	    tests/run/cuda_on_host/test_engine.py::test_products_take_the_launches_that_are_recorded \
	    tests/run/cuda_on_host/test_host_share.py

bench: $(TOOLS) ## run the benchmarks, which takes long; ARGS="--output FILE" is passed to each
	@set -e; for script in $(BENCHMARKS); do $(BIN)/python $$script $(ARGS); done

figures: $(FIGURES) ## measure and draw errors, speeds and traffic, in ten minutes
	$(BIN)/python benchmarks/figures.py $(ARGS)

tiles: $(TOOLS) ## compile products_tile.py to Tile IR, which the package contains
	$(BIN)/python -m tests.support.cuda.tile_ir

test-gpu: ## run the tests that need a GPU; GPU_PYTHON names a Python with CuPy
	PYTHONPATH=. $(GPU_PYTHON) -m pytest -q -m gpu tests/gpu $(ARGS)

sanitize-gpu: ## run every kernel under compute-sanitizer, which CUDA's toolkit has
	$(SANITIZE) --tool memcheck $(GPU_PYTHON) $(EVERY_KERNEL) $(ARGS)
# Of shared memory: the kernels whose warps wait for copies.
	$(SANITIZE) --tool racecheck --kernel-name kernel_substring=products \
	    $(GPU_PYTHON) $(EVERY_KERNEL) -k mma $(ARGS)

bench-gpu: ## measure on a GPU; PART=ours or PART=peers is one half of it
	PYTHONPATH=. $(GPU_PYTHON) benchmarks/bench_gpu.py $(if $(PART),--part $(PART)) \
	    --output benchmarks/results/gpu.jsonl $(ARGS)

# Else each of many processes would compile them.
kernels: $(TOOLS)
	@$(BIN)/python -m tests.support.compile_kernels > /dev/null

lint: lint-ruff lint-mypy lint-numpydoc lint-codespell ## check style, types, docstrings, spelling

lint-ruff: $(TOOLS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

lint-mypy: $(TOOLS)
	$(BIN)/mypy

lint-numpydoc: $(TOOLS)
	@echo "$(BIN)/numpydoc lint twom_dist"
	@find twom_dist -name '*.py' -exec $(BIN)/numpydoc lint {} +

lint-codespell: $(TOOLS)
	$(BIN)/codespell

docs: $(TOOLS) ## build the pages, docs/_build/html/index.html
	$(BIN)/python -m sphinx -W --keep-going -n -q -E -a docs docs/_build/html

format: $(TOOLS) ## rewrite the sources in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove caches and build products; .venv stays
	rm -rf build demo-output dist docs/_build docs/generated .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +

# --- the virtual environment ------------------------------------------------------

$(PACKAGE): pyproject.toml | $(BIN)/python
	@echo "Installing twom_dist into $(VENV) ..."
	@$(INSTALL) -e .
	@touch $@

$(TOOLS): pyproject.toml | $(BIN)/python
	@echo "Installing twom_dist and its tools into $(VENV) ..."
	@$(INSTALL) -e '.[dev]'
	@touch $(PACKAGE) $@

$(FIGURES): pyproject.toml | $(BIN)/python
	@echo "Installing twom_dist and matplotlib into $(VENV) ..."
	@$(INSTALL) -e '.[figures]'
	@touch $(PACKAGE) $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "twom_dist needs Python 3.11 or newer, and '$(PYTHON)' is not." \
	         "Name one: make PYTHON=python3.12 ..." >&2; exit 1; }
# A pip that is there is quicker than ensurepip, which Debian keeps in a package of its own.
	@$(PYTHON) -m venv --clear --without-pip $(VENV) && \
	$(PYTHON) -m pip --python $(BIN)/python install --quiet --no-compile pip uv 2>/dev/null || \
	$(PYTHON) -m venv --clear $(VENV) || { \
	    rm -rf $(VENV); echo "'$(PYTHON)' cannot make virtual environments." \
	         "On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
