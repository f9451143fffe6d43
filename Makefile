# Targets for users, as in README, and for CI.
.DEFAULT_GOAL := help
.PHONY: help setup install hooks release lock demo test test-long test-benches test-pytorch test-engines test-gpu-images horovod-suite horovod-examples check fuzz test-failures e2e-scale e2e-openstack e2e-distributions e2e-from-nothing bench bench-monitoring bench-train bench-link bench-prediction bench-studies gpu-report docs clean

DOCKER := scripts/with-docker.sh
BIN := .venv/bin
PYTEST := $(DOCKER) $(BIN)/python -m pytest
# Unit tests spend half of their time waiting, so they run in more processes than there are cores.
SIDE_BY_SIDE := --dist loadfile -n
SOURCES := orchestrator tests scripts bench docs/examples docker/horovod/overlay
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Install only files that a lock file lists by SHA-256. python-terraform has no wheel; requirements/build.txt builds it.
LOCKED := $(INSTALL) --require-hashes --no-build-isolation --only-binary :all: --no-binary python-terraform --requirement
UPGRADE := --upgrade
# MkDocs Material is held to versions that build with MkDocs 1; it announces another program at every build.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 16

setup: ## install and start requirements on a fresh Debian or Ubuntu (Docker Engine, ssh client, venv)
	@scripts/setup.sh

.venv/installed: pyproject.toml requirements/build.txt requirements/cli.txt
	@echo "installing orchestrator into .venv"
	@$(BIN)/python -m pip --version > /dev/null 2>&1 || python3 -m venv .venv
	@$(LOCKED) requirements/build.txt
	@$(LOCKED) requirements/cli.txt
	@$(INSTALL) --no-build-isolation --no-deps --editable .
	@touch $@

.venv/installed-dev: .venv/installed requirements/development.txt
	@echo "installing the tools of development into .venv"
	@$(LOCKED) requirements/development.txt
	@touch $@

lock: .venv/installed ## renew the locked versions of all Python packages (UPGRADE= keeps versions that still fit)
	@$(LOCKED) requirements/uv.txt
	@scripts/lock.sh $(UPGRADE)

install: setup .venv/installed ## install the command into .venv/bin
	@$(BIN)/python scripts/get_terraform.py $(BIN)

hooks: .venv/installed-dev ## run the checks of `make check` on the files of every git commit
	@$(BIN)/pre-commit install

release: .venv/installed-dev ## build wheel and sdist into dist/ and check them, date the changelog (VERSION=1.2.3); publishes nothing
	@$(BIN)/python -m scripts.release $(VERSION)

demo: install ## deploy two local nodes, train on real data, show the result, tear down
	@$(DOCKER) scripts/demo.sh

check: install .venv/installed-dev ## lint, types, formats, spelling, links: checks that need no cluster
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check --quiet $(SOURCES)
	$(BIN)/mypy
	PATH=$(CURDIR)/$(BIN):$$PATH; $$(command -v terraform || command -v tofu) fmt -check -recursive terraform
	PATH=$(CURDIR)/$(BIN):$$PATH ansible-lint --offline --profile production ansible
	$(BIN)/hadolint docker/Dockerfile docker/users-image.Dockerfile
	$(BIN)/codespell
	$(BIN)/rumdl check --no-cache .
	$(MKDOCS) build --strict --quiet
	$(PYTEST) -q tests/unit/test_imports.py tests/unit/scripts/test_write_*.py

docs: .venv/installed-dev ## serve the documentation at http://127.0.0.1:8000
	$(MKDOCS) serve --strict

test: install .venv/installed-dev ## run unit and contract tests, one story on a local cluster and one on hosts
	$(PYTEST) $(SIDE_BY_SIDE) 4 tests/unit
	$(DOCKER) $(BIN)/python -m tests.images
	$(PYTEST) --dist worksteal -n 2 --durations 15 tests/contract
	$(PYTEST) --exitfirst --durations 15 tests/e2e

test-long: install .venv/installed-dev ## run tests that take minutes each: data, monitoring, notebooks, killed deploys, resumed runs, benchmarks
	$(DOCKER) $(BIN)/python -m tests.images
	$(PYTEST) --exitfirst --durations 15 tests/long tests/benches

test-benches: install .venv/installed-dev ## run every benchmark in a few steps, on small images, as test-long does (15 min)
	$(DOCKER) $(BIN)/python -m tests.images
	$(PYTEST) --exitfirst --durations 15 tests/benches

