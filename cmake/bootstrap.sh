#!/bin/sh
# Installs the packages that building and testing lockstep needs on Debian and Ubuntu, and the packages given as
# arguments. Does nothing if all of them are installed.
set -eu

packages="g++ cmake ninja-build pkg-config libopenblas-dev libhwy-dev libhwloc-dev zlib1g-dev libisal-dev libzstd-dev libarchive-dev libjpeg-dev libpng-dev catch2 libbenchmark-dev libcli11-dev nlohmann-json3-dev clang-format libopenmpi-dev openmpi-bin libgloo-dev relacy-dev spin $*"
catch2_needed=3.3

if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg-query >/dev/null 2>&1; then
  cat <<TEXT
bootstrap: this is not a Debian or Ubuntu system, so nothing is installed. The build needs:
  a C++20 compiler (g++ 12 or newer), CMake 3.25, Ninja, pkg-config, OpenBLAS with cblas.h and openblas.pc, Highway, hwloc, zlib,
  Catch2 $catch2_needed, CLI11, nlohmann-json, clang-format 14; for the engines between processes, MPI 3 and Gloo;
  for file formats, ISA-L (TFRecord), zstd, libarchive (tar), libjpeg-turbo, libpng; for proofs, Relacy and Spin
TEXT
  exit 0
fi

# Prints the packages that are missing, including Catch2 if it is too old.
missing() {
  for package in $packages; do
    version=$(dpkg-query -W -f='${db:Status-Status} ${Version}' "$package" 2>/dev/null) || version=
    case $version in
      "installed "*) ;;
      *) echo "$package"; continue ;;
    esac
    if [ "$package" = catch2 ] && ! dpkg --compare-versions "${version#* }" ge "$catch2_needed"; then
      echo "$package"
    fi
  done
}

wanted=$(missing | tr '\n' ' ')
wanted=${wanted% }
if [ -z "$wanted" ]; then
  echo "bootstrap: everything is installed"
  exit 0
fi

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null 2>&1; then
    sudo "$@"
  else
    echo "bootstrap: root rights are needed for: $*" >&2
    exit 1
  fi
}
apt() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@"; }

# True if apt can install a Catch2 that is new enough, from the given release or from any.
catch2_available() {
  apt-cache madison catch2 2>/dev/null | while IFS='|' read -r _ version source; do
    case $source in *"${1:-}"*) ;; *) continue ;; esac
    # shellcheck disable=SC2086 # the blanks around the version go
    if dpkg --compare-versions $version ge "$catch2_needed"; then echo yes; break; fi
  done | grep -q yes
}

echo "bootstrap: installing $wanted"
apt update

case " $wanted " in
  *" catch2 "*)
    # shellcheck source=/dev/null
    . /etc/os-release
    backports="${VERSION_CODENAME:-unknown}-backports"
    if ! catch2_available && [ "${ID:-}" = debian ]; then
      # The mirror of the release also has its backports.
      # shellcheck disable=SC2016 # apt's own placeholders
      uri=$(apt-get indextargets --format '$(REPO_URI)|$(RELEASE)' |
        awk -F'|' -v release="$VERSION_CODENAME" '$2 == release { print $1; exit }')
      if [ -z "$uri" ]; then
        echo "bootstrap: no apt source names $VERSION_CODENAME" >&2
        exit 1
      fi
      echo "bootstrap: enabling $backports for Catch2 $catch2_needed"
      keyring=/usr/share/keyrings/debian-archive-keyring.gpg
      {
        printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\n' "$uri" "$backports"
        if [ -f $keyring ]; then echo "Signed-By: $keyring"; fi
      } | as_root tee "/etc/apt/sources.list.d/$backports.sources" >/dev/null
      apt update
    fi
    if ! catch2_available; then
      echo "bootstrap: no apt source has Catch2 $catch2_needed or newer; please install it by hand" >&2
      exit 1
    fi
    # apt never chooses backports by default.
    if catch2_available "$backports"; then
      wanted=$(echo "$wanted" | sed "s|catch2|catch2/$backports|")
    fi
    ;;
esac

# shellcheck disable=SC2086 # a list of packages
apt install --no-install-recommends $wanted
echo "bootstrap: done"
