# Thin on purpose: the work is in `cargo xtask`, one place for people and CI.
CARGO ?= cargo

.PHONY: help demo demo-hosts test ci tools

help:
	@echo 'make demo   build (some minutes the first time), measure the disk here and stores on it for a minute or two, write one report'
	@echo 'make demo-hosts  four ranks of one run in two namespaces as hosts (root, Open MPI), one report'
	@echo 'make test   everything CI checks: format, lints, tests, docs, edges, a run of the binary'
	@echo 'make ci     the same as make test'
	@echo 'As root on Debian they first install what is missing: the demo a C compiler, RocksDB and LevelDB; the'
	@echo 'tests also fio, Redis, clang, bpftrace, bpftool, file system tools and Python. As another user they'
	@echo 'only name it.'
	@echo 'Single steps: cargo xtask help'

# A Rust toolchain and a C compiler are needed before any Rust code of ours can run.
tools:
	@command -v $(CARGO) >/dev/null 2>&1 || { \
	  echo 'cargo is missing. Install Rust with rustup (see rust-lang.org), version in'; \
	  echo 'rust-toolchain.toml, then run make again. Nothing is downloaded for you.'; exit 1; }
	@command -v cc >/dev/null 2>&1 || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	    echo 'setup: installing gcc and libc6-dev (Rust links with the C compiler)'; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	      apt-get install -y -qq --no-install-recommends gcc libc6-dev; \
	  else \
	    echo 'A C compiler is missing. As root: apt-get install gcc libc6-dev'; exit 1; fi; }

demo: tools
	@echo 'demo: first the helper is built (cargo xtask)'
	@$(CARGO) xtask setup demo
	@$(CARGO) xtask demo

demo-hosts: tools
	@$(CARGO) xtask setup
	@$(CARGO) xtask demo hosts

# What is built once from nothing needs no notes for a next time, which take time and disk.
test: export CARGO_INCREMENTAL ?= 0
test: tools
	@$(CARGO) xtask setup
	@$(CARGO) xtask ci

ci: test
