# Two commands do everything:   make report   and   make test
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
NBVAL := --nbval --nbval-current-env --nbval-cell-timeout=1800
PARALLEL := -n 2 --dist loadfile --no-loadscope-reorder  # the cells of a notebook stay together

.PHONY: setup help report test lint types unit nbval nbval-matrix browser-test notebooks audit handout handout-test grade damage bench clean

setup: $(READY)  # install everything into .venv

$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; this is " + sys.version.split()[0])'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --editable ".[dev]"
	@touch $@

help:  # list these targets
	@sed -nE 's/^([a-z-]+):.*  # (.*)/\1\t\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F '\t' '{printf "make %-14s %s\n", $$1, $$2}'

report: $(READY)  # run the notebooks and make report.pdf; also QUICK=1, CODE=1, NOTEBOOKS="problem1 problem2"
	$(BIN)/python notebooks/tools/run.py $(NOTEBOOKS) $(if $(filter-out 0,$(CODE)),--code)

test: lint types  # everything that can be checked in minutes
	$(BIN)/python -m pytest $(PARALLEL) $(NBVAL) tests notebooks

lint: $(READY)  # style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)  # do the types of all signatures fit together?
	$(BIN)/mypy

unit: $(READY)  # the unit tests
	$(BIN)/python -m pytest $(PARALLEL) tests

nbval: $(READY)  # do the notebooks still print what is stored in them?
	$(BIN)/python -m pytest $(PARALLEL) $(NBVAL) notebooks

nbval-matrix: $(READY)  # and on other machines? One core, two cores, again, another CPU's arithmetic; takes long
	$(BIN)/python notebooks/tools/nbval_matrix.py $(NOTEBOOKS)

browser-test: .venv/.browser  # run the notebooks in JupyterLab in Chromium, in quick mode, and try the explorers
	$(BIN)/python -m pytest --capture=no notebooks/tools/browser.py

.venv/.browser: $(READY)
	$(BIN)/python -m pip install --editable ".[browser]"
	@touch $@

notebooks: $(READY)  # renew the outputs stored in the notebooks
	$(BIN)/python notebooks/tools/run.py --in-place

audit: $(READY)  # look for the usual mistakes in HANDIN=a folder with somebody's results
	$(BIN)/python -m course.audit "$(HANDIN)"

handout: $(READY)  # the course edition: handout/student goes to students, handout/teacher stays with you
	$(BIN)/python -m course.edition.handout

handout-test: $(READY)  # does the handout run in a new environment with nothing but its own requirements? Installs them
	FRESH=1 $(BIN)/python -m pytest tests/course/edition/test_handout.py

grade: $(READY)  # points and sentences for SUBMISSIONS=a folder of zips, written to grades/ (OUTPUT=...)
	$(BIN)/python -m course.edition.grade "$(SUBMISSIONS)" --output "$(or $(OUTPUT),grades)"

damage: $(READY)  # are a hundred notebooks, damaged at random, graded? takes long
	$(BIN)/python -m course.edition.damage

bench: $(READY)  # what things cost, as ratios measured in one interleaved run
	$(BIN)/python -W ignore -m problem1.bench
	$(BIN)/python -m problem2.bench

clean:  # remove what was made, never what was written
	rm -rf .venv handout report report-quick report.pdf report-quick.pdf problem*/results problem*/results-quick
	rm -rf build *.egg-info .pytest_cache .ruff_cache .mypy_cache
	find . \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +
