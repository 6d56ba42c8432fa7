# `make` lists the targets. Each first brings the environment up to date, which takes no time when it is.
#   make TARGET                   in .venv, made from a lock file
#   make TARGET CONDA=1           in .conda, made from environment.yml
#   make TARGET PYTHON=python3    with that interpreter and whatever is installed there; nothing is set up

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The major CUDA version of the NVIDIA driver, the CuPy extra that fits it, and the lock file that goes with that.
CUDA := $(shell nvidia-smi 2> /dev/null | sed -n 's/.*CUDA[A-Z ]*Version: *\([0-9]*\).*/\1/p')
EXTRA := $(if $(filter 12,$(CUDA)),cuda12)$(if $(filter-out 6 7 8 9 10 11 12,$(CUDA)),cuda13)
LOCK := requirements$(addprefix -,$(EXTRA)).lock

ifdef PYTHON
  RUN := PYTHONPATH="$(CURDIR)/src$${PYTHONPATH:+:$$PYTHONPATH}" $(PYTHON)
  READY := packages
else ifdef CONDA
  RUN := .conda/bin/python
  READY := .conda/.ready
else
  RUN := .venv/bin/python
  READY := .venv/.ready-$(LOCK)
endif

.PHONY: help packages book pdf notebook experiment test test-slow test-all test-sanitize test-wheel test-gpu test-gpu-sanitize mutants record canary claims benchmarks readme gains figures tune suggestion bench-reference data kernels lint format lock clean

help: ## list the targets
	@echo 'make TARGET [CONDA=1 | PYTHON=python3] [ARGS="more options"]'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# What the interpreter of PYTHON has to have, by the names of modules.
NEEDS = numpy scipy pandas numba matplotlib h5py pyarrow tqdm platformdirs
book pdf notebook: NEEDS += papermill ipykernel jupyter_book
test test-slow test-sanitize test-gpu test-gpu-sanitize mutants: NEEDS += pytest hypothesis
test test-slow test-sanitize test-gpu: NEEDS += xdist
test-wheel: NEEDS = pip hatchling numpy
lint: NEEDS = ruff mypy
format: NEEDS = ruff
lock: NEEDS = pip
define MISSING
import importlib.util, sys
missing = [name for name in sys.argv[1:] if not importlib.util.find_spec(name)]
if sys.version_info < (3, 11):
    sys.exit("$(PYTHON) is older than 3.11, which gpumf needs.")
if missing:
    sys.exit("$(PYTHON) lacks %s: install what gpumf needs with `$(PYTHON) -m pip install -e \".[book,build,data,test]\"`, "
             "or leave PYTHON away, and make sets up .venv by itself." % ", ".join(missing))
endef
export MISSING
packages:
	@command -v $(firstword $(PYTHON)) > /dev/null || { echo 'There is no $(firstword $(PYTHON)), which PYTHON names.' >&2; exit 1; }
	@$(RUN) -c "$$MISSING" $(NEEDS)

book: $(READY) ## run the notebooks that changed, render the book and print where it is
	$(RUN) book/build.py $(ARGS)

pdf: book ## print the book to build/PROFILE/book.pdf, by Chromium
	$(RUN) book/pdf.py

notebook: $(READY) ## run one notebook and render: make notebook NB=method PARAMS="-p repeats 3"
	@test -n "$(NB)" || { echo 'Say which one, as in: make notebook NB=method PARAMS="-p repeats 3"' >&2; exit 2; }
	$(RUN) book/build.py --only $(NB:.ipynb=) $(PARAMS) $(ARGS)

experiment: $(READY) ## run one experiment: make experiment NAME=sgd_netflix ARGS="--profile full epochs=5"
	@test -n "$(NAME)" || { echo 'Say which one, as in: make experiment NAME=sgd_netflix ARGS="epochs=5"' >&2; exit 2; }
	$(RUN) -m gpumf_study.experiments $(NAME) $(ARGS)

# A process a core, each with whole files. Tests with the marker `slow` (tests/conftest.py) are in `make test-all` only.
PARALLEL = -n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder
test: $(READY) ## run the quick tests (ARGS="-n 0 ...": in one process)
	$(RUN) -m pytest -m "not slow" $(PARALLEL) $(ARGS)

