# make test: everything the project promises, in a fresh .venv.  make demo: what it does.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: test demo lint docs bench storm clean

$(BIN)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[dev]'
	touch $@

test: $(BIN)/.installed
	$(BIN)/python -m pytest -q --cov --cov-report=term:skip-covered

demo: $(BIN)/.installed
	$(BIN)/dbsurf demo

lint: $(BIN)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(BIN)/.installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q --strict

bench: $(BIN)/.installed
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/vae.py
	$(BIN)/python benchmarks/supernet.py

MINUTES ?= 10
SEED ?= 0
storm: $(BIN)/.installed
	PYTHONPATH=tests OMP_NUM_THREADS=1 nice -n 10 $(BIN)/python -m storm --minutes $(MINUTES) --seed $(SEED)

clean:
	rm -rf .venv site runs
