#!/usr/bin/env bash
# Makes, once, a folder with Debian forky for the Pythons that this system does not have (3.14 and
# 3.15). Needs root, or says so. tools/in_forky.sh runs commands in it.
#
# The mirror is the one this machine's apt uses. pip inside uses the environment's settings, so the
# certificate files they name are copied to the same places.
source "$(dirname "$0")/environment.sh"

packages=(python3.14-dev python3.14-venv python3.15-dev python3.15-venv gcc libc6-dev make cmake
    ninja-build zlib1g-dev libzstd-dev libjansson-dev libcurl4-openssl-dev libsqlite3-dev
    libpcre2-dev libdeflate-dev libmicrohttpd-dev libprotobuf-c-dev protobuf-c-compiler
    ca-certificates procps strace)

[ "$(id -u)" = 0 ] || die "Python 3.14 and 3.15 need root (debootstrap, chroot)"
lock forky

if [ ! -e "$FORKY/etc/debian_version" ] || [ -e "$FORKY/debootstrap" ]; then
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
        grep -E '/debian/?$' | head -n 1)
    [ -n "$mirror" ] || die "no Debian mirror in apt's sources"
    say "making Debian forky in $FORKY (about a minute, 0.7 GB)"
    make_folder() {
        umount "$FORKY/proc" 2>/dev/null || true
        grep -qF " $FORKY/" /proc/self/mounts && die "something is mounted in $FORKY"
        rm -rf "$FORKY"
        debootstrap --variant=minbase --include="$(IFS=,; echo "${packages[*]}")" \
            forky "$FORKY" "$mirror" sid </dev/null >"$CACHE/debootstrap.log" 2>&1
    }
    fetch make_folder || {
        tail -n 20 "$CACHE/debootstrap.log" >&2
        die "debootstrap failed, see $CACHE/debootstrap.log"
    }
fi

for file in /etc/ssl/certs/ca-certificates.crt /etc/pip.conf /etc/resolv.conf \
    "${SSL_CERT_FILE:-}" "${PIP_CERT:-}" "${REQUESTS_CA_BUNDLE:-}"; do
    if [ -f "$file" ] && ! cmp -s "$file" "$FORKY$file"; then
        mkdir -p "$(dirname "$FORKY$file")"
        cp -L --remove-destination "$file" "$FORKY$file"
    fi
done

rm -f "$FORKY/.copied"
if ! "$ROOT/tools/in_forky.sh" true 2>/dev/null; then
    say "no mounts here: copying the checkout into forky"
    rm -rf "${FORKY:?}$ROOT"
    mkdir -p "$FORKY$ROOT"
    tar -c -C "$ROOT" --exclude=./build --exclude=node_modules . | tar -x -C "$FORKY$ROOT"
    touch "$FORKY/.copied"
fi

missing=()
status() { chroot "$FORKY" dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null; }
for package in "${packages[@]}"; do
    [ "$(status "$package")" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
say "installing in forky: ${missing[*]}"
install_in_forky() {
    "$ROOT/tools/in_forky.sh" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends "${missing[@]}" </dev/null
}
# debootstrap left signed package lists; they are renewed only when they no longer serve.
renew_and_install() { "$ROOT/tools/in_forky.sh" apt-get update -q && install_in_forky; }
install_in_forky || fetch renew_and_install ||
    die "could not install in forky: ${missing[*]}"
