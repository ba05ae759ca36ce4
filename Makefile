# Two commands do all set-up: `make demo` and `make test`. What the system itself must offer is named when it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := .venv-peers
SAMPLES := tests/samples/documents
FILINGS ?= ../shared/data/documents/english
export DO_NOT_TRACK := 1

.PHONY: setup demo test fast check bench clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Trivet needs Python 3.11 or newer; set PYTHON=…"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' || { echo "Python lacks venv: install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[cpu,dev]'
	@touch $@

demo: export TRIVET_HOME := $(CURDIR)/build/demo/home
demo: $(READY)
	$(BIN)/trivet rag index $(SAMPLES) --index build/demo/index --metadata $(SAMPLES)/metadata.csv --vlm scripted || [ $$? = 3 ]
	$(BIN)/trivet rag search "가람시 지능형 교통신호 통합관제시스템 구축 사업 예산은 얼마인가?" --index build/demo/index --top-k 2
	$(BIN)/trivet rag search "What was Calder Ridge's operating income in fiscal 2023?" --index build/demo/index --top-k 2
	$(BIN)/trivet rag eval tests/samples/questions.jsonl --index build/demo/index
	$(BIN)/trivet rag index $(SAMPLES) --index build/demo/index --metadata $(SAMPLES)/metadata.csv --vlm scripted || [ $$? = 3 ]
	@$(BIN)/trivet db stop

test: $(READY)
	@command -v tesseract >/dev/null || echo "tesseract is missing: tests of scanned pages are skipped (install tesseract-ocr and tesseract-ocr-kor)"
	$(BIN)/pytest

fast: $(READY)
	$(BIN)/pytest -m "not engine and not postgres and not drill and not browser and not slow and not shared"

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo

bench: $(READY) $(PEERS)/.ready
	$(BIN)/python -m tests.benchmarks --documents $(FILINGS) --peers $(CURDIR)/$(PEERS)/bin/python

# the peers borrow torch and transformers from our environment: equal versions on both sides, and no second download
$(PEERS)/.ready: tests/benchmarks/peers/requirements.txt $(READY)
	$(PYTHON) -m venv $(PEERS)
	$(BIN)/python -c 'import site; print(site.getsitepackages()[0])' > $$($(PEERS)/bin/python -c 'import site; print(site.getsitepackages()[0])')/borrowed.pth
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r $<
	@touch $@

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache
