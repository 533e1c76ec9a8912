#!/usr/bin/env bash
# Makes a virtual environment with the servers of tests/workers for a Python, and prints its folder:
# tools/setup_servers.sh INTERPRETER. Quick when it is there.
source "$(dirname "$0")/environment.sh"

[ $# -eq 1 ] || die "usage: setup_servers.sh INTERPRETER"
"$ROOT/tools/setup_system.sh" build servers >&2
version=$("$1" -c 'import platform; print(platform.python_version())')
lock "servers-$version"
make_venv "$1" "$CACHE/servers/$version" tools/requirements-servers.txt >&2
echo "$CACHE/servers/$version"
