#!/usr/bin/env bash
# Makes a virtual environment for every supported Python found, with the test tools and the package
# as it is in this checkout. Quick when nothing changed. Arguments, if any, choose Pythons by the
# beginning of their version (3.11 3.15). Looked for: the system's python3, pyenv, and forky.
#
# Leaves $STATE/pythons: one line each of version, interpreter, and "forky" or "-".
source "$(dirname "$0")/environment.sh"

wanted=("$@")
is_wanted() {
    [ ${#wanted[@]} -eq 0 ] && return 0
    local prefix
    for prefix in "${wanted[@]}"; do
        case $1 in "$prefix" | "$prefix".*) return 0 ;; esac
    done
    return 1
}

found=() # "version interpreter place"
minors=" "
consider() { # INTERPRETER PLACE [PREFIX...]
    local interpreter=$1 place=$2 version
    shift 2
    version=$("$@" "$interpreter" -c 'import platform; print(platform.python_version())' \
        2>/dev/null) || return 0
    case $version in 3.11.* | 3.12.* | 3.13.* | 3.14.* | 3.15.*) ;; *) return 0 ;; esac
    is_wanted "$version" || return 0
    case " ${found[*]-} " in *" $version "*) return 0 ;; esac
    found+=("$version $interpreter $place")
    minors+="$(echo "$version" | cut -d. -f1,2) "
}

"$ROOT/tools/setup_system.sh" build
lock "$(basename "$STATE")"
consider /usr/bin/python3 -
for interpreter in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[1-5].*/bin/python3; do
    consider "$interpreter" -
done
in_forky="$ROOT/tools/in_forky.sh"
for minor in 3.14 3.15; do
    case $minors in *" $minor "*) continue ;; esac
    is_wanted "$minor" || case " ${wanted[*]} " in *" $minor."*) ;; *) continue ;; esac
    "$ROOT/tools/setup_system.sh" forky
    "$ROOT/tools/setup_forky.sh"
    consider "/usr/bin/python$minor" forky "$in_forky"
done
[ ${#found[@]} -gt 0 ] || die "no supported Python found (3.11 to 3.15)"

sources=$(content_hash CMakeLists.txt pyproject.toml README.md LICENSE src python ui/dist)
mkdir -p "$STATE"

# folder_of VERSION PLACE: of the environment, as seen by its Python.
folder_of() {
    if [ "$2" = forky ]; then echo "/opt/pyrometer/$(basename "$STATE")/$1"; else echo "$STATE/$1"; fi
}
prepare() { # VERSION INTERPRETER PLACE
    local version=$1 interpreter=$2 place=$3 prefix=() folder installed log
    [ "$place" = forky ] && prefix=("$in_forky")
    folder=$(folder_of "$version" "$place")
    # 3.11 on Debian has no pip of its own outside a virtual environment; inside one it always has.
    make_venv "$interpreter" "$folder" tools/requirements-test.txt ${prefix[@]+"${prefix[@]}"}
    installed=$(${prefix[@]+"${prefix[@]}"} cat "$folder/installed" 2>/dev/null || true)
    [ "$installed" = "$sources" ] && return
    say "installing pyrometer for Python $version"
    log=$STATE/install-$version.log
    ${prefix[@]+"${prefix[@]}"} "$folder/bin/python" -m pip install -v --no-build-isolation \
        --no-deps --force-reinstall --config-settings=build-dir="$folder/build" "$ROOT" \
        </dev/null >"$log" 2>&1 || {
        tail -n 30 "$log" >&2
        die "pip install failed for Python $version, see $log"
    }
    printf '%s' "$sources" |
        ${prefix[@]+"${prefix[@]}"} tee "$folder/installed" >/dev/null
}

# As many at a time as there are CPUs: each waits for downloads, and for what takes one CPU alone.
running=0
failed=0
for entry in "${found[@]}"; do
    read -r version interpreter place <<<"$entry"
    if [ $running -ge "$(nproc)" ]; then
        wait -n || failed=1
        running=$((running - 1))
    fi
    prepare "$version" "$interpreter" "$place" &
    running=$((running + 1))
done
for (( ; running > 0; running--)); do
    wait -n || failed=1
done
[ $failed = 0 ] || exit 1
for entry in "${found[@]}"; do
    read -r version interpreter place <<<"$entry"
    printf '%s\t%s\t%s\n' "$version" "$(folder_of "$version" "$place")/bin/python" "$place"
done >"$STATE/pythons.new"
mv "$STATE/pythons.new" "$STATE/pythons"
for minor in 3.11 3.12 3.13 3.14 3.15; do
    case "$minors" in *" $minor "*) ;; *)
        [ ${#wanted[@]} -gt 0 ] || say "absent: Python $minor (not found on this machine)"
        ;;
    esac
done
