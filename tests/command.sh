#!/bin/sh
# SPDX-License-Identifier: MIT
# The command tsa: every way of refusing (exit code, one line that names the culprit, nothing left
# behind) and every option at work. TSA is the program, NPY_TOOL the maker of files.
set -u
export LC_ALL=C
unset TSA_ISA OMP_NUM_THREADS
: "${TSA_TEST_BUILD:=.}" "${TSA_TEST_SOURCE:=.}"
: "${TSA:=$TSA_TEST_BUILD/tsa}" "${NPY_TOOL:=$TSA_TEST_BUILD/tests/npy_tool}"
: "${TSA_DATA_DIR:=$TSA_TEST_SOURCE/../shared/data}"
for program in TSA NPY_TOOL; do
    eval "path=\$$program"
    # shellcheck disable=SC2154
    [ -x "$path" ] || { echo "no $program at $path: skipped"; exit 77; }
    case $path in /*) ;; *) eval "$program=\$PWD/\$path" ;; esac
done
case $TSA_DATA_DIR in /*) ;; *) TSA_DATA_DIR=$PWD/$TSA_DATA_DIR ;; esac

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
mkdir files && cd files || exit 1
good=0 bad=0
pass() { good=$((good + 1)); }
complain() { bad=$((bad + 1)); echo "FAILED: $*"; cat ../err 2>/dev/null; }
# check WHAT COMMAND...: the command succeeds.
check() {
    what=$1; shift
    if "$@" >../said 2>../err; then pass; else complain "$what: $*"; cat ../said; fi
}

# fails CODE PATTERN ARGUMENTS...: one line on stderr with the name of the subcommand in front and
# the pattern in it; nothing on stdout; neither o.npy nor a temporary file.
fails() {
    code=$1 pattern=$2; shift 2
    rm -f o.npy
    "$TSA" "$@" >../out 2>../err
    found=$?
    case ${1:-} in
        attend | size | info | demo | bench | paper) start="tsa $1: " ;;
        *) start='tsa: ' ;;
    esac
    if [ $found -ne "$code" ]; then complain "exit $found, not $code: tsa $*"
    elif [ -s ../out ]; then complain "text on stdout: tsa $*"
    elif [ "$(wc -l <../err)" -ne 1 ]; then complain "not one line on stderr: tsa $*"
    elif ! grep -q "^$start" ../err; then complain "line does not begin with '$start': tsa $*"
    elif ! grep -q -e "$pattern" ../err; then complain "no '$pattern' in the line: tsa $*"
    elif [ -e o.npy ] || ls .tsa-* >/dev/null 2>&1; then complain "output left: tsa $*"
    else pass; fi
    rm -f .tsa-*
}
# works ARGUMENTS...: exit 0, silence on stderr; stdout is in ../out.
works() {
    "$TSA" "$@" >../out 2>../err
    found=$?
    if [ $found -ne 0 ] || [ -s ../err ]; then complain "exit $found: tsa $*"
    elif ls .tsa-* >/dev/null 2>&1; then complain "temporary file left: tsa $*"
    else pass; fi
}
# prints PATTERN ARGUMENTS...: works, and stdout has a line with the pattern.
prints() {
    pattern=$1; shift
    works "$@"
    if grep -q -e "$pattern" ../out; then pass; else complain "no '$pattern' from tsa $*"; fi
}
make() { "$NPY_TOOL" make "$@" || complain "npy_tool make $*"; }
# head FILE VERSION DICT BYTES: a file with this head and so many bytes of zeros for data.
# shellcheck disable=SC2059
head() {
    length=${#3}
    {
        printf '\223NUMPY'
        if [ "$2" -eq 1 ]; then printf '\001\000'; else printf "\\$2\\000"; fi
        printf "\\$(printf %03o $((length % 256)))\\$(printf %03o $((length / 256)))"
        [ "$2" -eq 1 ] || printf '\000\000'
        printf %s "$3"
        dd if=/dev/zero bs=1 count="$4" 2>/dev/null
    } >"$1"
}

make q.npy f4 1 2 4 70 5
make k.npy f4 2 2 2 70 5
make v.npy f4 3 2 2 70 7
attend() { works attend -q q.npy -k k.npy -v v.npy -o o.npy "$@"; }
refused() { fails "$1" "$2" attend -q q.npy -k k.npy -v v.npy -o o.npy ${3+"$3"} ${4+"$4"}; }

# -- usage: exit 2 -----------------------------------------------------------------------------
fails 2 'wanted a command'
fails 2 "'attnd' found; wanted a command" attnd
fails 2 "'--nosuch' found" --nosuch
fails 2 'state: not in this version' state file
for name in q k v o; do
    set -- attend
    for other in q k v o; do
        [ "$other" = "$name" ] || set -- "$@" -$other $other.npy
    done
    fails 2 "-$name: missing" "$@"
done
fails 2 "'extra.npy': unexpected" attend -q q.npy -k k.npy -v v.npy -o o.npy extra.npy
fails 2 '-o: needs a value' attend -q q.npy -k k.npy -v v.npy -o
refused 2 '--nosuch: unknown' --nosuch
refused 2 '-x: unknown' -x
refused 2 '--json=yes: takes no value' --json=yes
refused 2 '--terms: needs a value' --terms
for value in 0 9 -1 +3 3x '' ' 3' 3.0 99999999999999999999 18446744073709551619; do
    refused 2 "--terms: '$value' found; wanted an integer from 1 to 8" --terms "$value"
done
for value in 0 1048577 x; do refused 2 "--chunk: '$value' found; wanted" --chunk $value; done
for value in -1 1x 2147483648; do refused 2 "--threads: '$value' found" --threads $value; done
refused 2 '--threads' --threads 2147483647
for value in -1 18446744073709551616; do refused 2 "--step: '$value' found" --step $value; done
for value in 0 -2 nan inf 1e999 2x '' ' 2'; do
    refused 2 "--temperature: '$value' found; wanted a finite number" --temperature "$value"
done
refused 2 '--temperature: ' --temperature 1e-320
refused 2 "--normalize: 'L2' found; wanted l2 or none" --normalize L2
refused 2 "--method: 'exact' found; wanted taylor or softmax" --method exact
for value in f8 bf 16 f16x ''; do
    refused 2 "--dtype: '$value' found; wanted f32, f64, bf16 or f16" --dtype "$value"
done
for value in bf16 f16; do
    fails 2 "--dtype: '$value' found; wanted f32 or f64" size --head-dim 16 --dtype $value
done
refused 2 '--coefficients: sphere is not in this version' --coefficients sphere
refused 2 '--coefficients: minimax is not in this version' --coefficients minimax
for value in tailor 1,,2 '1,' '' 1,x 1,nan; do
    refused 2 '--coefficients: ' --coefficients "$value"
done
refused 2 '--coefficients: .*at most 8' --coefficients 1,1,1,1,1,1,1,1,1
fails 2 '--coefficients: 2 numbers found; wanted 3' attend -q q.npy -k k.npy -v v.npy -o o.npy \
    --coefficients 1,1 --terms 3
refused 2 '--state-in: not in this version' --state-in s
refused 2 '--state-out: not in this version' --state-out s
refused 2 "--isa: 'mmx' found; usable here: .*scalar" --isa mmx
for value in f64 bf16 Mixed ''; do
    refused 2 "--compute: '$value' found; wanted f32, mixed or fastest" --compute "$value"
done
for value in 9 -1 1x ''; do
    fails 2 "--exact-degrees: '$value' found; wanted an integer from 0 to 8" attend -q q.npy \
        -k k.npy -v v.npy -o o.npy --compute mixed --exact-degrees "$value"
done
refused 2 '--exact-degrees: goes with --compute mixed or fastest' --exact-degrees 1
# unmixed PATTERN OPTIONS...: --compute mixed does not go with these.
unmixed() {
    pattern=$1; shift
    fails 2 "$pattern" attend -q q.npy -k k.npy -v v.npy -o o.npy --compute mixed "$@"
}
unmixed '--compute: compute is mixed, which wants dtype f32' --dtype f64
unmixed '--chunk: chunk is 63, wanted an even one' --chunk 63
unmixed '--compute: mixed and fastest go with --method taylor' --method softmax
fails 2 '--compute: .*wants dtype f32' size --head-dim 4 --value-dim 4 --compute mixed --dtype f64
fails 2 '--chunk: .*an even one' size --head-dim 4 --value-dim 4 --compute mixed --chunk 3
fails 2 "--exact-degrees: '9' found" size --head-dim 4 --value-dim 4 --exact-degrees 9
fails 2 '--exact-degrees: goes with --compute mixed or fastest' size --head-dim 4 --value-dim 4 \
    --exact-degrees 1
if [ "${TSA_TEST_BENCH:-yes}" = yes ]; then
fails 2 "--compute: 'f64' found; wanted f32, mixed or fastest" bench --compute f64
fails 2 "--exact-degrees: '9' found; wanted an integer from 0 to 8" bench --compute mixed --exact-degrees 9
fails 2 '--exact-degrees: with --compute mixed' bench --exact-degrees 1
fails 2 '--compute mixed: not with --dtype f64' bench --compute mixed --dtype f64
fails 2 "--seconds: '4000' found; wanted a number from 0.000001 to 3600" bench --seconds 4000
fails 2 "--seconds: 'x' found; wanted a finite number" bench --seconds x
fails 2 "--threads: '1025' found; wanted an integer from 0 to 1024" bench --threads 1025
fails 2 "--isa: 'sse' found" bench --isa sse
fails 2 '--csv and --json' bench --csv --json
fails 2 '--nosuch: unknown' bench --nosuch
fails 2 '--contenders: .*beside it' bench --grid --compute mixed --contenders
fails 2 "'e9': exact degrees must be 0..8" bench prefill:e9
fails 2 "'e1': exact degrees is given twice" bench prefill:e0:e1
fails 2 'e1: softmax is never mixed' bench softmax:e1
fails 2 "'nosuch' is no operation" bench nosuch:n5
fails 2 "'x5' is no field" bench prefill:x5
fails 2 "'n' is no field" bench prefill:n
fails 2 "'' is no field" bench prefill:
fails 2 "'n5x': digits are wanted after 'n'" bench prefill:n5x
fails 2 "'d0': head_dim must be 1..65536" bench prefill:d0
fails 2 "'n99999999999999999999': tokens must be" bench prefill:n99999999999999999999
fails 2 'k3 does not divide h4' bench prefill:h4:k3
else
    for word in bench paper; do
        fails 2 'not in this build of tsa' $word
        fails 2 'not in this build of tsa' $word --help
    done
    prints 'bench .*(not in this build)$' --help
fi
refused 2 '--compare: goes with --method taylor' --method=softmax --compare
refused 2 '--report: goes with --method taylor' --method=softmax --report
fails 2 '--head-dim: missing' size --value-dim 4
fails 2 '--value-dim: missing' size --head-dim 4
fails 2 "--head-dim: '0' found" size --head-dim 0 --value-dim 4
fails 2 "--head-dim: '18446744073709551616' found" size --head-dim 18446744073709551616
fails 2 '--kv-heads: 3 found; wanted a divisor' size --head-dim 4 --value-dim 4 --heads 4 \
    --kv-heads 3
fails 2 '--terms' size --head-dim 4 --value-dim 4 --terms 9
fails 2 "'x': unexpected" size --head-dim 4 --value-dim 4 x
fails 2 '--nosuch: unknown' info --nosuch
fails 2 '--tokens' demo --tokens 0
fails 2 '--isa' demo --isa mmx

# -- failures: exit 1 --------------------------------------------------------------------------
fails 1 'nosuch.npy: No such file' attend -q nosuch.npy -k k.npy -v v.npy -o o.npy
mkdir folder
fails 1 'folder: .*Is a directory' attend -q folder -k k.npy -v v.npy -o o.npy
fails 1 'folder: cannot be written: Is a directory' attend -q q.npy -k k.npy -v v.npy -o folder
fails 1 'nosuch/o.npy: cannot be written: No such' attend -q q.npy -k k.npy -v v.npy \
    -o nosuch/o.npy
fails 1 'q.npy/o.npy: cannot be written: Not a dir' attend -q q.npy -k k.npy -v v.npy \
    -o q.npy/o.npy
fails 1 'cannot be written' attend -q q.npy -k k.npy -v v.npy -o ''
fails 1 'two?lines.npy: No such file' attend -q 'two
lines.npy' -k k.npy -v v.npy -o o.npy

# file PATTERN: x.npy is refused as queries.
file() { fails 1 "x.npy: .*$1" attend -q x.npy -k k.npy -v v.npy -o o.npy; }
# dict PATTERN DICT: so is this head, followed by 24 bytes.
dict() { head x.npy 1 "$2" 24; file "$1"; }
f4="'descr': '<f4', 'fortran_order': False"
: >x.npy; file 'empty file'
echo text >x.npy; file 'no .npy file'
printf '\223NUM' >x.npy; file 'no .npy file'
printf '\223NUMPY\004\000\001\000{' >x.npy; file 'version 4.0 found; wanted 1.0, 2.0 or 3.0'
printf '\223NUMPY\001\001\001\000{' >x.npy; file 'version 1.1 found'
printf '\223NUMPY\001\000\001' >x.npy; file 'head cut short'
printf '\223NUMPY\001\000\100\000{' >x.npy; file 'head cut short: 1 of 64'
printf '\223NUMPY\002\000\377\377\377\377{' >x.npy; file 'head of 4294967295 bytes found'
for type in '>f4' '=f4' '|f4' '<f1' '>f2' '<i2' '>u2' '<i4' '<c8' '|b1' '|S4' 'f4' ''; do
    dict "dtype '$type' found; wanted '<f4', '<f8', '<f2', or '<u2' for bf16" \
        "{'descr': '$type', 'fortran_order': False, 'shape': (2, 3)}"
done
dict 'structured' "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3)}"
dict 'Fortran order found; wanted C' "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}"
dict 'malformed fortran_order' "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}"
dict 'no dict' "['descr', '<f4']"
dict 'no dict' ''
dict 'malformed head' "{'descr': '<f4' 'fortran_order': False, 'shape': (2, 3)}"
dict 'malformed head' "{$f4, 'shape': (2, 3)"
dict "without 'shape'" "{$f4}"
dict "without 'descr'" "{'fortran_order': False, 'shape': (2, 3)}"
dict "without 'fortran_order'" "{'descr': '<f4', 'shape': (2, 3)}"
dict "'shape' twice" "{$f4, 'shape': (2, 3), 'shape': (2, 3)}"
dict "key 'more'" "{$f4, 'shape': (2, 3), 'more': 1}"
dict 'text after the dict' "{$f4, 'shape': (2, 3)} x"
dict 'tuple' "{$f4, 'shape': [2, 3]}"
dict 'malformed shape' "{$f4, 'shape': (2 3)}"
dict 'malformed shape' "{$f4, 'shape': (2, x)}"
dict 'malformed shape' "{$f4, 'shape': (2,, 3)}"
dict 'negative' "{$f4, 'shape': (-2, -3)}"
dict '0 dimensions found; wanted 2, 3 or 4' "{$f4, 'shape': ()}"
dict '1 dimension found; wanted 2, 3 or 4' "{$f4, 'shape': (6,)}"
dict '5 dimensions found; wanted 2, 3 or 4' "{$f4, 'shape': (1, 1, 1, 2, 3)}"
dict 'do not fit' "{$f4, 'shape': (4294967296, 4294967296)}"
dict 'do not fit' "{$f4, 'shape': (0, 4294967296, 4294967296)}"
dict 'does not fit' "{$f4, 'shape': (2, 99999999999999999999)}"
dict 'cut short: 24 bytes found; wanted 28' "{$f4, 'shape': (1, 7)}"
dict 'cut short: 24 bytes found; wanted 4000000000000' "{$f4, 'shape': (1000000, 1000000)}"
dict '4 bytes after the data found; wanted none' "{$f4, 'shape': (1, 5)}"

# shape PATTERN FILE SHAPE...: this file does not go with the others.
shape() {
    pattern=$1 name=$2; shift 2
    make x.npy f4 4 "$@"
    for other in q k v; do
        if [ $other = "$name" ]; then eval "$other=x.npy"; else eval "$other=$other.npy"; fi
    done
    # shellcheck disable=SC2154
    fails 1 "$pattern" attend -q "$q" -k "$k" -v "$v" -o o.npy
}
shape 'x.npy: shape (70, 5) found; wanted as many dimensions' k 70 5
shape 'x.npy: shape (70, 7) found; wanted as many dimensions' v 70 7
shape 'x.npy: shape .* found; wanted rows as wide' k 2 2 70 6
shape 'x.npy: shape .* found; wanted as many sequences' k 3 2 70 5
shape 'x.npy: shape .* found; wanted a number of heads that divides' k 2 3 70 5
shape 'x.npy: shape .* found; wanted a number of heads that divides' k 2 0 70 5
shape 'x.npy: shape .* found; wanted as many tokens' k 2 2 69 5
shape 'x.npy: shape .* found; wanted as many tokens, heads and seq' v 2 2 69 7
shape 'x.npy: shape .* found; wanted as many tokens, heads and seq' v 2 1 70 7
shape 'x.npy: shape .* found; wanted as many tokens, heads and seq' v 1 2 70 7
shape 'x.npy: shape .* found; wanted at least one column' v 2 2 70 0
shape 'x.npy: shape .* found; wanted at least one head' q 2 4 70 0
shape 'x.npy: shape .* found; wanted at least one head' q 2 0 70 5
make x.npy f4 1 0 5; make y.npy f4 1 0 7; make z.npy f4 1 3 5
fails 1 'x.npy: shape (0, 5) found; wanted at least one key' attend --noncausal -q z.npy -k x.npy \
    -v y.npy -o o.npy

# Values: the file, and where.
for name in q k v; do
    for value in nan inf; do
        cp "$name.npy" x.npy
        "$NPY_TOOL" poke x.npy 20 $value
        set -- attend -o o.npy
        for other in q k v; do
            if [ "$other" = "$name" ]; then set -- "$@" -$other x.npy; else
                set -- "$@" -$other $other.npy; fi
        done
        fails 1 'x.npy: ' "$@"
        fails 1 'x.npy: ' "$@" --step 1
        fails 1 'x.npy: ' "$@" --noncausal
        fails 1 'x.npy: ' "$@" --method softmax
        # The output's folder is looked at before anything is computed.
        fails 1 'nosuch/o.npy: cannot be written' "$@" -o nosuch/o.npy
    done
done
cp k.npy x.npy; "$NPY_TOOL" poke x.npy 20 1e30
fails 1 'x.npy: ' attend -q q.npy -k x.npy -v v.npy -o o.npy --normalize none
fails 1 'does not fit' size --head-dim 10000000 --value-dim 64 --terms 8
fails 1 'does not fit' size --head-dim 18446744073709551615 --value-dim 18446744073709551615
TSA_ISA=mmx; export TSA_ISA
fails 1 'mmx' info
fails 1 'mmx' attend -q q.npy -k k.npy -v v.npy -o o.npy
unset TSA_ISA
# What is at the output's path stays until there is something better.
cp q.npy x.npy; "$NPY_TOOL" poke x.npy 20 nan; echo precious >old.npy
"$TSA" attend -q x.npy -k k.npy -v v.npy -o old.npy >../out 2>../err
check 'an old output survives a failure' grep -q precious old.npy
if [ -c /dev/full ]; then
    fails 1 '/dev/full: writing failed: No space' attend -q q.npy -k k.npy -v v.npy -o /dev/full
    "$TSA" info >/dev/full 2>../err
    if [ $? -eq 1 ] && grep -q 'standard output: No space' ../err; then pass; else
        complain 'results lost on a full disk'; fi
fi
# A limit on the size of files is a failed write, not the end of the process. The kilobyte is for
# shared memory that LLVM's OpenMP makes when it starts.
printf '#!/bin/sh\nulimit -f 2\nexec "%s" "$@"\n' "$TSA" >../limited
chmod +x ../limited
unlimited=$TSA TSA=../limited
fails 1 'o.npy: writing failed: File too large' attend -q q.npy -k k.npy -v v.npy -o o.npy
TSA=$unlimited

# -- at work -----------------------------------------------------------------------------------
for sub in '' attend size info demo; do
    # shellcheck disable=SC2086
    prints '^usage: tsa' $sub --help
    # shellcheck disable=SC2086
    prints '^tsa [0-9]*\.[0-9]*\.[0-9]*' $sub --version
done

number() { sed -n "s/.*\"$1\": \([-0-9.e]*\).*/\1/p" ../out; }
less() { check "$1: $2 < $3" awk "BEGIN { exit !($2 + 0 < $3 + 0) }"; }
same() { check "$1" cmp "$2" "$3"; }
attend; mv o.npy whole.npy
for option in '--step 1' '--step 7' '--step 64' '--step 1000' '--step 0' '--threads 1' \
    '--threads 2' '--threads 3' '--threads 5' '--terms 3' '--temperature 2' '--normalize l2' \
    '--method taylor' '--dtype f32' '--coefficients taylor' '--coefficients 1,1,.5' '--json' \
    '--compare' '--report' '--compare --report --json'; do
    # shellcheck disable=SC2086
    attend $option; same "$option changes no bit" o.npy whole.npy; rm -f o.npy
