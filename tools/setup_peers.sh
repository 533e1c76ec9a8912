#!/usr/bin/env bash
# Makes a virtual environment with Datadog's library and test agent for a Python, and prints its
# folder: tools/setup_peers.sh INTERPRETER. Quick when it is there.
source "$(dirname "$0")/environment.sh"

[ $# -eq 1 ] || die "usage: setup_peers.sh INTERPRETER"
version=$("$1" -c 'import platform; print(platform.python_version())')
lock "peers-$version"
make_venv "$1" "$CACHE/peers/$version" tools/requirements-peers.txt
echo "$CACHE/peers/$version"
