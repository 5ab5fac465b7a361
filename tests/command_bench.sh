#!/bin/sh
# SPDX-License-Identifier: MIT
# The subcommands tsa bench and tsa paper at work.
# shellcheck source=tests/command_lib.sh
. "$(dirname "$0")/command_lib.sh"

[ "${TSA_TEST_BENCH:-yes}" = yes ] || exit 77

# The benchmark of mixed plans: its exit code says whether an output was wrong.
bench() {
    check "bench $*" "$TSA" bench --threads 1 --seconds 1e-6 --repeats 1 "$@"
    mv ../said ../out
}
bench --json --compute mixed prefill:n130:d5:dv7 prefill:n130:d5:dv7:e0 decode:n70:d5:dv7 \
    absorb:n130:d5:dv7:t4:e3 prefill:n130:d5:dv7:e3 softmax:n70
for problem in prefill:.*:e2 prefill:.*:e0 decode:.*:e2 absorb:.*:e3; do
    check "$problem is mixed" grep -q "\"$problem\",.*\"compute\": \"mixed\"" ../out
done
for problem in prefill:.*:e3 softmax:.*:t3; do
    check "$problem is not mixed" grep -q "\"$problem\",.*\"compute\": \"f32\"" ../out
done
check 'the peak of bf16' test "$(grep -c '"peak_bf16_gflops": [0-9n]' ../out)" -eq 6
bench --csv --grid --odd --max-mb 1 --min-elements 70000 --compute mixed
check 'f32 beside it' grep -q '^prefill:.*:e2,.*,mixed,.*,f32,[0-9.]*,[0-9.]*,[0-9.]*$' ../out
bench --csv --kernels prefill:d5:dv7
pairs=$(grep -c ',bf16,' ../out)
check "kernels of pairs: $pairs" test "$pairs" -ge 10 -a $((pairs % 10)) -eq 0

# OpenBLAS is loaded when it is asked for, and then chooses its core itself.
works_quietly() { OPENBLAS_VERBOSE=2 "$TSA" info >../out 2>&1 && ! grep -q '^Core:' ../out; }
check 'the command is linked with no OpenBLAS' works_quietly
chooses() {
    OPENBLAS_CORETYPE=Prescott "$TSA" bench --contenders --csv --seconds 1e-6 --repeats 1 \
        softmax:n64 >../out && ! grep -qi '^# openblas .*core prescott' ../out
}
check 'OpenBLAS chooses its core' chooses

