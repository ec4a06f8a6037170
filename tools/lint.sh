#!/usr/bin/env bash
# Checks of the sources that need no build: tools/lint.sh check|fix PYTHON
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
mode="$1" python="$2" failed=()
bin="$(dirname "$python")"

# step NAME FIX COMMAND...: all steps run; those that fail are named at the end, with what fixes them.
step() {
  local name="$1" fix="$2"
  shift 2
  printf '==> %s\n' "$name"
  "$@" || failed+=("$name: $fix")
}

native_sources() {
  local folder folders=()
  for folder in csrc third_party; do
    if [ -d "$folder" ]; then folders+=("$folder"); fi
  done
  find "${folders[@]}" -type f \( -name '*.h' -o -name '*.hpp' -o -name '*.c' -o -name '*.cpp' \
    -o -name '*.m' -o -name '*.mm' -o -name '*.metal' \) -print0
}

# Apple's own compiler where it is; elsewhere, readings that stand in for it.
kernels() {
  if [ "$(uname -s)" = Darwin ]; then
    tools/compile_shaders.sh || test $? -eq 3 # no Xcode: nothing is read
  else
    "$python" tools/msl_lint
  fi
}

clang_format() { native_sources | xargs -0 "$bin/clang-format" "$@"; }

case "$mode" in
  check)
    step "ruff check" "make format, or as the messages say" "$python" -m ruff check --quiet .
    step "ruff format" "make format" "$python" -m ruff format --quiet --diff .
    step "clang-format" "make format" clang_format --dry-run -Werror
    step "mypy" "as the messages say" "$python" -m mypy --no-error-summary
    step "workflows" "as the messages say" "$bin/check-jsonschema" --quiet \
      --builtin-schema vendor.github-workflows .github/workflows/*.yml
    step "kernels" "as the messages say" kernels
    ;;
  fix)
    step "ruff check" "as the messages say" "$python" -m ruff check --quiet --fix .
    step "ruff format" "as the messages say" "$python" -m ruff format --quiet .
    step "clang-format" "as the messages say" clang_format -i
    ;;
  *)
    echo "usage: tools/lint.sh check|fix PYTHON" >&2
    exit 2
    ;;
esac

if [ ${#failed[@]} -gt 0 ]; then
  printf '\nlint found problems. What fixes them:\n' >&2
  printf '    %s\n' "${failed[@]}" >&2
  exit 1
fi
