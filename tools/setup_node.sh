#!/usr/bin/env bash
# Installs the packages of ui/ as its lock file has them. The system's node serves from version
# 20.19 on; where it is older or absent (Debian bookworm has 18), one from a Python wheel does.
#
# Leaves $CACHE/node/commands when it had to; tools/environment.sh has that on PATH.
source "$(dirname "$0")/environment.sh"

[ -f "$ROOT/ui/package-lock.json" ] || die "ui/package-lock.json is missing"
lock node
serves() {
    command -v npm >/dev/null &&
        node -e 'const [a, b] = process.versions.node.split(".");
                 process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)' 2>/dev/null
}
if ! serves; then
    say "installing node into the cache folder"
    make_venv /usr/bin/python3 "$CACHE/node" tools/requirements-node.txt
    # Only these commands: the folder they come from has a python3 that must not be on PATH.
    mkdir -p "$CACHE/node/commands"
    for command in node npm npx; do
        ln -sf "../bin/$command" "$CACHE/node/commands/$command"
    done
    hash -r
fi

hash=$(content_hash ui/package.json ui/package-lock.json)
[ "$(cat "$ROOT/ui/node_modules/.installed" 2>/dev/null)" = "$hash" ] && exit 0
say "installing the packages of ui/"
(cd "$ROOT/ui" && fetch npm ci --no-audit --no-fund --loglevel=error </dev/null)
echo "$hash" >"$ROOT/ui/node_modules/.installed"
