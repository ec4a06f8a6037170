#!/usr/bin/env bash
# Builds for tests/sanitizers, below build/sanitize; what is up to date is not built again.
#     tools/sanitize.sh address   the device and a program that uses it, AddressSanitizer + UBSan
#     tools/sanitize.sh thread    the same under ThreadSanitizer
#     tools/sanitize.sh package   the whole package, AddressSanitizer + UBSan, for Python
# PYTHON=/path/to/python3 chooses the Python whose PyTorch the package is built for.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
kind=${1:?usage: tools/sanitize.sh address|thread|package}
build="$root/build/sanitize/$kind"

# The compiler that CMakeLists.txt takes, which has to bring the runtimes of its sanitizers.
compiler=
for version in $(seq 30 -1 16) ""; do
  if command -v "clang++${version:+-$version}" >/dev/null; then
    compiler=$(command -v "clang++${version:+-$version}")
    break
  fi
done
[ -n "$compiler" ] || { echo "clang++ was not found: apt-get install clang-19" >&2; exit 1; }
runtime() { "$compiler" -print-file-name="libclang_rt.$1"; }
machine=$(uname -m)
if [ ! -e "$(runtime "asan-$machine.so")" ] || [ ! -e "$(runtime "tsan-$machine.a")" ]; then
  major=$("$compiler" -dumpversion | cut -d. -f1)
  echo "$compiler has no runtimes for its sanitizers: apt-get install libclang-rt-$major-dev" >&2
  exit 1
fi
export CXX="$compiler" OBJCXX="$compiler"

# executable SANITIZERS
executable() {
  [ -f "$build/build.ninja" ] ||
    cmake -S "$root/tests/sanitizers" -B "$build" -G Ninja -DSANITIZERS="$1" >/dev/null
  cmake --build "$build"
}

case "$kind" in
  address) executable address,undefined ;;
  thread) executable thread ;;
  package)
    # `function` and `vptr` compare types across libraries, and PyTorch hides its types.
    flags="-O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize=function,vptr"
    flags="$flags -fno-sanitize-recover=all -shared-libasan"
    "$root/tools/stage.sh" "$build" "$root/build/sanitize/stage" -DCMAKE_BUILD_TYPE=Sanitized \
      -DCMAKE_INTERPROCEDURAL_OPTIMIZATION=OFF \
      "-DCMAKE_CXX_FLAGS=$flags" "-DCMAKE_OBJCXX_FLAGS=$flags"
    # What Python is started with: the runtime, and the C++ library whose __cxa_throw it wraps.
    echo "LD_PRELOAD=$(runtime "asan-$machine.so") $("$compiler" -print-file-name=libstdc++.so.6)" \
      >"$root/build/sanitize/environment"
    ;;
  *)
    echo "usage: tools/sanitize.sh address|thread|package" >&2
    exit 2
    ;;
esac
