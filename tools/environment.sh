# Sourced by the setup and check scripts: where things are, and how to speak.
#
# Everything that is installed for development lives in one cache folder outside the checkout;
# what belongs to one checkout (virtual environments with its package in them) has a folder of its
# own there, named after the checkout's path, so that two checkouts never share a build.
set -euo pipefail
trap 'echo "error: ${BASH_SOURCE[0]##*/} line $LINENO: $BASH_COMMAND" >&2' ERR

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
CACHE=${PYROMETER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pyrometer}
STATE=$CACHE/checkouts/$(printf '%s' "$ROOT" | sha256sum | cut -c1-10)
BUILD=${PYROMETER_BUILD:-$ROOT/build}
FORKY=$CACHE/forky
PATH=$CACHE/node/commands:$PATH # there only where setup_node.sh had to install node
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

say() { printf '==> %s\n' "$*"; }
die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# A command that fetches: mirrors fail for moments, so it has three tries.
fetch() {
    "$@" && return
    say "once more in 5 s: $1"
    sleep 5
    "$@" && return
    say "once more in 20 s: $1"
    sleep 20
    "$@"
}

# One script at a time, so that two runs at once do not install into the same folder.
lock() {
    mkdir -p "$CACHE"
    exec 9>"$CACHE/$1.lock"
    flock 9
}

# A hash over the names and contents of files and folders: a stamp that says "nothing changed".
# What does not exist is left out.
content_hash() {
    (cd "$ROOT" && { find "$@" -type f -not -path '*/__pycache__/*' -print0 2>/dev/null || true; } |
        sort -z | xargs -0 sha256sum | sha256sum | cut -c1-20)
}

# A virtual environment in folder $2 made by interpreter $1 holding the packages of file $3, by a
# command prefix in the remaining arguments (empty, or "chroot FOLDER").
make_venv() {
    local python=$1 folder=$2 requirements=$3 stamp seen
    shift 3
    stamp="$python $("$@" "$python" -c 'import sys; print(sys.version)') $(content_hash "$requirements")"
    seen=$("$@" cat "$folder/stamp" 2>/dev/null || true)
    [ "$seen" = "$stamp" ] && return
    "$@" "$python" -m venv --clear "$folder"
    fetch "$@" "$folder/bin/python" -m pip install -q -r "$ROOT/$requirements"
    printf '%s' "$stamp" | "$@" tee "$folder/stamp" >/dev/null
}
