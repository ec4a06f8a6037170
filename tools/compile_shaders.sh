#!/usr/bin/env bash
# Compiles every kernel with Apple's own Metal compiler, which comes with Xcode (not with the
# command-line tools). Warnings are errors. Metal 3.1, which kernels are compiled as at run time, is
# needed; newer versions are tried where the compiler knows them.
#     tools/compile_shaders.sh [FILE.metal ...]
# Exit status: 0 all compile, 1 one does not, 3 there is no compiler.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
if [ $# -eq 0 ]; then set -- csrc/mps/kernels/*.metal; fi

# metal STANDARD MACOS FILE [OPTIONS]: Metal's standard and the first macOS that has it.
metal() {
  xcrun -sdk macosx metal "-std=metal$1" "-mmacosx-version-min=$2" -fno-fast-math "${@:4}" \
    -c "$3" -o /dev/null
}

empty="$(mktemp -d)/empty.metal"
: >"$empty"
trap 'rm -rf "$(dirname "$empty")"' EXIT
if ! metal 3.1 14.0 "$empty"; then
  echo "Apple's Metal compiler is not here, or does not know Metal 3.1 (its message is above)." >&2
  echo "It comes with Xcode; from Xcode 26 on: xcodebuild -downloadComponent MetalToolchain" >&2
  exit 3
fi

status=0
for version in 3.1:14.0 3.2:15.0 4.0:26.0; do
  standard="${version%:*}" macos="${version#*:}"
  if ! metal "$standard" "$macos" "$empty" 2>/dev/null; then
    echo "Metal $standard: not known to this compiler"
    continue
  fi
  for file in "$@"; do
    if metal "$standard" "$macos" "$file" -Wall -Werror; then
      echo "Metal $standard: $file"
    else
      echo "Metal $standard: $file DOES NOT COMPILE" >&2
      status=1
    fi
  done
done
exit "$status"
