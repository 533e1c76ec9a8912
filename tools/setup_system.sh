#!/usr/bin/env bash
# Installs the Debian packages that the named purposes need: build, check, test, servers, bench,
# forky, fuzz. Does nothing, and takes no time, when they are there.
source "$(dirname "$0")/environment.sh"

missing=()
# need PACKAGE [COMMAND]: a command on PATH will do, from wherever it came.
need() {
    if [ $# -gt 1 ]; then
        command -v "$2" >/dev/null && return
    else
        dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed && return
    fi
    missing+=("$1")
}

for purpose in "${@:-build}"; do
    case $purpose in
    build)
        need gcc gcc; need libc6-dev; need make make; need cmake cmake; need ninja-build ninja
        need binutils nm; need zlib1g-dev; need libzstd-dev; need libjansson-dev
        need libcurl4-openssl-dev; need libsqlite3-dev; need libpcre2-dev; need libdeflate-dev # src/server
        need libmicrohttpd-dev
        need libprotobuf-c-dev; need protobuf-c-compiler protoc-c
        need python3 python3; need python3-venv; need python3-dev; need ca-certificates
        ;;
    check)
        need clang-format clang-format; need git git
        ;;
    test)
        need libcmocka-dev; need chromium chromium
        need golang-go go; need strace strace
        need procps ps; need util-linux setarch
        need libjemalloc2 # tests/accuracy
        need git git; need openssl openssl; need iproute2 ip # tests/export
        need curl curl                                      # tests/server
        ;;
    servers)
        need uwsgi-core uwsgi-core; need uwsgi-plugin-python3; need redis-server redis-server
        need libcrypt-dev # PyPI's uWSGI is compiled
        ;;
    bench) need wrk wrk; need strace strace; need util-linux taskset ;;
    forky) need debootstrap debootstrap; need util-linux unshare ;;
    fuzz) need clang clang; need libclang-rt-14-dev ;;
    *) die "unknown purpose: $purpose" ;;
    esac
done

[ ${#missing[@]} -eq 0 ] && exit 0
command -v apt-get >/dev/null || die "install these first: ${missing[*]}"
lock system
as_root=()
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "as root, install these first: ${missing[*]}"
    as_root=(sudo)
fi
say "installing ${missing[*]}"
install() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends "${missing[@]}" </dev/null
}
# The package lists are renewed only when they do not serve: a mirror may be too old to give new ones.
renew_and_install() { "${as_root[@]}" apt-get update -q && install; }
install || fetch renew_and_install
