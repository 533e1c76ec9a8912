#!/usr/bin/env bash
# Makes a virtual environment with the servers of tests/workers for a Python, and prints its folder:
# tools/setup_servers.sh INTERPRETER. Quick when it is there; all environments of a Python share it.
source "$(dirname "$0")/environment.sh"

[ $# -eq 1 ] || die "usage: setup_servers.sh INTERPRETER"
"$ROOT/tools/setup_system.sh" build servers >&2
base=$("$1" -c 'import sys; print(sys._base_executable)')
version=$("$base" -c 'import platform; print(platform.python_version())')
lock "servers-$version"
make_venv "$base" "$CACHE/servers/$version" tools/requirements-servers.txt >&2
echo "$CACHE/servers/$version"
