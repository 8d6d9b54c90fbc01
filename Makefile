# `make demo` and `make test` do all their own setup.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RELEASE_PYTHONS ?= python3.11 python3.12 python3.13
export HF_HUB_OFFLINE := 1

.PHONY: help demo serve conceptnet commonsense starter-model plots docs docs-serve test notebooks test-long test-s3 check format lock lock-lowest release release-check clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(READY): requirements.lock pyproject.toml reproduction/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "mhgrn needs Python 3.11 or newer; found $$($(PYTHON) --version). Choose another one: make demo PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --editable . --editable reproduction
	@touch $(READY)

demo: $(READY)  ## build the starter graph, train on it, answer three new questions
	$(BIN)/mhgrn demo

serve: $(READY)  ## ask the built-in model in a browser
	$(BIN)/mhgrn serve

conceptnet: $(READY)  ## build a graph from half a million ConceptNet facts and WordNet in build/conceptnet/graph (needs npm)
	$(BIN)/mhgrn fetch conceptnet-subset --with wordnet --to build/conceptnet
	$(BIN)/mhgrn kg build build/conceptnet/conceptnet-subset.tsv.gz build/conceptnet/wordnet.tsv.gz --schema conceptnet -o build/conceptnet/graph --force

commonsense: $(READY)  ## make a model from that graph alone, for `mhgrn ask commonsense`; resumable
	@test -f build/conceptnet/graph/graph.json || $(MAKE) conceptnet
	$(BIN)/mhgrn commonsense build/conceptnet/graph

starter-model: $(READY)  ## train the built-in model again and put it into the package
	$(BIN)/python -m mhgrn.starter

plots: $(READY)  ## draw the pictures of accuracy, speed and an answer again, from the results and the built-in model
	$(BIN)/mhgrn reproduce plots --results reproduction/results -o docs/images
	$(BIN)/mhgrn ask starter "After hours of heavy rain, what do you find on the street?" -c puddle -c umbrella -c desert -c cloud -c car \
		--by attention --json | $(BIN)/python docs/answer_figure.py docs/answer.svg

docs: $(READY)  ## build the documentation site in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: $(READY)  ## serve the documentation site, rebuilt after each change
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

test: check  ## check style, types and imports, run the tests
	$(BIN)/pytest -n 2 --dist worksteal -m "not long"

notebooks: $(READY)  ## run the notebooks of the documentation from a clean kernel
	$(BIN)/pytest --nbmake docs/notebooks

test-long: check  ## `make test` plus the tests that take minutes
	$(BIN)/pytest -n 2 --dist worksteal --hypothesis-profile=thorough

test-s3: $(READY)  ## run the tests of s3:// against an S3 server on this machine, with packages in build/s3
	$(BIN)/python -m pip install --quiet --upgrade --target build/s3 s3fs==2026.9.0 'moto[s3,server]==5.2.5'
	PYTHONPATH=build/s3 $(BIN)/pytest tests/io/test_s3.py

check: $(READY)  ## check style, types and import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock:  ## pin the newest versions that both distributions allow
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]' --editable reproduction
	build/lock/bin/python -m pip freeze --exclude-editable --exclude pip --exclude setuptools | sed 's/+cpu//' > requirements.lock
	rm -rf build/lock

lock-lowest:  ## pin the oldest versions that the dependencies allow (needs uv)
	uv pip compile --quiet --resolution lowest-direct --python-version 3.11 --index-strategy unsafe-best-match --no-annotate --no-header \
		--constraint constraints.txt pyproject.toml | grep -vE '^(nvidia|cuda|triton)' > requirements-lowest.lock

release:  ## build wheel and sdist, check them in clean environments, one for each Python version that is installed
	rm -rf dist build/release && mkdir -p build/release
	$(PYTHON) -m venv build/release/tools
	build/release/tools/bin/pip install --quiet build twine
	build/release/tools/bin/python -m build --outdir dist .
	build/release/tools/bin/twine check --strict dist/*
	@for python in $(RELEASE_PYTHONS); do \
		found=; \
		for place in $$(command -v $$python) $$HOME/.pyenv/versions/$${python#python}.*/bin/python; do \
			if [ -z "$$found" ] && "$$place" -c 'import venv' 2>/dev/null; then found=$$place; fi; \
		done; \
		if [ -z "$$found" ]; then echo "$$python: not installed, not checked"; continue; fi; \
		$(MAKE) --no-print-directory release-check PYTHON=$$found ENVIRONMENT=$$python REQUIREMENTS=requirements.lock || exit 1; \
	done
	$(MAKE) --no-print-directory release-check ENVIRONMENT=lowest REQUIREMENTS=requirements-lowest.lock

release-check:
	$(PYTHON) -m venv build/release/$(ENVIRONMENT)
	build/release/$(ENVIRONMENT)/bin/pip install --quiet --constraint $(REQUIREMENTS) dist/*.whl
	cd build/release && XDG_CACHE_HOME=$$PWD/cache-$(ENVIRONMENT) $(ENVIRONMENT)/bin/mhgrn ask starter "Where would a child sit at a desk?" -c classroom -c moon
	@echo "$(ENVIRONMENT): the wheel installs and answers"

clean:  ## delete the virtual environment and build folders
	rm -rf $(VENV) build dist
