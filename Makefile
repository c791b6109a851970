# SPDX-License-Identifier: Apache-2.0
# The incantations, by name. Each is a preset (CMakePresets.json) or a script;
# scripts/setup.sh first installs what the machine lacks.
PREFIX ?= /usr/local/Ascend/flashacl

# Where only the product is asked for, what tests need is not installed.
PRODUCT = scripts/build.sh release product \
          -DBUILD_TESTING=OFF -DFLASHACL_BENCH=OFF

.PHONY: help run test check format dev clang asan ubsan asubsan tsan fuzz coverage \
        mutants bench install package package-test clean setup prefix torch \
        torch-install torch-test torch-quick wheel wheel-test aarch64 \
        aarch64-quick

help:
	@echo "make run       build, install into build/release/prefix, run the examples;"
	@echo "               TARGETS=all for other processors than this one, too"
	@echo "make test      build and run every test"
	@echo "make check     only the scripts that check the sources"
	@echo "make format    rewrite the sources in the project's format"
	@echo "make dev       debug build and its tests; also: clang"
	@echo "make asan      fast tests under a sanitizer; also: ubsan, tsan,"
	@echo "               asubsan (both of the first)"
	@echo "make fuzz      each fuzz target for SECONDS=60"
	@echo "make bench     build and run the benchmarks"
	@echo "make coverage  which lines the tests run"
	@echo "make mutants   which mistakes the fast tests miss; FOLDER=cpu/tile for some"
	@echo "make torch     Ascend's PyTorch on FlashACL: a Python environment outside the"
	@echo "               sources (7 GB), the bridge, its examples; also: torch-test,"
	@echo "               torch-quick"
	@echo "make aarch64   build for 64-bit ARM, run the fast tests under qemu-user;"
	@echo "               QEMU_CPU=cortex-a72 for one processor; aarch64-quick:"
	@echo "               only the kernels' tests"
	@echo "make package   an archive and a .deb for other machines in build/package;"
	@echo "               also: package-test, as root; ARCH=aarch64 for 64-bit ARM,"
	@echo "               in build/package-aarch64, tested under qemu-user"
	@echo "make wheel     a Python wheel in build/package/wheel; also: wheel-test"
	@echo "make install   install into PREFIX=$(PREFIX);"
	@echo "               DEFAULT_PATHS=ON also links CANN's default paths to it"

# What the machine needs depends on what is asked for.
setup:
	@scripts/setup.sh test

setup-%:
	@scripts/setup.sh $*

run: prefix
	@examples/run.sh build/release/prefix
	@echo "Not run: PyTorch's examples, which need 7 GB of Python; make torch."

test: setup
	@scripts/build.sh release
	@ctest --preset release
	@echo "Not run: the tests of PyTorch, which make torch-test runs."

check: setup
	@scripts/check.sh

format: setup
	@python3 scripts/format.py --update

clang: setup-clang
dev clang asan ubsan asubsan tsan: setup
	@scripts/build.sh $@
	@ctest --preset $@

aarch64: setup-arm
	@scripts/arm_libraries.sh
	@scripts/build.sh aarch64 '-DFLASHACL_SVE=128;256;512'
	@ctest --preset aarch64

aarch64-quick: setup-arm
	@scripts/arm_kernels.sh

SECONDS ?= 60
fuzz: setup-clang
	@scripts/build.sh fuzz -DFLASHACL_FUZZ_SECONDS=$(SECONDS)
	@ctest --preset fuzz

bench: setup
	@scripts/build.sh bench
	@scripts/bench.sh build/bench

coverage:
	@scripts/setup.sh test gcovr
	@scripts/build.sh coverage
	@ctest --preset coverage
	@gcovr --root . --filter src/ build/coverage

mutants: setup
	@python3 scripts/mutate.py --folder "$(FOLDER)"

# For another architecture: the compiler, and what runs its programs.
package: setup-run $(if $(filter-out $(shell uname -m),$(ARCH)),setup-arm)
	@scripts/setup.sh run zstd
	@scripts/package.sh

# In an empty system that debootstrap makes, as root.
package-test: package
	@scripts/setup.sh run debootstrap
	@scripts/package_test.sh

# What Python environments are made with. Used on this machine, so that vector
# code is for its processor alone, unless build/release has it for all already.
TARGETS = native
prefix: setup-run
	@$(PRODUCT) -DFLASHACL_TARGETS=$(TARGETS)
	@cmake --install build/release --prefix build/release/prefix > /dev/null

# Library and tool inside; installed into an empty environment by wheel-test.
wheel: setup-run
	@scripts/setup.sh run python3-venv
	@scripts/wheel.sh

wheel-test: wheel
	@scripts/wheel_test.sh

torch: prefix
	@scripts/setup.sh run python3-venv python3-dev
	@scripts/torch.sh examples

torch-install: prefix
	@scripts/setup.sh run python3-venv python3-dev
	@scripts/torch.sh install

torch-test: prefix
	@scripts/setup.sh run python3-venv python3-dev
	@scripts/torch.sh test

torch-quick: prefix
	@scripts/setup.sh run python3-venv python3-dev
	@scripts/torch.sh quick

DEFAULT_PATHS ?= OFF
install: setup-run
	@$(PRODUCT) -DFLASHACL_DEFAULT_PATHS=$(DEFAULT_PATHS)
	@cmake --install build/release --prefix $(PREFIX) > /dev/null
	@echo "Installed. Now: source $(PREFIX)/set_env.sh"

clean:
	@rm -rf build
