# Every target does its own set-up: python3 (3.11 or newer), git and make are enough.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: demo test lint unit check docs examples bench bench-full faults clean

demo: $(READY)
	$(BIN)/python examples/demo.py

test: $(READY)
	@$(MAKE) --no-print-directory -j 2 lint unit

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

unit: $(READY)
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow"

# After `make test`: the mutants' tests are not run without a bug again. The emitters are those of XLA that users have.
check: $(READY)
	HAMQ_TEST_EMITTERS=default $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "slow or bits"
	$(BIN)/python tests/mutants/run.py --tested

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The four scripts of docs/, each within a minute; `make check` runs them as tests/test_examples.py, and the docs as test_docs.py.
examples: $(READY)
	$(BIN)/python examples/cartpole.py
	$(BIN)/python examples/unnormalized.py
	$(BIN)/python examples/thousand_actions.py
	$(BIN)/python examples/gymnasium_policy.py

# Against the peers: minutes, or half an hour. Both write docs/benchmarks.md; `python -m benchmarks.run --check` compares with the record.
bench: $(READY)
	$(BIN)/python -m benchmarks.run

bench-full: $(READY)
	$(BIN)/python -m benchmarks.run --full

# Kills, full disks, damaged files, nonsense to read: half an hour. Writes docs/reliability.md from its record.
faults: $(READY)
	$(BIN)/python -m faults.run

clean:
	rm -rf .venv build dist site .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml
	@echo "Installing hamq and its tools into .venv (some minutes the first time)"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -qq --disable-pip-version-check -e ".[dev,plot,deep,bench,gym,mujoco,docs,tensorboard]"
	@touch $@
