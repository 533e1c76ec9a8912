#!/usr/bin/env bash
# Source archive and wheel, in dist/. The wheel is of Debian's python3 and tagged for this system:
# it needs libc and nothing else, which is checked here.
source "$(dirname "$0")/environment.sh"

"$ROOT/tools/setup_system.sh" build
lock package
make_venv /usr/bin/python3 "$CACHE/package" tools/requirements-package.txt
cd "$ROOT"
rm -rf dist
"$CACHE/package/bin/python" -m build --outdir dist . </dev/null
check=$(mktemp -d)
trap 'rm -rf "$check"' EXIT
"$CACHE/package/bin/python" -m zipfile -e dist/*.whl "$check"
find "$check" -name '*.so' -o -path '*/_bin/*' -type f | while read -r file; do
    # The dynamic linker and glibc's own libraries are what "libc" means here.
    if foreign=$(objdump -p "$file" | awk '$1 == "NEEDED" { print $2 }' |
        grep -vE '^(libc|libm|libpthread|libdl|librt|ld-linux-[a-z0-9-]+)\.so'); then
        die "${file#"$check"/} needs $foreign"
    fi
done
ls -l dist