test-slow: $(READY) ## run the other tests: all widths, figures, the book in a browser, faults of workers
	$(RUN) -m pytest -m slow $(PARALLEL) $(ARGS)

test-all: test test-slow test-sanitize test-wheel ## run all tests, those of the kernels under sanitizers, and the wheel

# The sanitizers have to be in the process before Python, which was built without them, loads a kernel.
test-sanitize: $(READY) ## run the kernels on the CPU under AddressSanitizer and UBSan
	GPUMF_EMULATOR_SANITIZE=1 ASAN_OPTIONS=detect_leaks=0 \
	LD_PRELOAD="$$($${CXX:-g++} -print-file-name=libasan.so) $$($${CXX:-g++} -print-file-name=libstdc++.so)" \
	$(RUN) -m pytest -m "emulator and not slow" $(PARALLEL) $(ARGS)

test-wheel: $(READY) ## build the sdist and from that the wheel, and train with what it installs, away from the checkout
	$(RUN) tests/wheel.py $(ARGS)

test-gpu: $(READY) ## run the tests that need a CUDA device and record the outcome in data/results
	OMP_NUM_THREADS=2 NUMBA_NUM_THREADS=2 $(RUN) -m pytest -m gpu --record -n logical --maxprocesses 12 --dist worksteal $(ARGS)

test-gpu-sanitize: $(READY) ## run small GPU tests under compute-sanitizer and record what it finds in data/results
	$(RUN) tests/gpu_sanitize.py $(ARGS)

mutants: $(READY) ## plant single faults, one at a time, and record how many of them the tests notice
	$(RUN) tests/mutants $(ARGS)

record: $(READY) ## record one experiment (NAME=als_netflix), or what this machine lacks of this release (ARGS="--minutes 9")
	$(RUN) $(if $(NAME),-m gpumf_study.experiments $(NAME) --profile full --record,-m gpumf_study.release) $(ARGS)

canary: $(READY) ## compare ten timings with those recorded for the release on such a GPU (ARGS=--record keeps today's)
	$(RUN) -m gpumf_study.canary $(ARGS)

claims: $(READY) ## judge every claim by data/results, write claims.csv there and print it
	$(RUN) -m gpumf_study.ledger

benchmarks: $(READY) ## write goals beside measured values from data/results to data/results/benchmarks.csv
	$(RUN) -m gpumf_study.benchmarks

readme: $(READY) ## write the tables in README.md, the book and kernels/README.md from data/results
	$(RUN) book/readme.py

gains: $(READY) ## write the table of what each kernel's versions gained in kernels/README.md from data/results
	$(RUN) book/readme.py kernels/README.md

figures: $(READY) ## draw the kept figures that no page of the book shows, from data/results
	$(RUN) -m gpumf_study.figures

tune: $(READY) ## write the best parameters of the recorded search to src/gpumf_study/experiments/tuned.toml
	$(RUN) -m gpumf_study.generated $@

suggestion: $(READY) ## write what gpumf.suggest rests on, from the recorded crossovers, to src/gpumf/suggestion.toml
	$(RUN) -m gpumf_study.generated $@

bench-reference: $(READY) ## write what `gpumf bench` compares with, from the stored result of first_comparison
	$(RUN) -m gpumf_study.generated $@

data: $(READY) ## download the data sets whose licenses allow it into data/raw
	$(RUN) -m gpumf.ratings $(ARGS)

kernels: $(READY) ## compile ahead for this GPU: make kernels ARGS="100 256", numbers of factors
	$(RUN) -m gpumf compile $(ARGS)

lint: $(READY) ## check style, format and types
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy --cache-dir build/mypy

format: $(READY) ## format the code and mend what can be mended
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

# One lock for every supported Python and system; those with CuPy only add to it.
COMPILE = $(RUN) -m uv --quiet pip compile --universal --python-version 3.11 --generate-hashes --no-annotate \
	--custom-compile-command "make lock" pyproject.toml --extra book --extra build --extra data --extra distributed --extra safetensors --extra test
lock: $(READY) ## pin the dependencies of pyproject.toml again (ARGS=--upgrade for newer versions)
	$(RUN) -m pip install --quiet uv
	$(COMPILE) $(ARGS) --output-file requirements.lock
	$(COMPILE) $(ARGS) --constraints requirements.lock --extra cuda12 --output-file requirements-cuda12.lock
	$(COMPILE) $(ARGS) --constraints requirements.lock --extra cuda13 --output-file requirements-cuda13.lock

