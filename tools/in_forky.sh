#!/usr/bin/env bash
# Runs a command inside the forky folder, in the current folder: tools/in_forky.sh COMMAND [ARG...]
#
# The checkout is there under its own path. Mounts live in a namespace of this one command: were
# they left behind in the cache folder, whoever empties the cache would empty the checkout too.
# Where mounting is not permitted, setup_forky.sh has left a copy.
source "$(dirname "$0")/environment.sh"

[ $# -gt 0 ] || die "usage: tools/in_forky.sh COMMAND [ARG...]"
if [ -e "$FORKY/.copied" ]; then
    exec chroot "$FORKY" env -C "$PWD" "$@"
fi
mkdir -p "$FORKY$ROOT"
# shellcheck disable=SC2016
exec unshare --mount --propagation slave bash -c '
    set -e
    forky=$1 root=$2 folder=$3
    shift 3
    mountpoint -q "$forky/proc" || mount -t proc proc "$forky/proc"
    mount --rbind /dev "$forky/dev"
    mount --rbind /sys "$forky/sys"
    mount --bind "$root" "$forky$root"
    exec chroot "$forky" env -C "$folder" "$@"
' in_forky "$FORKY" "$ROOT" "$PWD" "$@"
