# A small front for Meson. `make` builds; `make demo` and `make check` also install what is missing.
#
#   make demo            set up, build, and show calltrail at work on a bundled example
#   make check           set up, build, run all tests; last line: N passed, N failed
#   make lint            formatting, static analysis, layering, sizes
#   scripts/check NAME   one test or suite, when `make tests` has built them
#   make check-modules   unwind rows of every module on this machine against readelf
#   make check-torture   what breaks profilers, one small program each, under record
#   make check-trampoline marked frames: unwinders, registers, jumps, single steps
#   make check-regions   walks from inside stubs: unwinders, eu-stack, gdb
#   make check-exact     every call counted: against callgrind, and the torture programs
#   make check-events    events against what programs know of themselves; the torture programs under them
#   make check-rates     rates to a few per cent, on a machine that does nothing else
#   make check-exact-steps engine exact at every call of 5 million single steps of real programs
#   make check-live      code that changes while 64 threads run it, for five minutes
#   make check-loss      ends at random moments, full disks, signals: no sample is lost
#   make check-stops     random stops of real programs against eu-stack and gdb
#   make check-outside   servers under load and programs of many kinds, recorded from outside
#   make check-go        walks of Go programs against Go itself, gdb and single steps
#   make check-real      real programs from Debian's packages, plain and recorded
#   make check-soak      random programs, modes and kills for SOAK_SECONDS; then threads and children that come and go
#   make check-agreement the same programs under calltrail and under perf
#   make check-exports   exports in the viewers that npm has, and in Chromium
#   make check-view      the page of view and html in Chromium
#   make check-diff      what diff says of runs whose truth is known
#   make check-store     a store under load: 16 clients, clients and server killed 100 times
#   make check-mpi       10,000 profiles over 1 to 8 ranks, against calltrail merge
#   make check-slices    an hour of slices of 2 s, with a store that comes and goes
#   make check-package   Debian packages: built without a network, lintian, installed, run, removed
#   make check-full      the long runs: 100 million single steps, all modules, long fuzzing
#   make fuzz            fuzz every reader for FUZZ_SECONDS each
#   make bench           measure; writes bench/RESULTS.md
#   make SANITIZE=address,undefined check
#   make install         PREFIX and DESTDIR as usual
#   make dist            calltrail-VERSION.tar.xz of what is committed; dpkg-buildpackage makes packages of it

SANITIZE ?=
FUZZ_SECONDS ?= 600
PREFIX ?= /usr/local
comma := ,
BUILD := build$(if $(SANITIZE),-$(subst $(comma),-,$(SANITIZE)))
MESON_FLAGS := --prefix=$(PREFIX) $(if $(SANITIZE),-Db_sanitize=$(SANITIZE) -Db_lundef=false)

.PHONY: all tests setup setup-tests demo check lint check-modules check-torture check-trampoline check-regions check-exact check-exact-steps check-events check-rates check-live check-loss check-stops check-outside check-go check-full fuzz bench install clean check-exports check-view check-diff check-real check-agreement check-store check-mpi check-slices check-package dist check-soak

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD) calltrail libcalltrail-rt.so libcalltrail-events.so libcalltrail-events-new.so calltrail-record.1 \
		$$(ninja -C $(BUILD) -t targets all | sed -n "s/^\(calltrail-mpi\):.*/\1/p")

$(BUILD)/build.ninja: meson.build meson_options.txt
	@test -f $@ || meson setup $(BUILD) $(MESON_FLAGS)

tests: $(BUILD)/build.ninja
	@meson configure $(BUILD) -Dtests=true -Dwerror=true
	@ninja -C $(BUILD)

setup:
	@scripts/setup build

setup-tests:
	@scripts/setup build test

demo: setup
	@$(MAKE) --no-print-directory all
	@scripts/demo $(BUILD)

check: setup-tests
	@$(MAKE) --no-print-directory tests
	@BUILD=$(BUILD) SANITIZE=$(SANITIZE) scripts/check

lint: setup-tests
	@$(MAKE) --no-print-directory tests
	@scripts/lint $(BUILD)

check-modules: setup-tests
	@$(MAKE) --no-print-directory tests
	@CFI_ORACLE=$(BUILD)/tests/cfi_oracle scripts/check-modules

check-trampoline: setup-tests
	@$(MAKE) --no-print-directory tests
	@scripts/check-trampoline --full

