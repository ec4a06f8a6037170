# Every target works on a fresh machine: tools/setup.sh installs what is missing and skips what is there.
# PYTHON=/path/to/python3 chooses a Python, ARGS="-k adam" adds arguments for pytest or the self test.

SHELL := /bin/bash
VENV := $(if $(MPS_DS_VENV),$(MPS_DS_VENV),.venv)
PY := $(VENV)/bin/python
export PYTHON MPS_DS_VENV

# The software device stands in for the GPU where there is no Mac; on a Mac the real one is used.
ifneq ($(shell uname -s),Darwin)
export MPS_DS_SOFT := 1
endif
# Test runs and small tensors gain nothing from more threads, and two pools fight over the cores.
export OMP_NUM_THREADS ?= 1
# One worker for each core, four at most: each holds PyTorch and the frameworks. ARGS="-n 0" runs the
# tests in pytest's own process, for a debugger.
PYTEST := "$(PY)" -m pytest
WORKERS := -n auto --maxprocesses 4
# Their tests share what they build or fetch, or count together: in one process, after the others.
TOGETHER := tests/macos tests/real_kernels tests/sanitizers

.DEFAULT_GOAL := help
.PHONY: help selftest test test-all real-kernels sanitize stable-abi lint format docs build dev macos-wheel clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1	/p' $(firstword $(MAKEFILE_LIST))

selftest:  ## set up this machine, build, and show that everything works on it
	@tools/setup.sh install
	@cd / && "$(abspath $(PY))" -m mps_ds.selftest $(ARGS)

test: lint  ## set up this machine, check the sources, build, run the tests
	@tools/setup.sh test
	@$(PYTEST) $(WORKERS) -m "not slow" $(ARGS)

test-all: lint  ## the same with the tests that take long
	@tools/setup.sh test
	@$(PYTEST) $(WORKERS) $(TOGETHER:%=--ignore=%) $(ARGS)
	@$(PYTEST) $(TOGETHER) $(ARGS) || test $$? -eq 5  # 5: ARGS has chosen none of them

real-kernels:  ## kernels of MLX, PyTorch and DeepSpeed on the software Metal device (part of test-all)
	@tools/setup.sh test
	@$(PYTEST) tests/real_kernels $(ARGS)

sanitize:  ## the software devices and our host code under sanitizers (part of test-all)
	@tools/setup.sh test
	@$(PYTEST) tests/sanitizers $(ARGS)

stable-abi:  ## one binary on PyTorch 2.10 and on the newest (14 GB of disk on Linux x86-64)
	@tools/setup.sh install
	@tools/stable_abi.sh $(VERSIONS)

lint:  ## ruff, mypy, clang-format, workflows, kernels; changes nothing
	@tools/setup.sh tools
	@tools/lint.sh check "$(PY)"

format:  ## let ruff and clang-format rewrite the sources
	@tools/setup.sh tools
	@tools/lint.sh fix "$(PY)"

docs:  ## the documentation site, into build/docs (ARGS=linkcheck: links to other sites)
	@tools/setup.sh test
	@PYTHONPATH=tools "$(PY)" -m docsite $(ARGS)

build:  ## build and install into .venv
	@tools/setup.sh install

dev:  ## build into build/stage for quick turns: PYTHONPATH=build/stage .venv/bin/python
	@tools/setup.sh tools
	@PATH="$(abspath $(VENV))/bin:$$PATH" PYTHON="$(abspath $(PY))" tools/stage.sh build/dev build/stage

macos-wheel:  ## build the wheel for macOS on this Linux machine and check it (downloads 330 MB once)
	@tools/setup.sh tools
	@PYTHONPATH=tools "$(PY)" -m macos wheel

clean:  ## remove what was built; the environment stays (rm -rf .venv removes it too)
	rm -rf build dist python/*.egg-info .pytest_cache .mypy_cache .ruff_cache
	rm -f "$(VENV)/.mps_ds/installed"
