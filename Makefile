# make test: everything the project promises, in a fresh .venv.  make demo: what it does.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: test coverage demo lint docs integrations bench storm clean

$(BIN)/.installed: pyproject.toml paper/pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[dev]' -e './paper[cluster]'
	touch $@

test: $(BIN)/.installed
	$(BIN)/python -m pytest -q -rs -n 2 --dist loadfile

# The same with a look at which lines ran, which takes a fifth longer.
coverage: $(BIN)/.installed
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --cov --cov-report=term:skip-covered

demo: $(BIN)/.installed
	$(BIN)/dbsurf demo

lint: $(BIN)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Only what the documentation needs: the code is read, not run, so torch is not installed.
.venv-docs/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-docs
	$(PYTHON) -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['docs'], sep='\n')" > .venv-docs/needs.txt
	.venv-docs/bin/python -m pip install -q -c constraints.txt -r .venv-docs/needs.txt
	touch $@

docs: .venv-docs/.installed
	PYTHONPATH=tools NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build -q --strict

# Pyro, transformers, TRL, Lightning and others. torch comes first, so that none of them chooses it.
.venv-integrations/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-integrations
	.venv-integrations/bin/python -m pip install -q -c constraints.txt torch==2.13.0
	.venv-integrations/bin/python -m pip install -q -c constraints.txt -e '.[test,integrations]'
	touch $@

integrations: .venv-integrations/.installed
	.venv-integrations/bin/python -m pytest -q tests/integrations src/dbsurf/integrations

bench: $(BIN)/.installed
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/vae.py
	$(BIN)/python benchmarks/supernet.py

MINUTES ?= 10
SEED ?= 0
OUT ?= runs/storm.json
storm: $(BIN)/.installed
	PYTHONPATH=tests:paper/tests OMP_NUM_THREADS=1 nice -n 10 $(BIN)/python -m storm --minutes $(MINUTES) --seed $(SEED) --out $(OUT)

clean:
	rm -rf .venv .venv-docs .venv-integrations site runs