check-regions: setup-tests
	@scripts/check-regions --full

check-torture: setup-tests
	@$(MAKE) --no-print-directory tests
	@scripts/check-torture --full

check-exact: setup-tests
	@$(MAKE) --no-print-directory tests
	@scripts/check-exact --full
	@scripts/check-torture --full --engine exact

check-exact-steps: setup-tests
	@$(MAKE) --no-print-directory tests
	@CALLTRAIL=$(BUILD)/calltrail EXACT_STEP=$(BUILD)/tests/exact_step scripts/check-exact-steps --full

check-events: setup-tests
	@$(MAKE) --no-print-directory tests
	@bash tests/cli/test_events.sh --long
	@scripts/check-torture --full --event wall,malloc/1,heap/1,io,lock
	@for event in wall malloc heap/1 io lock perf:page-faults perf:context-switches/1; do \
		scripts/check-torture --full --event $$event --only '^r(0[1-9]|1[0-9]|2[0-2]|39|4[0-5])' || exit 1; done
	@scripts/setup real
	@scripts/check-real --event heap,wall --only 'redis|nginx|firefox' --seconds 1.5

check-rates: setup-tests
	@$(MAKE) --no-print-directory tests
	@CALLTRAIL=$(BUILD)/calltrail bash tests/cli/test_rates.sh --long

check-live: setup-tests
	@bash tests/cli/test_live.sh --long

check-loss: setup-tests
	@$(MAKE) --no-print-directory tests
	@scripts/check-loss --full

check-stops: setup-tests
	@$(MAKE) --no-print-directory tests
	@scripts/check-stops --full

check-outside: setup-tests
	@scripts/setup real outside
	@$(MAKE) --no-print-directory tests
	@CALLTRAIL=$(CURDIR)/$(BUILD)/calltrail bash tests/cli/test_outside.sh --long

check-go: setup-tests
	@$(MAKE) --no-print-directory tests
	@scripts/check-go --full --table

check-exports: setup-tests
	@$(MAKE) --no-print-directory tests
	@BUILD=$(BUILD) scripts/check-exports

check-view: setup-tests
	@$(MAKE) --no-print-directory tests
	@BUILD=$(BUILD) scripts/check-view

check-diff: setup-tests
	@$(MAKE) --no-print-directory tests
	@BUILD=$(BUILD) scripts/check-diff

check-store: setup-tests
	@$(MAKE) --no-print-directory tests
	@BUILD=$(BUILD) scripts/check-store

check-mpi: setup-tests
	@$(MAKE) --no-print-directory tests
	@BUILD=$(BUILD) scripts/check-mpi

check-slices: setup-tests
	@$(MAKE) --no-print-directory tests
	@BUILD=$(BUILD) scripts/check-slices

dist:
	@scripts/dist

check-package:
	@scripts/setup build package
	@scripts/check-package

check-real: setup
	@scripts/setup real
	@$(MAKE) --no-print-directory all
	@CALLTRAIL=$(BUILD)/calltrail scripts/check-real --hz 999 --hz 9999
	@CALLTRAIL=$(BUILD)/calltrail scripts/check-real --engine exact --seconds 1
	@CALLTRAIL=$(BUILD)/calltrail scripts/check-guests

check-soak: setup-tests
	@$(MAKE) --no-print-directory tests
	@CALLTRAIL=$(BUILD)/calltrail scripts/check-soak
	@CALLTRAIL=$(BUILD)/calltrail scripts/check-soak --churn

check-agreement: setup
	@scripts/setup real
	@$(MAKE) --no-print-directory all
	@CALLTRAIL=$(BUILD)/calltrail scripts/check-agreement

check-full: setup-tests
	@$(MAKE) --no-print-directory tests
	@BUILD=$(BUILD) SANITIZE=$(SANITIZE) scripts/check --full

fuzz: setup-tests
	@scripts/fuzz $(FUZZ_SECONDS)

bench: setup-tests
	@scripts/setup bench
	@$(MAKE) --no-print-directory tests
	@BUILD=$(BUILD) scripts/bench

install: $(BUILD)/build.ninja
	@meson configure $(BUILD) --prefix=$(PREFIX)
	@$(MAKE) --no-print-directory all
	@meson install -C $(BUILD) --no-rebuild

clean:
	@rm -rf build build-*
