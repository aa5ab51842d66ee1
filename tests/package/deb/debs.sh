#!/bin/sh
# debs.sh build CPACK CONFIG FOLDER: makes the Debian packages.
# debs.sh lint FOLDER [TAG...]: lintian finds nothing in them, whatever TAGs say.
# debs.sh install FOLDER ROOT: dpkg installs them into an empty ROOT, with the dependencies that this machine has, and the
# programs that they have run.
# debs.sh with ROOT COMMAND...: runs the command, if they are there.
# debs.sh purge FOLDER ROOT: dpkg removes them, and nothing is left.
# Exits with 77 where a tool for this, a package, or root's rights, which dpkg needs, are not there.
set -eu
action=$1
shift

need() {
  for tool; do command -v "$tool" >/dev/null || { echo "skipped: there is no $tool"; exit 77; }; done
}
need_root() {
  [ "$(id -u)" = 0 ] || { echo "skipped: dpkg needs root's rights"; exit 77; }
}
packages() {
  for package in "$1"/*.deb; do dpkg-deb --field "$package" Package; done
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
  install)
    need dpkg
    need_packages "$1"
    need_root
    rm -rf "$2"
    admin="$2/var/lib/dpkg"
    mkdir -p "$admin/updates" "$admin/triggers" "$admin/info" "$2/bin" "$2/sbin" "$2/etc"
    # What is installed here counts as installed there, so that dpkg holds the packages to what they depend on.
    cp /var/lib/dpkg/status "$admin"
    ln -s -t "$admin/info" /var/lib/dpkg/info/*.list
    # Scripts of packages, which run in the root, have a shell and ldconfig.
    cp /bin/sh /sbin/ldconfig "$2/sbin"
    ldd /bin/sh | grep -o '/[^ ]*' | xargs -I FILE cp --parents FILE "$2"
    ln -s ../sbin/sh "$2/bin/sh"
    dpkg --root="$2" --force-unsafe-io --install "$1"/*.deb
    faults=$(dpkg --root="$2" --audit $(packages "$1") && dpkg --root="$2" --verify $(packages "$1"))
    [ -z "$faults" ] || { echo "$faults"; exit 1; }
    if [ -x "$2/usr/bin/lockstep_bench" ]; then
      "$2/usr/bin/lockstep_bench" all_reduce -b 1K -e 1K -n 2 --replicas 2
    fi
    if [ -x "$2/usr/bin/vgpu-run" ]; then
      "$2/usr/bin/vgpu-run" -n 2 -- sh -c 'test "$VGPU_DEVICES" = 2'
    fi
    ;;
  with)
    [ -d "$1/usr" ] || { echo "skipped: no packages are installed in $1"; exit 77; }
    shift
    exec "$@"
    ;;
  purge)
    need_packages "$1"
    need_root
    dpkg --root="$2" --purge $(packages "$1")
    left=$(find "$2" -iname '*lockstep*' -o -name '*vgpu*')
    [ -z "$left" ] || { echo "left: $left"; exit 1; }
    ;;
esac