test-pytorch: install .venv/installed-dev ## build the image with PyTorch, run tests inside, deploy local nodes with it and with users' images
	$(DOCKER) $(BIN)/python -m tests.images pytorch
	$(PYTEST) --exitfirst --durations 15 tests/pytorch

test-engines: install .venv/installed-dev ## build the image with both frameworks, compare every engine of train with the trainer on two local nodes
	$(DOCKER) $(BIN)/python -m tests.images both
	$(PYTEST) --exitfirst --durations 15 tests/engines

test-gpu-images: install .venv/installed-dev ## build the images for NVIDIA GPUs and run Horovod's checks on two ranks, without a GPU (20 min)
	$(PYTEST) --exitfirst --verbose --capture no --timeout 7200 tests/gpu_images

horovod-suite: install .venv/installed-dev ## run Horovod's own tests in the images (HOROVOD_SOURCE=DIR, 25 min to 1 h; ARGS='--only NAME'); writes build/horovod-suite.md
	$(DOCKER) $(BIN)/python -m tests.horovod_suite $(ARGS)

horovod-examples: install .venv/installed-dev ## run Horovod's examples, unchanged, on two local nodes (HOROVOD_SOURCE=DIR, 10 to 30 min); writes build/horovod-examples.md
	$(DOCKER) $(BIN)/python -m tests.horovod_suite.examples $(ARGS)

fuzz: install .venv/installed-dev ## test each loader with 10,000 damaged files: any bytes, any value of any key, truncated
	$(PYTEST) $(SIDE_BY_SIDE) 2 --hypothesis-profile fuzz --timeout 14400 $$(find tests/unit -name 'test_fuzz_*.py')

test-failures: install .venv/installed-dev ## kill deploys at ten moments, restart Docker, fill its disk (a private Engine, needs root)
	$(DOCKER) $(BIN)/python -m tests.images
	$(PYTEST) tests/failures

e2e-openstack: install .venv/installed-dev ## run the e2e story, and tests that need a cloud, on a real OpenStack
	@scripts/e2e-openstack.sh

e2e-scale: install .venv/installed-dev ## run a story with 32 local nodes: deploy, run, check, kill and repair two, teardown (SCALE_NODES=64)
	$(DOCKER) $(BIN)/python -m tests.images
	$(PYTEST) --exitfirst --verbose --durations 0 tests/scale

e2e-distributions: install .venv/installed-dev ## deploy clusters of Debian 12, 13, Ubuntu 22.04 and 24.04 (20 min; needs mmdebstrap)
	$(PYTEST) --exitfirst --verbose tests/distributions/test_distributions.py tests/distributions/test_own_scripts.py

e2e-from-nothing: install .venv/installed-dev ## run make demo and half of the e2e story on Debian 13 and Ubuntu 24.04 (1 h; needs mmdebstrap)
	$(PYTEST) --exitfirst --verbose --capture no tests/distributions/test_from_nothing.py

bench: install .venv/installed-dev ## measure deploy, launch and memory; writes build/bench.md (ARGS='--only scale --nodes 2 8')
	$(DOCKER) $(BIN)/python -m bench $(ARGS)

bench-monitoring: install .venv/installed-dev ## measure the cost of monitoring a cluster; writes build/monitoring.md
	$(DOCKER) $(BIN)/python -m bench.monitoring_cost $(ARGS)

bench-train: install .venv/installed-dev ## compare training with other programs (HOROVOD_SOURCE=DIR; 1 h; ARGS='--only ROW --rounds N'); writes build/training.md
	$(DOCKER) $(BIN)/python -m tests.images pytorch
	$(DOCKER) $(BIN)/python -m bench.train $(ARGS)

bench-link: install .venv/installed-dev ## measure training over a link held to 1 Gbit/s (root; ARGS='--rate 10gbit --rounds N'); writes build/link.md
	$(DOCKER) $(BIN)/python -m bench.link $(ARGS)

gpu-report: install ## measure training on an NVIDIA GPU; writes build/gpu.md, one file to send
	$(DOCKER) bench/gpu.sh $(ARGS)

bench-prediction: install .venv/installed-dev ## compare predictions with runs on 2 and 4 local nodes, four links (root, 27 min); writes build/prediction.md
	$(DOCKER) $(BIN)/python -m bench.prediction $(ARGS)

bench-studies: install .venv/installed-dev ## repeat an A/A study 20 times on a local node: intervals that contain 1, time added (25 min); writes build/studies.md
	$(DOCKER) $(BIN)/python -m bench.studies $(ARGS)

clean: ## remove .venv, build and dist (images and clusters stay)
	rm -rf .venv build dist
