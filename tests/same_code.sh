#!/bin/sh
# SPDX-License-Identifier: MIT
# Shows that a change of names and comments changed no code: compares every object file of two
# build folders instruction by instruction, with the names of symbols mapped to numbers in the order
# in which they appear, then their data.
#     tests/same_code.sh OLD_BUILD NEW_BUILD
# Both builds: the same compiler and flags, --disable-shared.
set -eu
[ $# = 2 ] || { echo "usage: $0 OLD_BUILD NEW_BUILD" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Instructions and relocations. Names of symbols become S1, S2, ...; those of sections stay, as they
# begin with a point. Data: bytes and relocations.
code() {
    objdump -dr --no-show-raw-insn "$1" | sed '1,/^Disassembly/d' | awk '
        function mapped(name) {
            if (name ~ /^\./)
                return name
            if (!(name in number))
                number[name] = ++count
            return "S" number[name]
        }
        match($0, /<[^>+]+/) {
            name = substr($0, RSTART + 1, RLENGTH - 1)
            $0 = substr($0, 1, RSTART) mapped(name) substr($0, RSTART + RLENGTH)
        }
        / R_[A-Z0-9_]+\t/ {
            n = split($0, part, "\t")
            name = part[n]
            sub(/[-+]0x[0-9a-f]+$/, "", name)
            addend = substr(part[n], length(name) + 1)
            $0 = part[n - 1] " " mapped(name) addend
        }
        { print }'
    objdump -s -j .rodata -j .data -j .data.rel.ro -j .data.rel.ro.local "$1" 2>/dev/null | sed 1,2d
}

status=0
compared=0
for old in $(cd "$1" && find . -name '*.o' | sort); do
    [ -f "$2/$old" ] || { echo "only in $1: $old"; status=1; continue; }
    code "$1/$old" >"$work/old"
    code "$2/$old" >"$work/new"
    if ! cmp -s "$work/old" "$work/new"; then
        echo "differs: $old ($(diff "$work/old" "$work/new" | grep -c '^[<>]') lines)"
        status=1
    fi
    compared=$((compared + 1))
done
echo "$compared objects compared"
exit $status