done
for chunk in 1 16; do
    attend --chunk $chunk; mv o.npy chunk.npy
    check "chunk $chunk" "$NPY_TOOL" compare chunk.npy whole.npy 1e-5
    for step in 1 5 33; do
        attend --chunk $chunk --step $step
        same "chunk $chunk, step $step" o.npy chunk.npy
    done
    prints '"folds": '$((70 / chunk)) attend -q q.npy -k k.npy -v v.npy -o o.npy --chunk $chunk \
        --json
done
prints '"calls": 10' attend -q q.npy -k k.npy -v v.npy -o o.npy --step 7 --json
prints '"calls": 1,' attend -q q.npy -k k.npy -v v.npy -o o.npy --json
prints '"threads": 3' attend -q q.npy -k k.npy -v v.npy -o o.npy --threads 3 --json
"$TSA" info >../out
for isa in $(sed -n 's/^ *usable here *//p' ../out); do
    prints "\"isa\": \"$isa\"" attend -q q.npy -k k.npy -v v.npy -o o.npy --isa "$isa" --json
    same "instruction set $isa" o.npy whole.npy
    TSA_ISA=$isa; export TSA_ISA
    prints "\"active\": \"$isa\"" info --json
    prints '"isa": "scalar"' attend -q q.npy -k k.npy -v v.npy -o o.npy --isa scalar --json
    unset TSA_ISA
