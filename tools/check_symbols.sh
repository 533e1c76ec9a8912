#!/usr/bin/env bash
# Every external symbol of the core starts with pyr_, so that nothing of ours can clash with a host.
# Arguments: static libraries.
source "$(dirname "$0")/environment.sh"

[ $# -gt 0 ] || die "usage: tools/check_symbols.sh LIBRARY..."
symbols=$(nm --extern-only --defined-only --format=posix "$@" | awk 'NF >= 2 { print $1 }')
[ -n "$symbols" ] || die "no symbols in $*"
if bad=$(grep -v '^pyr_' <<<"$symbols"); then
    echo "$bad" | sed 's/^/not pyr_: /'
    exit 1
fi
# Two of one name in different archives would not be noticed by the linker: it takes the first.
if twice=$(sort <<<"$symbols" | uniq -d) && [ -n "$twice" ]; then
    echo "$twice" | sed 's/^/defined twice: /'
    exit 1
fi
echo "symbols: good ($(wc -l <<<"$symbols"))"
