#!/bin/sh
# SPDX-License-Identifier: MIT
# The folders of the benchmark call in one direction only: bench/paper -> bench/contend -> bench ->
# library. No file includes a header, or names a function, of a folder further up.
set -eu
: "${TSA_TEST_SOURCE:=.}"
cd "$TSA_TEST_SOURCE"
failed=0
# none PATTERN FILE...: no file has the pattern
none() {
    pattern=$1; shift
    if grep -nE "$pattern" "$@" /dev/null; then
        echo "the lines above reach into a folder further up: $pattern" >&2
        failed=1
    fi
}
none '"(contend|paper)/|\b(contend|paper)_[a-z]+\(|\b(contend|paper)\.h"' bench/*.[ch]
none '"(\.\./)?paper/|\bpaper_[a-z]+\(|\bpaper\.h"' bench/contend/*.[ch]
none '"(bench|contend/.*|paper/.*)\.h"|\b(bench|contend|paper)_[a-z]+\(' src/*.[ch] simd/*.[ch]
exit $failed
