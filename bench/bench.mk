# The CPU benchmark: see bench/README.md.

BENCH_DATA ?= build/bench-data
BENCH_VENV ?= build/bench-venv
BENCH_PYTHON ?= python3
BENCH_OUT ?= build/bench
BENCH_SIZE ?= 4096
BENCH_OPTIONS ?= --rounds 5 --seconds 0.1 --patience 60
BENCH_GPU_PYTHON ?= python3
BENCH_NVTIFF ?=
BENCH_RUN = $(BENCH_VENV)/bin/python bench/run.py --data $(BENCH_DATA)
BENCH_MAKE_DATA = $(BENCH_VENV)/bin/python bench/make_data.py --data $(BENCH_DATA)

.PHONY: bench bench-full bench-gpu bench-rivals bench-write bench-remote bench-worker

bench: $(BENCH_VENV)/ready bench-worker ## tiffjet against its rivals on the CPU: table, plot and record in build/; 34 files, about 20 minutes on two busy cores
	$(BENCH_MAKE_DATA) --size $(BENCH_SIZE) --set small
	$(BENCH_RUN) --sizes $(BENCH_SIZE) --set small $(BENCH_OPTIONS) --out $(BENCH_OUT).json
	$(BENCH_VENV)/bin/python bench/report.py $(BENCH_OUT).json | tee $(BENCH_OUT).md
	$(BENCH_VENV)/bin/python bench/plot.py $(BENCH_OUT).json > $(BENCH_OUT).svg

bench-full: $(BENCH_VENV)/ready bench-worker bench-write bench-gpu ## the same on every file, 4096 and 8192, writing, and a GPU where there is one: hours, about 25 GB of disk
	$(BENCH_MAKE_DATA) --size 4096 --set full
	$(BENCH_MAKE_DATA) --size 8192 --set full
	$(BENCH_RUN) --sizes 4096,8192 --set full --rounds 9 --out $(BENCH_OUT)-full.json
	$(BENCH_VENV)/bin/python bench/report.py $(BENCH_OUT)-full.json | tee $(BENCH_OUT)-full.md
	$(BENCH_VENV)/bin/python bench/plot.py $(BENCH_OUT)-full.json > $(BENCH_OUT)-full.svg

# Rivals on a GPU are those of the Python that is named: CuPy, tifffile, rasterio, xarray-spatial and cog3pio are found or left
# out. BENCH_NVTIFF= names the folder with include and lib of nvTIFF.
bench-gpu: ## reading on a GPU, where there is one, against nvTIFF, xarray-spatial, tifffile and rasterio with CuPy (BENCH_GPU_PYTHON=)
	@if ! nvidia-smi -L 2> /dev/null; then echo "no GPU here: left out"; exit 0; fi; \
	cargo build --release -p tiffjet-cuda --examples; \
	$(BENCH_GPU_PYTHON) bench/gpu/read.py --data $(BENCH_DATA)-gpu --out $(BENCH_OUT)-gpu-read.json \
	    --tiffjet target/release/examples/read_bench --check target/release/examples/corpus $(if $(BENCH_NVTIFF),--nvtiff $(BENCH_NVTIFF)); \
	$(BENCH_GPU_PYTHON) bench/plot.py $(BENCH_OUT)-gpu-read.json > $(BENCH_OUT)-gpu-read.svg

bench-rivals: $(BENCH_VENV)/ready ## the rivals alone, 2048 x 2048: a minute or two, to try the benchmark itself
	$(BENCH_MAKE_DATA) --size 2048 --set small
	$(BENCH_RUN) --sizes 2048 --set small --rivals-only --rounds 3 --retries 0 --seconds 0.05 --out $(BENCH_OUT)-rivals.json
	$(BENCH_VENV)/bin/python bench/report.py $(BENCH_OUT)-rivals.json | tee $(BENCH_OUT)-rivals.md

bench-write: $(BENCH_VENV)/ready bench-worker ## writing, against GDAL, rio-cogeo, tifffile and xarray-spatial: about 30 minutes on two quiet cores
	$(BENCH_VENV)/bin/python bench/write.py --data $(BENCH_DATA) --sizes 4096 --out $(BENCH_OUT)-write.json
	$(BENCH_VENV)/bin/python bench/write.py --data $(BENCH_DATA) --sizes 8192 --sources dem --out $(BENCH_OUT)-write-8192.json
	$(BENCH_VENV)/bin/python bench/write.py --data $(BENCH_DATA) --sizes 4096 --memory --out $(BENCH_OUT)-write-memory.json

bench-remote: $(BENCH_VENV)/ready servers wheel ## remote COGs, against GDAL, async-geotiff and xarray-spatial: requests, bytes, milliseconds
	$(BENCH_VENV)/bin/pip install --quiet --force-reinstall --no-deps $(BUILD)/wheels/tiffjet-*.whl
	$(BENCH_VENV)/bin/python -P bench/remote.py --data $(BENCH_DATA)-remote --out $(BENCH_OUT)-remote.json

bench-worker:
	cargo build --release -p tiffjet-bench -p tiffjet-cli

$(BENCH_VENV)/ready: bench/requirements.txt bench/install.py
	$(BENCH_PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/python bench/install.py
	touch $@
