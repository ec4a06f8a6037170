#!/usr/bin/env bash
# Proves that one binary serves every PyTorch from 2.10 on: builds a wheel once, then runs its CPU
# tests in an environment for each version of PyTorch.
#     tools/stable_abi.sh [VERSION...]      default: 2.10.0 and the newest that pip offers
# The environments (build/stable-abi/torch-VERSION) are kept. On Linux x86-64 each costs 5 to 7 GB and
# a download of 2 to 3 GB, as PyTorch's wheels there bring CUDA; without it they do not import. Where
# pip finds CPU builds (PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS) it is 1 GB.
# Environment: MPS_DS_VENV (the environment that builds; default .venv, made by `make build`).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# The software mps device belongs to the version that it was built with.
unset MPS_DS_SOFT PYTHONPATH
python="${MPS_DS_VENV:-.venv}/bin/python"
folder=build/stable-abi
if [ $# -eq 0 ]; then set -- 2.10.0 newest; fi
if [ ! -x "$python" ]; then
  echo "There is no $python. Make it with: make build" >&2
  exit 1
fi

pip() { "$1" -m pip --disable-pip-version-check --no-input "${@:2}"; }

echo "==> one wheel, with the headers of PyTorch $("$python" -c 'import torch; print(torch.__version__)')"
rm -rf "$folder/wheel"
pip "$python" wheel --quiet --no-build-isolation --no-deps --wheel-dir "$folder/wheel" .
wheel="$(echo "$folder"/wheel/*.whl)"
tests="$("$python" tools/setup/requirements.py test)"

for version in "$@"; do
  environment="$folder/torch-$version"
  own="$environment/bin/python"
  echo "==> PyTorch $version"
  [ -x "$own" ] || "$python" -m venv "$environment"
  if [ "$version" = newest ]; then
    pip "$own" install --quiet --upgrade torch
  else
    pip "$own" install --quiet "torch==$version"
  fi
  # One requirement a line; markers hold spaces.
  printf '%s\n' "$tests" numpy >"$environment/tests.txt"
  pip "$own" install --quiet -r "$environment/tests.txt"
  pip "$own" install --quiet --no-deps --force-reinstall "$wheel"
  "$own" -c 'import torch; print("    it is", torch.__version__)'
  OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" "$own" -m pytest -q -r fE --cpu-only tests/ops tests/optim tests/test_binary.py
done
echo "==> $(basename "$wheel") serves: $*"
