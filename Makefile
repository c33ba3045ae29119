# Every target sets itself up from nothing: a Python 3.11 or newer is all it needs.
#
#   make demo    index some photographs, ask, and serve the search page
#                (FOLDER="…" adds yours, SERVE=0 ends after the answers, PORT=… another port)
#   make sample  train on eighteen captioned photographs, evaluate, and show what comes out
#   make test    set up, check, and run every test but the ones that need a GPU
#   make test-long  the same with the long forms: more examples, more kills, every caption
#   make check   the linters, the types, the generated documentation and the site
#   make docs    write docs/reference and docs/results again, from the code and the benchmarks
#   make site    build the documentation as a website, into site/
#   make wheel   build the package, into dist/
#   make setup   only the environment, in .venv
#   make clean   remove .venv and everything the tools left behind
#
# Another Python: make test PYTHON=python3.12

PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
# Bytecode is kept: without it every command would compile its packages anew.
IN_VENV := VIRTUAL_ENV="$(CURDIR)/$(VENV)" PATH="$(CURDIR)/$(VENV)/bin:$$PATH" \
  PYTHONDONTWRITEBYTECODE=

.PHONY: setup demo sample test test-long check docs site wheel clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt scripts/setup
	@PYTHON="$(PYTHON)" scripts/setup $(VENV) dev
	@touch $(READY)

demo: setup
	@$(IN_VENV) scripts/demo $(FOLDER)

sample: setup
	@$(IN_VENV) scripts/train_sample

check: setup
	@$(IN_VENV) scripts/check

test: setup
	@browser="$$(scripts/browser)" && \
	  $(IN_VENV) AVOW_CHROMIUM="$$browser" scripts/verify

test-long: setup
	@browser="$$(scripts/browser)" && \
	  $(IN_VENV) AVOW_CHROMIUM="$$browser" AVOW_LONG_TESTS=1 scripts/verify -m "not gpu"

docs: setup
	@$(IN_VENV) scripts/docs

site: setup
	@$(IN_VENV) scripts/site

wheel: setup
	@$(IN_VENV) python -m pip wheel -qq --disable-pip-version-check --no-deps -w dist .
	@ls dist/*.whl

clean:
	rm -rf $(VENV) build dist site *.egg-info .pytest_cache .ruff_cache .hypothesis
	find avow tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
