# From a fresh clone: `make run` gives a daemon, `make test` runs all tests. Both make the virtual environment first.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/installed
# Spark and a Java take a gigabyte: only what needs them waits for them.
SPARK  := $(VENV)/installed-spark
# Java's classes, for tests: Spark starts in half the time with them.
CLASSES := $(VENV)/spark.jsa
FUZZER := $(VENV)/fuzzer
# Command line for run, test, bench and fuzz: make run ARGS="--data-dir elsewhere", make test ARGS=tests.test_config
ARGS   ?=
# How long make fuzz takes for each target.
SECONDS ?= 60

# The checkout comes first on the path, so that what is run, tested and checked is what lies here.
export PYTHONPATH := $(CURDIR)

SOURCES := streamd pyspark_streamd tests benchmarks fuzz docs/examples etc/pipelines packaging/try.py setup.py \
	twisted/plugins/streamd_plugin.py

.PHONY: help run test test-browser lint format bench fuzz completion clean
.DEFAULT_GOAL := help

help:
	@echo 'make run     run the daemon in the foreground  (ARGS: options, see make run ARGS=--help)'
	@echo 'make test    run all tests under trial         (ARGS: modules or classes instead of all)'
	@echo 'make test-browser   the dashboard in Chromium   (part of make test where there is one)'
	@echo 'make lint    ruff and mypy --strict'
	@echo 'make format  let ruff rewrite what make lint would complain of'
	@echo 'make bench   run the benchmarks                (ARGS: see make bench ARGS=--help)'
	@echo 'make fuzz    fuzz the codecs and file decoders (SECONDS: for each target, ARGS: one target)'
	@echo 'make completion   write what shells know of streamctl anew'
	@echo 'make clean   remove everything that was made, but not your data'

# Dependencies are installed again only when setup.py says so.
$(STAMP): setup.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

$(SPARK): $(STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[dev,pipelines]'
	@touch $@

run: $(STAMP)
	exec $(BIN)/twistd -n --pidfile= streamd $(ARGS)

$(CLASSES): $(SPARK) tests/rigs/spark/java.py
	@rm -f $@
	@$(BIN)/python -m tests.rigs.spark.java $(abspath $@) >/dev/null 2>&1 || echo 'Java keeps no classes: the tests take longer'
	@touch $@

test: $(CLASSES)
	$(BIN)/python -m tests $(ARGS)

# Needs Debian's packages chromium and chromium-driver, or the like: fails without, where make test says so and goes on.
test-browser: $(STAMP)
	$(BIN)/python -m tests tests.http.test_http_browser.BrowserTests

lint: $(SPARK)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy --strict $(SOURCES)

format: $(STAMP)
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

bench: $(SPARK)
	$(BIN)/python -m benchmarks $(ARGS)

# Atheris has wheels for some versions of Python on Linux, and takes a build of clang where there is none.
$(FUZZER): $(STAMP)
	@$(BIN)/python -m pip install --quiet --only-binary atheris --editable '.[fuzz]' || { \
	echo "make fuzz: no wheel of Atheris for $$($(BIN)/python -VV) on $$(uname -sm)." \
	"Name a version that has one: make fuzz PYTHON=python3.12 VENV=.venv-fuzz"; exit 1; }
	@touch $@

fuzz: $(FUZZER)
	$(BIN)/python -m fuzz --seconds $(SECONDS) $(ARGS)

completion: $(STAMP)
	$(BIN)/python -m streamd.cli.completion etc/completion

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .hypothesis .trial* _trial_temp*
	rm -f twisted/plugins/dropin.cache twistd.log*
	find streamd pyspark_streamd tests benchmarks fuzz twisted -name __pycache__ -type d -prune -exec rm -rf {} +
