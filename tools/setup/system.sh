# shellcheck shell=bash
# System packages. Nothing is installed that is already there, whatever package manager put it there:
# what is looked for is the compiler, the header and the library, not a package name.

readonly OLDEST_CLANG=16
# Tried first, because it is what every change is built with; then whatever else the release has.
readonly PREFERRED_CLANG="19 20 21 18 17 16 22 23 24"

ensure_system() {
  case "$(uname -s)" in
    Darwin) ensure_macos ;;
    Linux) ensure_linux ;;
    *) fail "mps_ds is built on macOS and on Linux, this is $(uname -s)." ;;
  esac
}

ensure_macos() {
  if [ "$(sysctl -n hw.optional.arm64 2>/dev/null)" != 1 ]; then
    fail "this Mac has no Apple silicon; the Metal kernels need an M1 or later."
  fi
  local version
  version="$(sw_vers -productVersion)"
  if [ "${version%%.*}" -lt 14 ]; then
    fail "macOS $version is too old: bfloat16 and Metal 3.1 need macOS 14 or later. Update with:" \
      "softwareupdate --list    # then: softwareupdate --install --all --restart"
  fi
  if ! xcrun --find clang++ >/dev/null 2>&1; then
    fail "Apple's command-line tools (clang++) are missing. Install them with:" "xcode-select --install"
  fi
}

ensure_linux() {
  MISSING_PACKAGES=()
  have_clang || MISSING_PACKAGES+=("clang")
  have_objc_runtime || MISSING_PACKAGES+=("gobjc++")
  have_gnustep || MISSING_PACKAGES+=("libgnustep-base-dev")
  [ -e /usr/include/Block.h ] || MISSING_PACKAGES+=("libblocksruntime-dev")
  find_python || MISSING_PACKAGES+=("python3" "python3-venv" "python3-dev")
  if [ ${#MISSING_PACKAGES[@]} -gt 0 ]; then install_packages; fi
}

# ensure_test_system: the tests run the NEON code, which is compiled for arm64, on qemu.
ensure_test_system() {
  if [ "$(uname -s)-$(uname -m)" != Linux-x86_64 ]; then return; fi
  MISSING_PACKAGES=()
  has aarch64-linux-gnu-g++ || MISSING_PACKAGES+=("g++-aarch64-linux-gnu")
  has qemu-aarch64 || has qemu-aarch64-static || MISSING_PACKAGES+=("qemu-user")
  if [ ${#MISSING_PACKAGES[@]} -gt 0 ]; then install_packages; fi
}

# have_clang: some clang++ of at least OLDEST_CLANG, under its plain or its versioned name.
have_clang() {
  local version
  for version in $PREFERRED_CLANG; do
    if has "clang++-$version"; then return 0; fi
  done
  has clang++ || return 1
  version="$(clang++ -dumpversion)"
  [ "${version%%.*}" -ge "$OLDEST_CLANG" ]
}

# have_objc_runtime: the Objective-C headers and library of any GCC version.
have_objc_runtime() {
  local folder
  for folder in /usr/lib/gcc/*/*; do
    if [ -e "$folder/include/objc/objc.h" ] && [ -e "$folder/libobjc.so" ]; then return 0; fi
  done
  return 1
}

# have_gnustep: its headers, which lie in a folder per architecture from Debian 13 on.
have_gnustep() {
  local folder
  for folder in /usr/include /usr/include/*; do
    if [ -e "$folder/GNUstep/Foundation/Foundation.h" ]; then return 0; fi
  done
  return 1
}

# clang_package: the first of PREFERRED_CLANG that this release offers.
clang_package() {
  local version
  for version in $PREFERRED_CLANG; do
    if [ -n "$(apt-cache show "clang-$version" 2>/dev/null)" ]; then
      echo "clang-$version"
      return
    fi
  done
  fail "this release offers no clang of version $OLDEST_CLANG or later (asked apt for: $PREFERRED_CLANG)." \
    "Debian 12 and later and Ubuntu 24.04 and later do; on an older release put one on PATH as clang++."
}

install_packages() {
  if ! has apt-get; then
    fail "missing: ${MISSING_PACKAGES[*]} (names as in Debian); packages are installed on Debian and Ubuntu only." \
      "Install their counterparts with this system's package manager, then run this again."
  fi
  local root=()
  if [ "$(id -u)" -ne 0 ]; then
    root=(sudo -n)
    if ! sudo -n true 2>/dev/null; then
      if [ -t 0 ] && has sudo; then root=(sudo); else need_root; fi
    fi
  fi
  say "==> system packages: ${MISSING_PACKAGES[*]}"
  run_logged apt-update "${root[@]+"${root[@]}"}" apt-get -o DPkg::Lock::Timeout=300 update ||
    fail "apt-get could not update its lists (its output is above). Check the network, then run:" \
      "apt-get update"
  local names=() name
  for name in "${MISSING_PACKAGES[@]}"; do
    if [ "$name" = clang ]; then name="$(clang_package)"; fi
    names+=("$name")
  done
  run_logged apt-install "${root[@]+"${root[@]}"}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${names[@]}" ||
    fail "apt-get could not install the packages (its output is above). On Ubuntu they are in 'universe'." \
      "apt-get install ${names[*]}"
}

need_root() {
  fail "missing: ${MISSING_PACKAGES[*]}; installing them needs root. Run once, with a clang of version $OLDEST_CLANG or later:" \
    "sudo apt-get install ${MISSING_PACKAGES[*]/#clang/clang-19}"
}
