#!/bin/sh
# SPDX-License-Identifier: MIT
# The shared library exports exactly tests/exports.list, which is what tsa.h declares; and each
# unit of kernels has exactly one global symbol, its table.
set -eu
export LC_ALL=C
: "${NM:=nm}"
failed=0
complain() { echo "$*" >&2; failed=1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sed -n '/^#/d; p' "$TSA_TEST_SOURCE/tests/exports.list" | sort >"$work/list"
tr '\n' ' ' <"$TSA_TEST_SOURCE/src/tsa.h" | sed 's/TSA_API/\n&/g' |
    sed -n 's/^TSA_API [^;(]*[ *]\(tsa_[a-z0-9_]*\)(.*/\1/p' | sort >"$work/header"
diff "$work/list" "$work/header" >"$work/diff" || {
    complain "exports.list (<) and tsa.h (>) differ:"; cat "$work/diff" >&2; }

# NM may hold options. Names in __ are of the compiler and its sanitizers.
globals() { $NM "$@" | awk 'NF == 3 && $2 ~ /^[A-TV-Z]$/ { print $3 }'; }

library=$TSA_TEST_BUILD/.libs/libtsa.so
if [ -f "$library" ]; then
    globals -D "$library" | sed '/^_init$/d; /^_fini$/d; /^_edata$/d; /^_end$/d; /^__bss_start$/d' \
        | sort >"$work/exported"
    diff "$work/list" "$work/exported" >"$work/diff" || {
        complain "exports.list (<) and libtsa.so (>) differ:"; cat "$work/diff" >&2; }
else
    echo "no shared library here: only the header was compared"
fi

seen=
for source in "$TSA_TEST_SOURCE"/simd/*_f32.c "$TSA_TEST_SOURCE"/simd/*_f64.c \
              "$TSA_TEST_SOURCE"/simd/*_bf16.c; do
    unit=$(basename "$source" .c)
    for object in "$TSA_TEST_BUILD"/simd/.libs/libk_*_la-"$unit".o \
                  "$TSA_TEST_BUILD"/simd/libk_*_la-"$unit".o; do
        [ -f "$object" ] || continue
        found=$(globals "$object" | sed 's/^_tsa/tsa/; /^__/d' | tr '\n' ' ')
        [ "$found" = "tsa_kernels_$unit " ] || complain "global symbols of $object: $found"
        seen="$seen $unit"
    done
done
for isa in ${TSA_TEST_ISAS:-scalar}; do
    for unit in "${isa}_f32" "${isa}_f64"; do
        case " $seen " in *" $unit "*) ;; *) complain "no object of simd/$unit.c was found" ;; esac
    done
done
exit $failed