# The benchmark's contenders for softmax. Its exit code says whether an output of one was wrong.
# Those by hand are always there, the others where their library is.
"$TSA" info >infos
for isa in $(sed -n 's/^ *usable here *//p' infos); do
    check "softmax contenders, $isa" "$TSA" bench --contenders --csv --isa "$isa" --threads 1 \
        --seconds 1e-6 --repeats 1 softmax:n70:d5:dv7 softmax:n130 softmax-decode:n70:d5:dv7 \
        softmax-decode:n130
    mv ../said ../out
    rows='softmax,hand_sleef softmax,hand_poly7 softmax-decode,hand_sleef softmax-decode,hand_poly7'
    grep -q '^# openblas .* 1 thread$' ../out &&
        rows="$rows softmax,openblas_online softmax,openblas_nomax softmax-decode,openblas_gemv"
    grep -q '^# libxsmm .* target ' ../out &&
        rows="$rows softmax,libxsmm_sleef softmax,libxsmm_poly7"
    for row in $rows; do
        is_twice() { [ "$(grep -c "^${1%,*}:.*,${1#*,},$isa,f32,1," ../out)" -eq 2 ]; }
        check "softmax contenders, $isa: $row" is_twice "$row"
    done
done

# The plain recurrence beside decoding, for every shape that has a step of its own, for others, for
# many heads, and after fewer tokens than a chunk has.
plain='decode:n70:d5:dv7:t4 decode:n130 decode:n65:dv16 decode:n65:dv128 decode:n40:d64
    decode:b2:h3:n70:d9:dv130:t2 decode:n20:d4:dv5:t1'
for isa in $(sed -n 's/^ *usable here *//p' infos); do
    # shellcheck disable=SC2086
    check "the plain recurrence, $isa" "$TSA" bench --contenders --json --isa "$isa" --threads 1 \
        --seconds 1e-6 --repeats 1 $plain
    mv ../said ../out
    check "plain_c, $isa" test "$(grep -c '"contender": "plain_c".*"ratio": [0-9]' ../out)" -eq 7
done
check 'none where heads share a state' "$TSA" bench --contenders --json --seconds 1e-6 --repeats 1 \
    decode:h4:k2:n70
check 'and none is printed' test "$(grep -c plain_c ../said)" = 0

# The paper's experiments, the quick form: exact facts hold, whatever the instruction set, and the
# files are there.
for list in 0 14 1,,2 1, x ''; do
    fails 2 "--only: '$list' found; wanted numbers from 1 to 13" paper --quick --only "$list"
done
fails 2 "--isa: 'sse' found" paper --quick --isa sse
fails 2 "'extra': unexpected" paper --quick extra
fails 2 "--out: '' found" paper --quick --out ''
fails 1 'nosuch/deep: cannot be made: No such' paper --quick --out nosuch/deep
fails 1 'q.npy: not a folder' paper --quick --out q.npy
if [ "$(id -u)" != 0 ]; then
    mkdir closed && chmod a-w closed
    fails 1 'closed: cannot be written: Permission denied' paper --quick --out closed
    rmdir closed
fi
works paper --quick --only 11 --out -dash
check 'a folder whose name begins with -' test -s ./-dash/paper.md
rm -rf ./-dash
works paper --quick --out paper --json
check 'no exact fact fails' test "$(number fail)" = 0
check 'exact facts were looked at' test "$(number hold)" -ge 20
for kind in 'elements per head, n = 3' 'differences over their bounds, all draws' \
    'compensated sums: differences over their bounds' 'negative entries, n = 5' \
    'cache at 131,072 tokens' 'errors over the bound of the remainder'; do
    check "paper looks at '$kind'" grep -q "^[0-9]*,\"*.*$kind.*,yes,\(reproduced\|holds\)," \
        paper/figures.csv
done
check 'the JSON is in its file too' \
    sh -c "tr -d ' ' <../out >a && tr -d ' ' <paper/paper.json >b && cmp a b"
ranks=1
if grep -q 'no LAPACKE' ../out; then ranks=0; fi
for number in 01 02 03 04 05 06 07 08 09 10 11 12 13; do
    [ $number$ranks = 040 ] || check "a table of experiment $number" ls paper/$number-*.csv
done
check 'a row for every number of terms' test "$(grep -c '^[1-6],' paper/01-lossless.csv)" = 6
check 'the size of the paper' grep -q '^3,9945,' paper/08-order.csv
check 'the figures in Markdown' grep -q '| elements per head, n = 3 | 9,945 | 9,945 |' \
    paper/paper.md
for file in paper/*.csv; do
    check "columns of $file have names of their own" test -z "$(sed -e 's/, / /g' -e 1q "$file" |
        tr , '\n' | sort | uniq -d)"
done
# The page: what code is, and how wide numbers and tables are; the processor in the quick form too.
check 'no backtick in the page' test "$(grep -c '`' paper/paper.html)" = 0
check 'code in the page' grep -q '<code>tsa paper</code>' paper/paper.html
check 'tables scroll by themselves' test "$(grep -c '^<div class="wide"><table>' paper/paper.html)" = \
    "$(grep -c '<table>' paper/paper.html)"
check 'exponents are not broken' test "$(grep -c '<td class="text[^<>]*>[^<]*\(<b>[^<]*<.b>[^<]*\)*[0-9]e-[0-9]' paper/paper.html)" = 0
for file in paper/paper.html paper/paper.md paper/paper.json; do
    check "the processor in $file" grep -q 'cpu          [^ ]' $file
done
check 'no temporary file' test -z "$(find paper -name '.tsa-*')"
plots=$(find paper -name '*.gp' | wc -l)
check 'scripts of plots' test "$plots" -ge 8
if command -v gnuplot >/dev/null 2>&1; then
    check 'plots in the page' test "$(grep -c '<svg' paper/paper.html)" = "$plots"
    check 'ids are unique' test -z "$(grep -o "id=['\"][^'\"]*" paper/paper.html | sort | uniq -d)"
fi
check 'a run without gnuplot' env PATH=/nonexistent "$TSA" paper --quick --only 11 --out plain
check 'without gnuplot the page says so' grep -q 'gnuplot was not found' plain/paper.html
check 'and has the tables' grep -q '<td>-6</td>' plain/paper.html
check 'but no plots' test -z "$(grep -l '<svg' plain/*.html)"
works paper --quick --only 1,2,11 --isa scalar --out scalar
for file in 01-lossless.csv 02-additive.csv 11-signed.csv; do
    check "the same figures without vectors: $file" cmp paper/$file scalar/$file
done
prints '^13  short' paper --list
rm -rf paper plain scalar a b

finish 'bench and paper'
