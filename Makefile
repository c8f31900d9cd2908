# Every target makes its own environment in .venv, once. `make demo` and `make test` are all a newcomer needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --quiet --quiet --disable-pip-version-check

.PHONY: demo test lint docs dist bench clean

demo: $(VENV)/.installed
	$(BIN)/vadd demo --out runs/demo

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# A wheel, installed and used where nothing of the repository can help.
dist: $(VENV)/.installed-dev
	rm -rf build dist
	$(BIN)/python -m build --wheel --outdir dist .
	$(BIN)/python tools/check_wheel.py

bench: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/paper_scale.py

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './runs/*' -prune -exec rm -rf {} +

$(VENV)/.installed: pyproject.toml constraints.txt
	@echo "Setting up $(VENV) (once; torch is large)"
	@$(PYTHON) -c 'import sys; sys.exit("vadd needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --constraint constraints.txt torch==2.13.0
	@$(PIP) install --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@$(PIP) install --constraint constraints.txt --editable '.[dev,images,tables,text]'
	@touch $@
