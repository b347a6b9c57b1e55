# From a fresh clone: `make run` gives a daemon, `make test` runs all tests. Both make the virtual environment first.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/installed
# Spark and a Java take half a gigabyte: only what needs them waits for them.
SPARK  := $(VENV)/installed-spark
# Command line for run, test and bench: make run ARGS="--data-dir elsewhere", make test ARGS=tests.test_config
ARGS   ?=

# The checkout comes first on the path, so that what is run, tested and checked is what lies here.
export PYTHONPATH := $(CURDIR)

SOURCES := streamd pyspark_streamd tests benchmarks docs/examples setup.py twisted/plugins/streamd_plugin.py

.PHONY: help run test lint format bench completion clean
.DEFAULT_GOAL := help

help:
	@echo 'make run     run the daemon in the foreground  (ARGS: options, see make run ARGS=--help)'
	@echo 'make test    run all tests under trial         (ARGS: modules or classes instead of all)'
	@echo 'make lint    ruff and mypy --strict'
	@echo 'make format  let ruff rewrite what make lint would complain of'
	@echo 'make bench   run the benchmarks                (ARGS: see make bench ARGS=--help)'
	@echo 'make completion   write what shells know of streamctl anew'
	@echo 'make clean   remove everything that was made, but not your data'

# Dependencies are installed again only when setup.py says so.
$(STAMP): setup.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

$(SPARK): $(STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[dev,spark]'
	@touch $@

run: $(STAMP)
	exec $(BIN)/twistd -n --pidfile= streamd $(ARGS)

test: $(SPARK)
	$(BIN)/python -m tests $(ARGS)

lint: $(SPARK)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy --strict $(SOURCES)

format: $(STAMP)
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

bench: $(SPARK)
	$(BIN)/python -m benchmarks $(ARGS)

completion: $(STAMP)
	$(BIN)/python -m streamd.cli.completion etc/completion

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .hypothesis .trial _trial_temp*
	rm -f twisted/plugins/dropin.cache twistd.log*
	find streamd pyspark_streamd tests benchmarks twisted -name __pycache__ -type d -prune -exec rm -rf {} +