done

# Types and versions of files.
attend --dtype f64; mv o.npy wide.npy
check 'f64 output' grep -q "'<f8'" wide.npy
check 'f32 output' grep -q "'<f4'" whole.npy
check 'f64 and f32' "$NPY_TOOL" compare whole.npy wide.npy 1e-5
make q8.npy f8 1 2 4 70 5; make k8.npy f8 2 2 2 70 5
works attend -q q8.npy -k k8.npy -v v.npy -o o.npy
same 'types may differ; f64 as the queries' o.npy wide.npy
works attend -q q.npy -k k8.npy -v v.npy -o o.npy
same 'f32 as the queries' o.npy whole.npy
# bf16 and f16: the bits of the same numbers in f32, the output rounded.
for type in f2:f16 u2:bf16; do
    name=${type#*:} type=${type%:*}
    for x in q k v; do
        "$NPY_TOOL" convert $x.npy $type half_$x.npy
        "$NPY_TOOL" convert half_$x.npy f4 wide_$x.npy
    done
    half() { works attend -q half_q.npy -k half_k.npy -v half_v.npy -o o.npy --dtype $name "$@"; }
    for option in '' '--step 1' '--step 9 --threads 3' '--method softmax' \
        '--noncausal --step 7' '--report'; do
        # shellcheck disable=SC2086
        works attend -q wide_q.npy -k wide_k.npy -v wide_v.npy -o wide_o.npy $option
        "$NPY_TOOL" convert wide_o.npy $type want.npy
        # shellcheck disable=SC2086
        half $option
        check "$name $option, type of the output" grep -q "'<$type'" o.npy
        tail -c 7840 o.npy >data1; tail -c 7840 want.npy >data2
        same "$name $option" data1 data2
    done
    check "$name, size of the output" test "$(wc -c <o.npy)" -eq $((128 + 7840))
    half --compare --json
    # The same as in f32: the rounding of the output has no part in it.
    distance=$(number relative_l2)
    works attend -q wide_q.npy -k wide_k.npy -v wide_v.npy -o o.npy --compare --json
    check "$name, distance from softmax" test "$distance" = "$(number relative_l2)"
    prints "\"dtype\": \"$name\"" attend -q half_q.npy -k half_k.npy -v half_v.npy -o o.npy \
        --dtype $name --json
    works attend -q half_q.npy -k wide_k.npy -v half_v.npy -o o.npy --dtype $name
    tail -c 7840 o.npy >data1; half; tail -c 7840 o.npy >data2
    same "$name and f32" data1 data2
    works attend -q wide_q.npy -k wide_k.npy -v wide_v.npy -o o.npy --dtype $name
    tail -c 7840 o.npy >data1; same "f32 to $name" data1 data2
    cp half_v.npy x.npy; "$NPY_TOOL" poke x.npy 16 inf
    fails 1 'x.npy: .*not finite.* head 0, token 2, column 2' attend -q half_q.npy \
        -k half_k.npy -v x.npy -o o.npy --dtype $name
done
# The files of bf16 are still there. Without --dtype they may hold integers.
for type in f32:f4 f64:f8 f16:f2; do
    name=${type#*:} type=${type%:*}
    works attend -q wide_q.npy -k wide_k.npy -v wide_v.npy -o want.npy --dtype "$type"
    works attend -q half_q.npy -k half_k.npy -v half_v.npy -o o.npy --dtype "$type"
    same "$type of bf16" o.npy want.npy
    check "$type of bf16, type of the output" grep -q "'<$name'" o.npy
done
u2="dtype '<u2' found; if it holds bf16, say --dtype bf16"
fails 1 "half_k.npy: $u2" attend -q q.npy -k half_k.npy -v v.npy -o o.npy
fails 1 "half_q.npy: $u2" attend -q half_q.npy -k half_k.npy -v half_v.npy -o o.npy
"$NPY_TOOL" convert q.npy f2 x.npy
works attend -q x.npy -k k.npy -v v.npy -o o.npy
check 'f16 as the queries' grep -q "'<f2'" o.npy
works attend -q x.npy -k k.npy -v v.npy -o o.npy --dtype f64
check 'f64 of f16' grep -q "'<f8'" o.npy
for version in 1 2 3; do
    head x.npy $version "{'shape':(3,2L,), \"fortran_order\" : False , 'descr':'<f4' , }  " 24
    works attend -q x.npy -k x.npy -v x.npy -o o.npy
    check "version $version" grep -q "'shape': (3, 2), }" o.npy
done

# Ranks: the same numbers.
for rank in '' 1 '1 1'; do
    # shellcheck disable=SC2086
    { make x.npy f4 5 $rank 40 4; make y.npy f4 6 $rank 40 4; make z.npy f4 7 $rank 40 3; }
    works attend -q x.npy -k y.npy -v z.npy -o o.npy
    tail -c 480 o.npy >"rank$(echo "$rank" | wc -w | tr -d ' ')"
    check "size of the output, rank $rank" test "$(wc -c <o.npy)" -eq $((480 + 128))
done
same 'ranks 2 and 3' rank0 rank1
same 'ranks 2 and 4' rank0 rank2
make x.npy f4 1 0 5; make y.npy f4 1 0 7
works attend -q x.npy -k x.npy -v y.npy -o o.npy
check 'no tokens' grep -q "'shape': (0, 7), }" o.npy
make z.npy f4 1 3 5
works attend --noncausal -q x.npy -k z.npy -v z.npy -o o.npy
check 'no queries' grep -q "'shape': (0, 5), }" o.npy

# Softmax, which the series approaches; each term divides the error.
last=1
for terms in 2 3 4 5 6 7 8; do
    attend --terms $terms --compare --json --dtype f64
    error=$(number relative_l2)
    less "error of $terms terms" "$error" "$last/4"
    last=$error
done
attend --method softmax --dtype f64; mv o.npy exact.npy
attend --terms 8 --dtype f64; check '8 terms' "$NPY_TOOL" compare o.npy exact.npy 1e-6
attend --method softmax --dtype f64 --step 9
check 'softmax by pieces' "$NPY_TOOL" compare o.npy exact.npy 1e-14
attend --compare
check 'text of --compare' grep -q 'relative l2' ../out

# Products of bf16 operands: what ran is named. Without operands of bf16 nothing changes.
is() { check "$1 is $2" test "$(number "$1")" = "$2"; }
ran() {
    check "compute is $1" grep -q "\"compute\": \"$1\"," ../out
    is exact_degrees "$2"
}
attend --json; ran f32 3
attend --json --dtype f64; ran f64 3
attend --json --compute f32; ran f32 3
attend --json --compute mixed; ran mixed 2; mv o.npy mixed.npy
attend --json --compute mixed --exact-degrees 0; ran mixed 0
attend --json --compute mixed --exact-degrees 2 --step 7 --threads 3; ran mixed 2
same 'mixed by pieces, on threads' o.npy mixed.npy
check 'bf16 operands change bits' sh -c '! cmp -s mixed.npy whole.npy'
"$TSA" info >../out
for isa in $(sed -n 's/^ *usable here *//p' ../out); do
    attend --compute mixed --isa "$isa"; same "mixed on $isa" o.npy mixed.npy
done
for exact in 3 8; do
    attend --json --compute mixed --exact-degrees $exact; ran f32 3
    same "$exact exact degrees of three terms" o.npy whole.npy
done
attend --json --compute fastest --chunk 63; ran f32 3
attend --json --compute fastest --dtype f64; ran f64 3
attend --compute mixed
check 'text of mixed' grep -q '^products   mixed: degrees below 2 in f32' ../out
attend --compute fastest --chunk 63
check 'text of fastest' grep -q '^products   f32, all' ../out

# Errors of each number of exact degrees, in the order of the JSON: one of --compare, then two for
# each variant. Bounds are 2^-6 (bench/op.c) of the products of degrees from E on, scores being at most
# 1/2, over weights of at least 5/8 instead of 1/2, for values below 1 instead of 1/2.
nth() { number "$1" | sed -n "$2p"; }
variants() { check "$1 variants" test "$(grep -c vs_truncated ../out)" -eq "$1"; }
attend --compare --json; variants 0
attend --compare --json --compute mixed; variants 4
less 'error, no exact degree' "$(nth max_abs 2)" '1.6*0.015625*1.625'
less 'error, one exact degree' "$(nth max_abs 4)" '1.6*0.015625*0.625'
less 'error, two exact degrees' "$(nth max_abs 6)" '1.6*0.015625*0.125'
less 'error in f32' "$(nth max_abs 8)" 1e-6
for line in 2 4 6; do
    less 'one more exact degree' "$(nth relative_l2 $((line + 2)))" "$(nth relative_l2 $line)/2"
done
for line in 2 4 6 8; do
    less 'an error of the series remains' 1e-4 "$(nth relative_l2 $((line + 1)))"
    less 'a time' 0 "$(nth seconds $((line / 2 + 1)))"
done
attend --compare --json --compute mixed --terms 5; variants 5
degrees() {
    check "exact degrees $*" test "$(number exact_degrees | tr '\n' ' ')" = "$* "
}
attend --compare --json --compute mixed --terms 7 --exact-degrees 5; degrees 5 0 1 2 3 5 7
attend --compare --json --compute mixed --terms 7 --exact-degrees 3; degrees 3 0 1 2 3 7
attend --compare --json --compute mixed --exact-degrees 5; degrees 3 0 1 2 3
attend --compare --json --compute fastest --chunk 63; variants 1
attend --compare --json --compute fastest --dtype f64; variants 0
attend --compare --compute mixed
check 'text of the variants' grep -q '^  all (f32)  ' ../out

# Every query sees every key: as the last query of the causal form does.
make x.npy f4 5 40 4; make y.npy f4 6 40 4; make z.npy f4 7 40 3
make one.npy f4 1 1 4
works attend -q one.npy -k y.npy -v z.npy -o o.npy --noncausal; mv o.npy all.npy
tail -c 16 one.npy >row; tail -c 640 x.npy | dd bs=16 count=39 2>/dev/null >rest
{ dd if=x.npy bs=128 count=1 2>/dev/null; cat rest row; } >x1.npy
works attend -q x1.npy -k y.npy -v z.npy -o o.npy
tail -c 12 o.npy >last1; tail -c 12 all.npy >last2
same 'noncausal is the last causal row, in an open window' last1 last2
works attend -q one.npy -k y.npy -v z.npy -o o.npy --noncausal --method softmax; mv o.npy exact.npy
works attend -q one.npy -k y.npy -v z.npy -o o.npy --noncausal --terms 8
check 'noncausal softmax' "$NPY_TOOL" compare o.npy exact.npy 1e-5
works attend -q x.npy -k y.npy -v z.npy -o o.npy --noncausal; mv o.npy all.npy
for option in '--step 1' '--step 7' '--threads 3' '--report --compare'; do
    # shellcheck disable=SC2086
    works attend -q x.npy -k y.npy -v z.npy -o o.npy --noncausal $option
    same "noncausal $option" o.npy all.npy
done

# The report, where it is known: one pair with q k / a = -5.
make x.npy f4 1 1 1; make y.npy f4 1 1 1; make z.npy f4 1 1 1
"$NPY_TOOL" poke x.npy 0 2; "$NPY_TOOL" poke y.npy 0 -5
report() {
    works attend -q x.npy -k y.npy -v z.npy -o o.npy --report --json --temperature 2 "$@"
    less 'largest |q||k|/a' "$(number largest_qk_over_a)-$largest" 1e-12
    less 'largest |q||k|/a' "$largest-($(number largest_qk_over_a))" 1e-12
    less 'mean weight' "$(number smallest_mean_weight)-($mean)" 1e-12
    less 'mean weight' "$mean-($(number smallest_mean_weight))" 1e-12
}
largest=5 mean=-4;  report --normalize none --terms 2
check 'denominator below 0' grep -q '"nonpositive": 1' ../out
largest=5 mean=8.5; report --normalize none
check 'denominator above 0' grep -q '"nonpositive": 0' ../out
largest=5 mean=-5;  report --normalize none --coefficients 0,1
largest=5 mean=-0.0005; report --normalize none --coefficients 1,0.2001
check 'denominator near 0' grep -q '"near_zero": 1' ../out
largest=.5 mean=.625; report
largest=.5 mean=.625; report --noncausal
attend --report
check 'text of --report' grep -q 'largest |q||k|/a' ../out
check 'one line a head' test "$(grep -c '^ *[0-3]  *140 ' ../out)" -eq 4

# Mixed with large scores: a warning, here for x^2/2 of 1 + x + x^2/2 at x = 5.
warned() {
    rm -f o.npy
    "$TSA" attend -q x.npy -k y.npy -v z.npy -o o.npy --report --normalize none "$@" >../out \
        2>../warning
    check 'a warning is no failure' test $? -eq 0 -a -s o.npy
    check 'one line' test "$(wc -l <../warning)" -eq 1
    check 'the warning' grep -q \
        '^tsa attend: mixed: |q||k|/a reaches 5 in head 0, .* from 2 on, .* 67.6 %' ../warning
}
warned --compute mixed --json
check 'the warning in the JSON' grep -A1 '"warnings"' ../out
check 'its text' grep -q '"mixed: |q||k|/a reaches 5 ' ../out
estimate='0.00390625*12.5/18.5'
less 'estimate' "$(number mixed_error_estimate)-$estimate" 1e-9
less 'estimate' "$estimate-$(number mixed_error_estimate)" 1e-9
warned --compute mixed
check 'text of the estimate' grep -q 'mixed error$' ../out
largest=.5 mean=.625; report --compute mixed
check 'no warning of small scores' test -z "$(grep warnings ../out)"
largest=5 mean=8.5; report --normalize none
check 'no estimate in f32' test -z "$(grep -e warnings -e mixed ../out)"

# Output over an input, through a link, over a file with its mode; into a pipe.
cp q.npy x.npy
works attend -q x.npy -k k.npy -v v.npy -o x.npy; same 'output over an input' x.npy whole.npy
ln -s target.npy link.npy; echo old >target.npy; chmod 600 target.npy
works attend -q q.npy -k k.npy -v v.npy -o link.npy
same 'output through a link' target.npy whole.npy
check 'the link stays' test -h link.npy
check 'the mode stays' test "$(ls -l target.npy | cut -c 1-10)" = -rw-------
chmod 444 target.npy
[ -w target.npy ] || fails 1 'link.npy: cannot be written: Permission' attend -q q.npy -k k.npy \
    -v v.npy -o link.npy
chmod 751 target.npy
works attend -q q.npy -k k.npy -v v.npy -o link.npy
check 'any mode stays' test "$(ls -l target.npy | cut -c 1-10)" = -rwxr-x--x
# Links to what is not there yet: from elsewhere, and over another link.
mkdir -p there/deep
ln -s ../fresh.npy there/link.npy; ln -s ../link.npy there/deep/link.npy
ln -s "$PWD/there/deep/link.npy" absolute.npy
fails 1 'nosuch.npy: No such' attend -q nosuch.npy -k k.npy -v v.npy -o absolute.npy
check 'nothing appears at the end of a link' test ! -e fresh.npy
for link in there/link.npy there/deep/link.npy absolute.npy; do
    rm -f fresh.npy
    works attend -q q.npy -k k.npy -v v.npy -o $link
    same "$link is followed" fresh.npy whole.npy
    check "$link stays" test -h $link
done
check 'no temporary file beside a link' test -z "$(find there -name '.tsa-*')"
ln -s round.npy round.npy; ln -s nosuch/o.npy astray.npy
fails 1 'round.npy: cannot be written: Too many' attend -q q.npy -k k.npy -v v.npy -o round.npy
fails 1 'astray.npy: cannot be written: No such' attend -q q.npy -k k.npy -v v.npy -o astray.npy
check 'the link to nowhere stays' test -h astray.npy
if mkfifo pipe 2>/dev/null; then
    cat pipe >piped.npy &
    works attend -q q.npy -k k.npy -v v.npy -o pipe
    wait
    same 'output into a pipe' piped.npy whole.npy
    cat q.npy >pipe &
    works attend -q pipe -k k.npy -v v.npy -o o.npy
    wait
    same 'input from a pipe' o.npy whole.npy
fi

# Interrupted: nothing is left.
make x.npy f4 1 200000 16; make y.npy f4 2 200000 2
"$TSA" attend -q x.npy -k x.npy -v y.npy -o cut.npy --method softmax >../out 2>../err &
process=$!
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    ls .tsa-* >/dev/null 2>&1 && break
    sleep 0.2
done
check 'a temporary file while computing' ls -d .tsa-*
kill -TERM $process
wait $process 2>/dev/null
if ls .tsa-* cut.npy >/dev/null 2>&1; then complain 'files left by an interrupted command'
else pass; fi
rm -f x.npy y.npy

# Sizes known from the paper.
size() { works size --json "$@"; }
size --head-dim 16 --value-dim 64 --terms 3
is features 153; is elements 9945; is f32 39780; is f64 79560; is bf16 19890
is kv_break_even_tokens 125
is direct_below_tokens 561; is chunk 64
bytes=$(number state_bytes)
check 'a state holds two sums and a window' test "$bytes" -ge 79560
size --head-dim 16 --value-dim 64 --terms 3 --kv-heads 4
check 'four heads' test "$(number state_bytes)" -gt $((bytes * 3))
is elements 9945
size --head-dim 16 --value-dim 64 --terms 3 --dtype f64 --chunk 16
check 'f64 state' test "$(number state_bytes)" -gt $((79560 * 2))
is chunk 16
size --head-dim 16 --value-dim 64 --terms 3 --max-tokens 560; is chunk 576
size --head-dim 16 --value-dim 64 --terms 3 --max-tokens 561; is chunk 64
check 'f32 state' grep -q '"compute": "f32"' ../out
size --head-dim 16 --value-dim 64 --terms 3 --compute mixed
check 'mixed state' grep -q '"compute": "mixed"' ../out
is exact_degrees 2
check 'a mixed state is larger' test "$(number state_bytes)" -gt "$bytes"
size --head-dim 16 --value-dim 64 --terms 3 --compute mixed --exact-degrees 3
is state_bytes "$bytes"; is exact_degrees 3
size --head-dim 16 --value-dim 64 --terms 3 --compute mixed --exact-degrees 0; is exact_degrees 0
size --head-dim 16 --value-dim 64 --terms 3; is exact_degrees 3
size --head-dim 6 --value-dim 24 --terms 3; is features 28
size --head-dim 1 --value-dim 1 --terms 1;  is elements 2; is kv_break_even_tokens 1
size --head-dim 64 --value-dim 64 --terms 6; is elements 730503345
# Arithmetic alone, whatever the shape: seconds would be a plan with its 1,329,890,705 weights.
large='--head-dim 64 --value-dim 64 --terms 8 --chunk 64'
# shellcheck disable=SC2086
check 'a large shape at once' sh -c 'ulimit -t 5; exec "$0" "$@"' "$TSA" size --json $large
mv ../said ../out
is features 1329890705; is elements 86442895825; is state_bytes 691543199808; is chunk 64
prints '9,945' size --head-dim 16 --value-dim 64

# Facts and the demonstration.
works info --json
for key in version arithmetic isa built usable active threads default reason bf16 products fast \
    exp; do
    check "info has $key" grep -q "\"$key\":" ../out
done
prints 'active' info
prints '^bf16 products  *[a-z]' info
prints 'relative l2' demo --tokens 300 --heads 2 --threads 1
works demo --tokens 2000 --heads 1 --json
less 'error of the demonstration' "$(number relative_l2)" 2e-3
for key in prefill decode tokens_per_s us_per_token state_bytes kv_cache_bytes; do
    check "demo has $key" grep -q "\"$key\":" ../out
done

# Tensors of a trained network, with outputs computed elsewhere in f64.
if [ -r "$TSA_DATA_DIR/story_q.npy" ]; then
    story() {
        truth=$TSA_DATA_DIR/$1 tolerance=$2; shift 2
        works attend -q "$TSA_DATA_DIR/story_q.npy" -k "$TSA_DATA_DIR/story_k.npy" \
            -v "$TSA_DATA_DIR/story_v.npy" -o story.npy "$@"
        check "story $*" "$NPY_TOOL" compare story.npy "$truth" "$tolerance"
        cat ../said
    }
    raw='--normalize none --temperature 2.8284271247461903'
    for chunk in 1 16 64 512; do
        story story_o_unit_n3_a2_f64.npy 1e-12 --dtype f64 --chunk $chunk
        story story_o_unit_n3_a2_f64.npy 2e-6 --chunk $chunk
        # shellcheck disable=SC2086
        story story_o_raw_n3_asqrt8_f64.npy 1e-12 --dtype f64 --chunk $chunk $raw
    done
    # Raw scores reach -255, where the weights of three terms are large: more is lost in f32.
    # shellcheck disable=SC2086
    story story_o_raw_n3_asqrt8_f64.npy 2e-5 $raw
    story story_o_unit_n3_a2_f64.npy 2e-6
else
    echo "no story files in $TSA_DATA_DIR: not compared"
fi

# The rest is about the benchmark.
if [ "${TSA_TEST_BENCH:-yes}" != yes ]; then
    echo "command: $good passed, $bad failed; this build has no benchmark"
    [ $bad -eq 0 ]
    exit
fi

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
"$TSA" info >../out
for isa in $(sed -n 's/^ *usable here *//p' ../out); do
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
    check "paper looks at '$kind'" grep -q "^[0-9]*,\"*.*$kind.*,yes,\(reproduced\|holds\)," paper/figures.csv
done
check 'the JSON is in its file too' sh -c "tr -d ' ' <../out >a && tr -d ' ' <paper/paper.json >b && cmp a b"
ranks=1
if grep -q 'no LAPACKE' ../out; then ranks=0; fi
for number in 01 02 03 04 05 06 07 08 09 10 11 12 13; do
    [ $number$ranks = 040 ] || check "a table of experiment $number" ls paper/$number-*.csv
done
check 'a row for every number of terms' test "$(grep -c '^[1-6],' paper/01-lossless.csv)" = 6
check 'the size of the paper' grep -q '^3,9945,' paper/08-order.csv
check 'the figures in Markdown' grep -q '| elements per head, n = 3 | 9,945 | 9,945 |' paper/paper.md
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

echo "command: $good passed, $bad failed"
[ $bad -eq 0 ]
