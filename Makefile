# Every target does its own set-up: python3 (3.11 or newer), git and make are enough.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: demo test check bench clean

demo: $(READY)
	$(BIN)/python examples/demo.py

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow"

check: $(READY)
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m slow
	$(BIN)/python tests/mutants/run.py

bench: $(READY)
	$(BIN)/python benchmarks/sampling.py
	$(BIN)/python benchmarks/exact.py
	$(BIN)/python benchmarks/completion.py
	$(BIN)/python benchmarks/solving.py --problems cartpole --variants default full

clean:
	rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml
	@echo "Installing hamq and its tools into .venv (some minutes the first time)"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -qq --disable-pip-version-check -e ".[dev,plot,deep,bench,gym,mujoco,docs,tensorboard]"
	@touch $@
