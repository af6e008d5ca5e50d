# PSTStream: `make help` lists the targets. Needs Python 3.11, Java 17 and make; everything else is installed into .venv.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
DONE := $(VENV)/.done
BENCHES ?= kernel end-to-end steady-state growth
RESULTS := kernel growth ingest end-to-end steady-state freshness hostile soak year calibrate planning planners planners-large paper-model planner-options phase-one paper-job paper-job-uk planner-latency scalability peers questions knn topk balance-select balance-cost balance-mapping balance-methods-1m balance-methods-5m balance-methods-10m migration drift
SCALE ?= small
TIMES ?= 20
PYTEST := $(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder
# Four processes keep two cores busy: tests of servers, Airflow, Spark and browsers wait half of their time.

MAKEFLAGS += --jobs=2
# The types are checked while the kernels compile.

.DEFAULT_GOAL := help
.PHONY: help setup s3a-jars demo docs test test-deep test-benchmarks test-pyspark-4.1 test-days test-hosts test-s3 fuzz chaos lint style types format lock airflow image-steps test-image package-check audit bench peers results clean

help:  ## list the targets
	@grep -hE '^[a-z0-9.-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

setup: $(DONE)/kernels $(DONE)/jars  ## create .venv with packages, jars and compiled kernels; returns at once when nothing changed

s3a-jars: $(DONE)/project  ## fetch the jars by which Spark SQL reads and writes a home in a bucket
	$(BIN)/python -m pststream.cli.fetch_jars --s3a

demo: setup  ## run the main job end to end on built-in data and write a report
	$(BIN)/pststream demo

test: setup lint  ## run all checks and the first tier of tests: each promise once
	$(PYTEST) -m "not deep and (not slow or promise) and not days and not chaos and not hosts"

test-deep: setup  ## run the second tier of tests: more cases of each promise, clusters, all DAGs
	$(PYTEST) -m "(deep or (slow and not promise)) and not days and not chaos and not hosts" \
		--ignore-glob='*benchmark*'

test-benchmarks: setup  ## run all tests of benchmarks (the first tier has one of each promise)
	$(PYTEST) -m "not hosts" tests/unit/benchmarks tests/unit/answers/test_benchmarks.py \
		tests/unit/search/test_questions_benchmark.py $(wildcard tests/spark/test_*benchmark*.py)

test-pyspark-4.1: setup  ## run the conformance tests of the engine with PySpark 4.1
	test -d $(VENV)/pyspark-4.1 || $(BIN)/pip install --quiet --no-deps --require-hashes \
		--target $(VENV)/pyspark-4.1 --requirement infra/pyspark-4.1/requirements.txt
	PYTHONPATH=$(VENV)/pyspark-4.1 $(BIN)/python -m pytest tests/conformance/test_engines.py

test-days: setup  ## run simulated days of a drifting stream under Airflow's scheduler (ten minutes, on an idle machine)
	$(BIN)/python -m pytest -m days

test-hosts: setup  ## run a Spark cluster and an S3 server as hosts that share nothing (skipped without Go or root)
	-$(MAKE) build/bin/versitygw
	$(BIN)/python -m pytest -m hosts tests/hosts

test-s3: setup  ## run the tests of buckets against a real S3 server, not moto's (skipped without Go)
	-$(MAKE) build/bin/versitygw
	test ! -x build/bin/versitygw || PSTSTREAM_TEST_GATEWAY=$(CURDIR)/build/bin/versitygw $(PYTEST) \
		tests/unit/test_prepare_store.py tests/unit/storage tests/unit/pipeline/main_job/test_run.py \
		tests/e2e/test_buckets.py tests/e2e/test_bucket_home.py tests/e2e/test_moving_buckets.py tests/crash \
		tests/dags/test_bucket_dag_runs.py -m "not hosts"

build/bin/versitygw:
	GOBIN=$(CURDIR)/build/bin go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

fuzz: setup  ## test hostile files, settings, power cuts, erasures, withdrawals, old rows, TIMES times, and all random cases
	PSTSTREAM_FUZZ_TIMES=$(TIMES) $(BIN)/python -m pytest tests/fuzz tests/e2e/test_power_cut.py \
		tests/e2e/test_power_cut_upkeep.py tests/e2e/test_withdraw.py \
		tests/spark/test_watch_benchmarks.py::test_hostile_files_get_their_verdicts_and_cost_no_row \
		tests/unit/pipeline/upkeep/test_erase.py tests/unit/pipeline/upkeep/test_old_rows.py --timeout 0
	PSTSTREAM_FUZZ_TIMES=1 $(BIN)/python -m pytest -m "hypothesis or random" --timeout 0 \
		tests/unit tests/oracles tests/conformance tests/spark/test_invariance.py

chaos: setup  ## inject faults for up to 20 minutes, by SEED, and compare the result with the oracle (docs/contributing.md)
	@$(BIN)/python -m tests.chaos.run $(if $(SEED),--seed $(SEED))

lint: style types  ## check style, import directions and types

style: $(DONE)/project
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python infra/check_wording.py
	$(BIN)/lint-imports

types: $(DONE)/project
	$(BIN)/mypy

docs: $(DONE)/project  ## write the generated parts of the documentation: settings, tables, metrics, reasons, results
	$(BIN)/python -m infra.generate_docs

format: setup  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: $(DONE)/uv  ## resolve each requirements.in to its requirements.txt (UPGRADE=--upgrade for newer versions)
	$(BIN)/uv pip compile --system-certs --universal --python-version 3.11 --generate-hashes --quiet \
		--custom-compile-command "make lock" $(UPGRADE) --output-file requirements.txt requirements.in
	$(BIN)/uv pip compile --system-certs --universal --python-version 3.11 --generate-hashes --quiet \
		--custom-compile-command "make lock" $(UPGRADE) --output-file infra/peers/requirements.txt infra/peers/requirements.in
	$(BIN)/uv pip compile --system-certs --universal --python-version 3.11 --generate-hashes --quiet \
		--custom-compile-command "make lock" $(UPGRADE) --output-file infra/audit/requirements.txt infra/audit/requirements.in

airflow: setup  ## start Airflow on this machine with the DAGs, the connection and the pool
	$(BIN)/python infra/run_airflow.py

image-steps:  ## run the steps of the Dockerfile in a scratch folder without Docker, and check the result
	$(PYTHON) infra/image/rehearse.py

test-image:  ## build the image with buildah, run the demo in it and check its size (skipped without root or buildah)
	$(PYTHON) infra/image/try_image.py $(if $(BASE),--base $(BASE)) $(if $(JAVA),--java $(JAVA))

package-check: setup  ## install the package by a wheel into new environments, and run two homes in an Airflow there
	$(BIN)/python infra/check_package.py

audit: setup  ## check the pinned packages for known vulnerabilities (needs the network)
	$(PYTHON) -m venv .venv-audit
	$(BIN)/uv pip install --quiet --system-certs --python .venv-audit/bin/python --require-hashes \
		--requirement infra/audit/requirements.txt
	.venv-audit/bin/pip-audit --requirement requirements.txt --require-hashes --disable-pip --strict

bench: setup  ## run benchmarks and print JSON, e.g. make bench BENCHES=kernel SCALE=full
	@for name in $(BENCHES); do $(BIN)/pststream bench run $$name --scale $(SCALE) || exit; done

peers: setup  ## install the systems that `bench run peers` compares with: SedonaDB, and Lucene Monitor by Maven
	$(PYTHON) -m venv .venv-peers
	$(BIN)/uv pip install --quiet --system-certs --python .venv-peers/bin/python --require-hashes \
		--requirement infra/peers/requirements.txt
	cd infra/peers/lucene && mvn --quiet --batch-mode package

results: setup  ## run all benchmarks at full size and render docs/results (four hours on 2 cores; `make peers` first)
	@for name in $(RESULTS); do $(BIN)/pststream bench run $$name --scale full --json --out docs/results/$$name.json \
		> /dev/null || exit; done
	$(BIN)/python -m infra.generate_docs

clean:  ## remove the files that setup, demo and tests created here; homes stay
	rm -rf $(VENV) .venv-peers .venv-audit infra/peers/lucene/target build *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	rm -rf pststream-demo spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The steps of setup; each writes a stamp file.

$(DONE)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' \
		|| { echo 'Python 3.11 is needed: make PYTHON=/path/to/python3.11 ...' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@mkdir -p $(DONE) && touch $@

$(DONE)/uv: infra/uv.txt | $(DONE)/venv
	-$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement infra/uv.txt
	@touch $@

$(DONE)/packages: requirements.txt | $(DONE)/uv
	$(BIN)/uv pip install --quiet --compile-bytecode --system-certs --python $(BIN)/python --require-hashes --requirement requirements.txt \
		|| $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.txt
	@touch $@

$(DONE)/project: pyproject.toml requirements.in $(DONE)/packages
	$(BIN)/pip install --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation --editable .
	@touch $@

$(DONE)/jars: pststream/cli/jars.sha256 pststream/cli/fetch_jars.py $(DONE)/packages
	$(BIN)/python pststream/cli/fetch_jars.py
	@touch $@

$(DONE)/kernels: $(shell find pststream/kernels -name "*.py") $(DONE)/project
	$(BIN)/python -m compileall -q pststream
	$(BIN)/python -m pststream.cli.compile_kernels
	@touch $@
