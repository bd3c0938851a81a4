# `make demo` and `make test` do all their set-up themselves.
VENV ?= .venv
PORT ?= 7860
BIN := $(VENV)/bin
CHROMIUM := $(or $(DFLASH_VIZ_CHROMIUM),/usr/bin/chromium)

.PHONY: install weights demo lint test test-engines test-others fast bench record clean

install: $(VENV)/.engine
$(VENV)/.engine: requirements-engine-cpu.txt scripts/install.sh
	scripts/install.sh $(VENV)
	touch $@

$(VENV)/.dev: $(VENV)/.engine requirements-dev.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -r requirements-dev.txt
	touch $@

$(CHROMIUM):
	apt-get update -q && apt-get install -y -q chromium

weights: install  ## convert the embedded target once
	$(BIN)/python -m dflash_viz.weights embedded

demo: weights  ## start the app
	$(BIN)/python app.py --port $(PORT)

lint: $(VENV)/.dev
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

test:  ## everything: real engines, real browser
	@$(MAKE) --no-print-directory -j2 $(CHROMIUM) $(VENV)/.dev
	@$(MAKE) --no-print-directory -j2 -Oline test-engines test-others

test-engines: weights
	$(BIN)/python -m pytest -m "engine and not browser"
	$(BIN)/python -m pytest -m "engine and browser"
	$(BIN)/python -m pytest -m "not browser and not engine" tests/lanes

# Beside the engines: the first of these tests wait for a browser more than they compute, and the others, some
# of which need the weights, come when the weights are there. Those of the lanes go with the engines: so both
# halves take about as long.
test-others: lint
	$(BIN)/python -m pytest -m "browser and not engine" -p no:cacheprovider
	$(BIN)/python -m pytest -m "not browser and not engine" --ignore tests/lanes -p no:cacheprovider

fast: lint  ## the tests that need neither engine nor browser
	$(BIN)/python -m pytest -m "not engine and not browser"

bench: weights  ## decode speed with and without drafter and hooks
	$(BIN)/python -m dflash_viz.bench.speed

record: weights  ## record the gallery again; nothing else may run meanwhile
	$(BIN)/python -m dflash_viz.bench.record

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
