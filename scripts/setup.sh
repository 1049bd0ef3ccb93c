# Common parts of scripts/start and scripts/test, which source this file: the Debian packages that
# the build needs, and configure + build of one build directory.
# shellcheck shell=bash disable=SC2034
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cores=$(nproc)
# ocl-icd-opencl-dev: Debian's oneDNN asks CMake for OpenCL.
# libopenblas0-pthread: LAPACK, loaded by the first operation of torch.linalg. xz-utils: the conformance vectors.
packages=(g++ cmake ninja-build pkg-config liblua5.4-dev libdnnl-dev ocl-icd-opencl-dev zlib1g-dev libpng-dev libjpeg62-turbo-dev
          libopenblas0-pthread libssl-dev libgloo-dev libzmq3-dev libgtest-dev xz-utils)

# Installs what is missing among the given packages; says what it would do where it may not.
install_packages() {
  local missing=() command=(apt-get install -y --no-install-recommends) as_root=() package
  if ! command -v dpkg-query >/dev/null; then
    echo "This is no Debian, so install these by hand if the build stops: $*" >&2
    return 0
  fi
  for package in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  command+=("${missing[@]}")
  if ((EUID != 0)); then
    if command -v sudo >/dev/null && { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
      as_root=(sudo)
    else
      echo "These packages are missing: ${missing[*]}" >&2
      echo "Neither root nor sudo is at hand, so please run this as root and start again:" >&2
      echo "  apt-get update && ${command[*]}" >&2
      exit 1
    fi
  fi
  echo "Installing ${missing[*]}"
  if ! { "${as_root[@]}" apt-get update -q && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "${command[@]}"; }; then
    echo "These packages could not be installed: ${missing[*]}" >&2
    exit 1
  fi
}

# build DIRECTORY "TARGETS" [CMAKE OPTIONS...]: configures once, afterwards ninja does what changed.
build() {
  local dir=$root/$1 targets=$2 cache=()
  shift 2
  # A directory that was copied or moved along with the sources still names the old place.
  if [[ -f $dir/CMakeCache.txt ]] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$dir/CMakeCache.txt"; then
    rm -rf "$dir"
  fi
  if command -v ccache >/dev/null; then
    cache=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
    export CCACHE_SLOPPINESS=pch_defines,time_macros  # else it passes over files with precompiled headers
  fi
  if [[ ! -f $dir/build.ninja ]]; then
    cmake -S "$root" -B "$dir" -G Ninja "${cache[@]}" "$@"
  fi
  # shellcheck disable=SC2086  # the targets are words
  ninja -C "$dir" -j "$cores" $targets
}
