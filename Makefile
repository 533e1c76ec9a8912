# Front door. Every target installs what it needs first, and may be run any number of times.
SHELL := /bin/bash
BUILD := $(or $(PYROMETER_BUILD),build)

.DEFAULT_GOAL := help
.PHONY: help build run test bench check format fuzz package clean

help: ## what there is (this list)
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|'

build: ## the C library and the pyrometer program, in build/
	@tools/setup_system.sh build test
	cmake -S . -B $(BUILD) -G Ninja
	cmake --build $(BUILD)

run: ## a demo service under the profiler: top functions, a flame graph page, where the files are
	@tools/run_demo.sh

test: ## all tests, on every supported Python of this machine; PARTS="c e2e" chooses
	@tests/run $(PARTS)

bench: ## cost and accuracy against other profilers, side by side
	@bench/run $(ARGS)

check: ## layers, borders, formatting, warnings, types: what needs no running program
	@tools/check

format: ## lays out the C files as the checks want them
	@tools/setup_system.sh check
	find src python tests -name '*.[ch]' -print0 | xargs -0 clang-format -i

fuzz: ## every fuzz target for FUZZ_SECONDS (default 60)
	@PYROMETER_FUZZ_SECONDS=$(or $(FUZZ_SECONDS),60) tests/run fuzz

package: ## source archive and wheel of this system's Python, in dist/
	@tools/package.sh

clean: ## removes build/ and dist/; the cache folder stays
	rm -rf $(BUILD) dist