clean: ## remove everything that make has made, but not the downloaded data
	@$(call REFUSE_OTHERS,.venv)
	@$(call REFUSE_OTHERS,.conda)
	rm -rf .venv .conda build data/live .pytest_cache .ruff_cache .hypothesis
	find src tests book -name __pycache__ -prune -exec rm -rf {} +

# A folder without its .ready file is an unfinished set-up and is made from nothing; one whose lock changed is updated.

INSTALL_GPUMF = -m pip install --quiet --no-build-isolation --editable
OLD_DRIVER = $(if $(CUDA),$(if $(EXTRA),,The NVIDIA driver knows CUDA $(CUDA) only; CuPy needs 12 or newer. Going on without a GPU.))

.venv/.ready-$(LOCK): $(LOCK) pyproject.toml
	@$(FIND_PYTHON); $(ALONE); \
	if test -e $@ && ! test $(LOCK) -nt $@ && ! test pyproject.toml -nt $@; then exit; fi; \
	test -e $@ || { $(NEW_VENV); }; \
	rm -f $@; \
	echo "Installing $(LOCK) into .venv. $(OLD_DRIVER)"; \
	.venv/bin/python -m pip install --progress-bar off --requirement $(LOCK) | sed -un 's/^ *Downloading/  downloading/p'; \
	.venv/bin/python $(INSTALL_GPUMF) . --no-deps; \
	touch $@

# An environment that has no .ready file, and that no unfinished set-up has begun, is somebody's own: it stays.
define REFUSE_OTHERS
	if test -e $(1) && ! test -e build/set-up$(1) && ! ls $(1)/.ready* > /dev/null 2>&1; then \
	  echo '`make` did not set up $(1), and leaves it: move it away, or pass PYTHON=$(1)/bin/python.' >&2; exit 1; \
	fi
endef

define FIND_PYTHON
	for python in python3 python3.14 python3.13 python3.12 python3.11 ''; do \
	  $$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2> /dev/null && break; \
	done; \
	test -n "$$python" || { echo 'gpumf needs Python 3.11 to 3.14, and found none.' >&2; exit 1; }
endef

# One set-up at a time: the lock is the shell's, and goes with it. Whoever waited looks again whether all is done.
define ALONE
	test -w . || { echo '$(CURDIR) cannot be written, and `make` sets up .venv and build there: copy it to a folder that can.' >&2; exit 1; }; \
	mkdir -p build; \
	exec 9> build/set-up.lock; \
	$$python -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)' 2> /dev/null || \
	  { echo 'Waiting for another set-up of .venv.'; $$python -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'; }
endef

# Debian and Ubuntu keep what `python -m venv` needs in a package of its own.
define NEW_VENV
	if ! $$python -c 'import ensurepip' 2> /dev/null; then \
	  package=$$($$python -c 'import sys; print("python{}.{}-venv".format(*sys.version_info))'); \
	  if test "$$(id -u)" = 0 && command -v apt-get > /dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$package > /dev/null; \
	  else \
	    echo "$$python cannot make a virtual environment: install the package $$package and try again." >&2; \
	    exit 1; \
	  fi; \
	fi; \
	$(call REFUSE_OTHERS,.venv); \
	touch build/set-up.venv; rm -rf .venv; \
	$$python -m venv .venv
endef

.conda/.ready: environment.yml pyproject.toml
	@conda=$$(command -v micromamba || command -v mamba || command -v conda) || \
	  { echo 'CONDA=1 needs conda, mamba or micromamba on the PATH, and found none.' >&2; exit 1; }; \
	$(call REFUSE_OTHERS,.conda); \
	mkdir -p build; touch build/set-up.conda; rm -rf .conda; \
	CONDA_ALWAYS_YES=1 MAMBA_ALWAYS_YES=1 "$$conda" env create --prefix ./.conda --file environment.yml
	@echo "Installing gpumf into .conda. $(OLD_DRIVER)"
	@.conda/bin/python $(INSTALL_GPUMF) ".$(EXTRA:%=[%])"
	@touch $@
