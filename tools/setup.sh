#!/usr/bin/env bash
# Sets up a fresh machine: system packages, an environment, its Python packages, the build.
#
#     tools/setup.sh tools     environment with build, test and lint tools; nothing is built
#     tools/setup.sh install   environment with mps_ds built and installed
#     tools/setup.sh test      both, the frameworks that the integrations are tested with, and Sphinx
#
# Steps whose inputs did not change are skipped; CMake's build folder is kept between builds.
# Environment: PYTHON (which Python), MPS_DS_VENV (where the environment is; default .venv).
set -euo pipefail
ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
. "$ROOT/tools/setup/common.sh"
. "$ROOT/tools/setup/system.sh"
. "$ROOT/tools/setup/python.sh"

# What an installed package is made from.
readonly SOURCES="setup.py pyproject.toml CMakeLists.txt cmake csrc python third_party"

ensure_installed() {
  local digest
  # shellcheck disable=SC2086  # a list of paths
  digest="$(digest_of $SOURCES tools/constraints.txt)-${MPS_DS_BUILD:-}"
  if stamp_is installed "$digest" && (cd / && "$VENV/bin/python" -m pip show -q mps_ds) 2>/dev/null; then
    return
  fi
  say "==> build: pip install . (a clean build takes minutes; log: $STATE/logs/build.log)"
  rm -f "$STATE/installed"
  rm -rf "$ROOT"/build/lib.* "$ROOT"/build/bdist.* # setuptools would keep files that are no longer there
  (cd "$ROOT" && run_logged build "$VENV/bin/python" -m pip install --disable-pip-version-check \
    --no-input --verbose --no-build-isolation --check-build-dependencies --no-deps --force-reinstall .) ||
    fail "the build failed (the end of its output is above, all of it is in $STATE/logs/build.log). To repeat it:" \
      "$VENV/bin/python -m pip install --no-build-isolation --no-deps ."
  stamp installed "$digest"
}

main() {
  case "${1:-}" in
    tools | install | test) ;;
    *) fail "usage: tools/setup.sh tools|install|test" ;;
  esac
  ensure_system
  if [ "$1" = test ]; then ensure_test_system; fi
  ensure_venv
  ensure_requirements build build
  if [ "$1" != install ]; then ensure_requirements test test lint; fi
  # DeepSpeed comes as source; it must not compile operations of its own.
  if [ "$1" = test ]; then DS_BUILD_OPS=0 ensure_requirements frameworks deepspeed frameworks docs; fi
  if [ "$1" != tools ]; then ensure_installed; fi
}

main "$@"
