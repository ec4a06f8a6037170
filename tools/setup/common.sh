# shellcheck shell=bash
# Messages, logs and stamps of the set-up. Sourced by tools/setup.sh; bash 3.2 (macOS) is enough.

VENV="${MPS_DS_VENV:-$ROOT/.venv}"
STATE="$VENV/.mps_ds" # stamps and logs live in the environment that they describe

say() { printf '%s\n' "$*"; }

# fail WHAT FIX...: one message, what is missing and the command that fixes it, then stop.
fail() {
  {
    printf '\nset-up stopped: %s\n' "$1"
    shift
    for line in "$@"; do printf '    %s\n' "$line"; done
  } >&2
  exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# run_logged NAME COMMAND...: output goes to a log, its end is shown only if the command fails.
run_logged() {
  local name="$1" log started
  shift
  mkdir -p "$STATE/logs"
  log="$STATE/logs/$name.log"
  started=$SECONDS
  if "$@" >"$log" 2>&1; then
    say "    done in $((SECONDS - started)) s"
  else
    tail -n 60 "$log" >&2
    return 1
  fi
}

sha256() {
  if has sha256sum; then sha256sum; else shasum -a 256; fi | cut -d ' ' -f 1
}

# digest_of PATH...: one digest over the names and contents of all files below the paths.
digest_of() {
  local paths=() path
  for path in "$@"; do
    if [ -e "$ROOT/$path" ]; then paths+=("$path"); fi
  done
  (
    cd "$ROOT" || exit
    # Not what a build itself leaves in the tree.
    find "${paths[@]}" -type f ! -name '*.pyc' ! -path '*.egg-info/*' ! -name '.DS_Store' -print0 |
      LC_ALL=C sort -z |
      xargs -0 cksum
  ) | sha256
}

# A step is skipped while its stamp holds the digest of its inputs.
stamp_is() { [ -f "$STATE/$1" ] && [ "$(cat "$STATE/$1")" = "$2" ]; }
stamp() {
  mkdir -p "$STATE"
  printf '%s\n' "$2" >"$STATE/$1"
}
