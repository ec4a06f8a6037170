# shellcheck shell=bash
# A Python for the environment, the environment, and what is installed into it.

readonly OLDEST_PYTHON=10 # 3.10
readonly NEWEST_PYTHON=14 # 3.14: the last one that the pinned torch has a wheel for

# find_python: sets PYTHON_FOUND to a native Python 3.10-3.14 that can make an environment and
# build extensions. PYTHON=/path/to/python chooses one. What was refused, and why, is in REFUSED.
find_python() {
  PYTHON_FOUND=""
  REFUSED=()
  if [ -n "${PYTHON:-}" ]; then
    accept_python "$PYTHON" || fail "PYTHON=$PYTHON cannot be used: ${REFUSED[*]-it is not a program}"
    return
  fi
  local candidate
  for candidate in python3 python3.12 python3.13 python3.11 python3.14 python3.10 \
    /usr/bin/python3 /opt/homebrew/bin/python3.1[0-4] /usr/local/bin/python3.1[0-4] \
    /Library/Frameworks/Python.framework/Versions/3.1[0-4]/bin/python3 \
    "$HOME"/.local/bin/python3.1[0-4] "$HOME"/.local/share/uv/python/cpython-3.1[0-4]*/bin/python3 \
    "$HOME"/.pyenv/versions/3.1[0-4]*/bin/python3; do
    if accept_python "$candidate"; then return 0; fi
  done
  return 1
}

accept_python() {
  has "$1" || return 1
  local answer
  answer="$("$1" "$ROOT/tools/setup/check_python.py" "$OLDEST_PYTHON" "$NEWEST_PYTHON" 2>&1)" || true
  case "$answer" in
    "ok "*)
      PYTHON_FOUND="${answer#ok }"
      return 0
      ;;
    *)
      REFUSED+=("$1: ${answer##*$'\n'}")
      return 1
      ;;
  esac
}

no_python() {
  {
    for reason in "${REFUSED[@]+"${REFUSED[@]}"}"; do printf '    refused %s\n' "$reason"; done
  } >&2
  if [ "$(uname -s)" = Linux ]; then
    fail "no Python 3.$OLDEST_PYTHON to 3.$NEWEST_PYTHON with venv and headers was found. Install one with:" \
      "apt-get install python3 python3-venv python3-dev" \
      "or name one: make PYTHON=/path/to/python3 ..."
  elif has brew; then
    fail "no native Python 3.$OLDEST_PYTHON to 3.$NEWEST_PYTHON was found. Install one with:" \
      "brew install python@3.12" "or name one: make PYTHON=/path/to/python3 ..."
  fi
  fail "no native Python 3.$OLDEST_PYTHON to 3.$NEWEST_PYTHON was found. Install one with:" \
    "/usr/bin/python3 -m pip install --user uv && /usr/bin/python3 -m uv python install 3.12" \
    "or name one: make PYTHON=/path/to/python3 ..."
}

# ensure_venv: an environment of our own; one that we did not make is never touched.
ensure_venv() {
  if [ -n "${PYTHON:-}" ] || [ ! -x "$VENV/bin/python" ]; then find_python || no_python; fi
  if [ -x "$VENV/bin/python" ] && [ -z "${PYTHON:-}" ] && usable_venv; then return; fi
  if [ -n "${PYTHON_FOUND:-}" ] && stamp_is python "$PYTHON_FOUND" && usable_venv; then return; fi
  if [ -e "$VENV" ] && [ ! -d "$STATE" ]; then
    fail "$VENV exists and was not made by this set-up. Move it away, or name another place:" \
      "make MPS_DS_VENV=/path/to/environment ..."
  fi
  [ -n "$PYTHON_FOUND" ] || find_python || no_python
  say "==> environment: $VENV from $PYTHON_FOUND"
  rm -rf "$VENV"
  mkdir -p "$STATE"
  "$PYTHON_FOUND" -m venv "$VENV" ||
    fail "$PYTHON_FOUND could not make an environment in $VENV (its output is above). On Debian and Ubuntu:" \
      "apt-get install python3-venv"
  stamp python "$PYTHON_FOUND"
}

usable_venv() {
  "$VENV/bin/python" "$ROOT/tools/setup/check_python.py" "$OLDEST_PYTHON" "$NEWEST_PYTHON" >/dev/null 2>&1 &&
    "$VENV/bin/python" -c 'import pip' 2>/dev/null
}

# ensure_requirements STEP GROUP...: what pyproject.toml names (tools/setup/requirements.py), in the
# versions of tools/constraints.txt.
ensure_requirements() {
  local step="$1" list digest
  shift
  list="$("$VENV/bin/python" "$ROOT/tools/setup/requirements.py" "$@")" ||
    fail "tools/setup/requirements.py could not read pyproject.toml (its output is above)."
  digest="$(printf '%s\n' "$list" | cat - "$ROOT/tools/constraints.txt" | sha256)"
  if stamp_is "requirements-$step" "$digest"; then return; fi
  say "==> Python packages to $step"
  printf '%s\n' "$list" >"$STATE/requirements-$step.txt"
  run_logged "requirements-$step" install_requirements "$STATE/requirements-$step.txt" ||
    fail "pip could not install the packages (its output is above). Check the network and free disk space; to repeat it:" \
      "$VENV/bin/python -m pip install -c tools/constraints.txt -r $STATE/requirements-$step.txt"
  stamp "requirements-$step" "$digest"
}

install_requirements() {
  local pip=("$VENV/bin/python" -m pip --disable-pip-version-check --no-input install -c "$ROOT/tools/constraints.txt")
  "${pip[@]}" pip && "${pip[@]}" -r "$1"
}
