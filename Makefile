# Two commands do all the set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
JOBS   ?= 2
CODE   := src tests benchmarks examples docs/make docs/pictures .ci
TESTS  ?= tests src
# Flower holds several libraries at one version, so the ends of the ranges are tried without it.
WITHOUT_FLOWER := --doctest-ignore-import-errors --ignore=tests/engines/flower \
	--ignore=tests/deployment/test_cluster.py --ignore=tests/cli/test_deploy.py

.PHONY: help demo test test-cluster test-slow test-lowest test-newest lint types imports bench bench-full docs dist clean

help:
	@echo "make demo       a private mean and a private model over five parties, in a minute"
	@echo "make test       everything that should hold, in a few minutes"
	@echo "make test-cluster  a real server with TLS, and parties that join it"
	@echo "make test-slow  the tests that take longer, and both ends of the versions allowed"
	@echo "make test-lowest, make test-newest  one end only; TESTS=tests/cli for a part"
	@echo "make lint       style, types and import directions"
	@echo "make bench      the scorecard against peers, in 20 minutes; ONLY=ledger for a part"
	@echo "make bench-full the same in full, which takes hours; goes on where it was stopped"
	@echo "make docs       the documentation as a folder of pages"
	@echo "make dist       the wheel"

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[flower,test]"
	@touch $@

demo: $(STAMP)
	$(BIN)/python examples/demo.py

test: $(STAMP) lint
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal

test-cluster: $(STAMP)
	$(BIN)/python -m pytest -q -m cluster tests/deployment/test_cluster.py

test-slow: $(STAMP) test-lowest test-newest
	$(BIN)/python -m pytest -q -m slow
	XLA_FLAGS= $(BIN)/python -m pytest -q -m "" tests/golden tests/attacks/test_neighbours.py tests/engines/test_conformance.py \
		--deselect tests/attacks/test_neighbours.py::test_nor_is_any_of_a_million

test-lowest test-newest: test-%: $(STAMP)
	$(PYTHON) -m venv --clear build/$*
	$(BIN)/python .ci/lowest.py > build/oldest.txt
	build/$*/bin/python -m pip install --quiet --disable-pip-version-check \
		$(if $(filter lowest,$*),--constraint build/oldest.txt) -e ".[test]"
	build/$*/bin/python -m pytest -q -n $(JOBS) --dist worksteal $(WITHOUT_FLOWER) $(TESTS)

lint: $(STAMP)
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports

# Peers get environments of their own under build/peers. AGAIN=1 measures anew what has been measured.
bench bench-full: $(STAMP)
	$(BIN)/python benchmarks/run.py $(if $(filter bench-full,$@)$(FULL),--full) $(if $(AGAIN),--again) $(ONLY)

docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	$(BIN)/mkdocs build --strict

dist: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build
	$(BIN)/python -m build

clean:
	rm -rf build dist site demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
