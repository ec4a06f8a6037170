#!/usr/bin/env bash
# Builds into BUILD_DIR and lays the package out under DEST, for `PYTHONPATH=DEST python ...`.
# Faster than `pip install .` while developing: nothing is copied but what changed.
#     tools/stage.sh build/dev /tmp/stage
set -euo pipefail
build=${1:?usage: tools/stage.sh BUILD_DIR DEST [extra cmake arguments]}
dest=${2:?usage: tools/stage.sh BUILD_DIR DEST [extra cmake arguments]}
shift 2
root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}
[ -f "$build/build.ninja" ] || cmake -S "$root" -B "$build" -G Ninja -DPython3_EXECUTABLE="$(command -v "$python")" "$@"
cmake --build "$build"
mkdir -p "$dest"
cmake --install "$build" --prefix "$dest" >/dev/null
cp -ru "$root/python/." "$dest/"
echo "PYTHONPATH=$dest"
