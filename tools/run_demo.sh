#!/usr/bin/env bash
# Installs the package as a user would, then runs the demo service under it; `make run` calls it.
# demo/run finds the environment's python and pyrometer first on PATH.
source "$(dirname "$0")/environment.sh"

"$ROOT/tools/setup_system.sh" build
"$ROOT/tools/setup_python.sh" \
    "$(/usr/bin/python3 -c 'import platform; print(platform.python_version())')"
IFS=$'\t' read -r version python place <"$STATE/pythons"
[ "$place" = - ] || die "Python $version is not of this system"
say "running the demo with Python $version"
cd "$ROOT"
VIRTUAL_ENV=$(dirname "$(dirname "$python")") PATH=$(dirname "$python"):$PATH \
    exec "$ROOT/demo/run" "$@"
