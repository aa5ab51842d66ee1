#!/bin/sh
# debs.sh build CPACK CONFIG FOLDER: makes the Debian packages.
# debs.sh lint FOLDER [TAG...]: lintian finds nothing in them, whatever TAGs say.
# debs.sh unpack FOLDER ROOT: unpacks them, and runs the programs that they have.
# Exits with 77 where a tool for this, or a package, is not there.
set -eu
action=$1
shift

need() {
  for tool; do command -v "$tool" >/dev/null || { echo "skipped: there is no $tool"; exit 77; }; done
}
need_packages() {
  ls "$1"/*.deb >/dev/null 2>&1 || { echo "skipped: there are no packages in $1"; exit 77; }
}

case $action in
  build)
    need dpkg-deb dpkg-shlibdeps file readelf strip gzip
    rm -rf "$3"
    "$1" -G DEB --config "$2" -B "$3"
    rm -rf "$3/_CPack_Packages"
    ;;
  lint)
    need lintian
    folder=$1
    need_packages "$folder"
    shift
    lintian --allow-root --fail-on error,warning ${1:+--suppress-tags "$(echo "$*" | tr ' ' ',')"} "$folder"/*.deb
    ;;
  unpack)
    need dpkg-deb
    need_packages "$1"
    rm -rf "$2"
    for package in "$1"/*.deb; do
      dpkg-deb --info "$package" control
      dpkg-deb --extract "$package" "$2"
    done
    if [ -x "$2/usr/bin/lockstep_bench" ]; then
      "$2/usr/bin/lockstep_bench" all_reduce -b 1K -e 1K -n 2 --replicas 2
    fi
    if [ -x "$2/usr/bin/vgpu-run" ]; then
      "$2/usr/bin/vgpu-run" -n 2 -- sh -c 'test "$VGPU_DEVICES" = 2'
    fi
    ;;
esac
