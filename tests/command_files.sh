#!/bin/sh
# SPDX-License-Identifier: MIT
# Files of the command tsa: what is read, what is written and how, and what is left behind.
# shellcheck source=tests/command_lib.sh
. "$(dirname "$0")/command_lib.sh"

attend; mv o.npy whole.npy

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
for type in '>f4' '=f4' '|f4' '<f1' '>f2' '<i2' '>u2' '<i4' '<c8' '|b1' '|S4' 'f4' '>V2' '<V1' \
    '|V4' 'V2' ''; do
    dict "dtype '$type' found; wanted '<f4', '<f8', '<f2', or '<u2' or '<V2' for bf16" \
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
# Python 3 reads no number that begins with 0, unless it is 0.
for shape in '02, 3' '2, 003' '0200, 8' '2, 03L'; do
    dict 'begins with 0' "{$f4, 'shape': ($shape)}"
done
for shape in '2l, 3' '2, 3j' '2, 0x3' '2., 3' '2, 3e0' '1_, 3' '_1, 3' '2L L, 3' '2 0, 3'; do
    dict 'malformed shape' "{$f4, 'shape': ($shape)}"
done
vertical_tab=$(printf '\013')
dict 'tuple' "{$f4, 'shape':$vertical_tab(2, 3)}"
head x.npy 3 "{$f4, 'shape': (3, 2L)}" 24; file 'malformed shape'
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
# bf16 as Python's extension types are written.
for type in '<V2' '|V2'; do
    for name in q k v; do LC_ALL=C sed "1s/<u2/$type/" half_$name.npy >void_$name.npy; done
    check "a file of $type" grep -q "'$type'" void_q.npy
    works attend -q half_q.npy -k half_k.npy -v half_v.npy -o want.npy --dtype bf16
    works attend -q void_q.npy -k void_k.npy -v void_v.npy -o o.npy --dtype bf16
    same "$type as bf16" o.npy want.npy
    fails 1 "void_q.npy: dtype '$type' found; if it holds bf16, say --dtype bf16" attend \
        -q void_q.npy -k void_k.npy -v void_v.npy -o o.npy
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
    long=L; [ $version -lt 3 ] || long=
    head x.npy $version "{'shape':(3,2$long,), \"fortran_order\" : False , 'descr':'<f4' , }  " 24
    works attend -q x.npy -k x.npy -v x.npy -o o.npy
    check "version $version" grep -q "'shape': (3, 2), }" o.npy
done

# An output that is an input, by whatever name: only with --force.
cp q.npy x.npy; ln x.npy hard.npy; ln -s x.npy soft.npy
for name in q k v; do
    for output in x.npy ./x.npy hard.npy soft.npy; do
        cp $name.npy x.npy # stays the same file
        set -- attend -o $output
        for other in q k v; do
            if [ "$other" = "$name" ]; then set -- "$@" -$other x.npy; else
                set -- "$@" -$other $other.npy; fi
        done
        fails 1 "^tsa attend: $output: is the input x.npy, too; --force" "$@"
        same 'the input stays' x.npy $name.npy
    done
done
cp q.npy x.npy
works attend -q x.npy -k k.npy -v v.npy -o x.npy --force; same '--force' x.npy whole.npy
cp q.npy x.npy
works attend -q x.npy -k k.npy -v v.npy -o soft.npy --force; same '--force, a link' x.npy whole.npy

# Output through a link, over a file with its mode; into a pipe.
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

# Descriptors by name are written to as they are; the text then goes to standard error.
if [ -d /dev/fd ] && [ -e /dev/stdout ]; then
    "$TSA" attend -q q.npy -k k.npy -v v.npy -o /dev/stdout 2>../text | cat >piped.npy
    same 'output into a pipe by /dev/stdout' piped.npy whole.npy
    check 'the text is elsewhere' grep -q '^output     /dev/stdout, f32, ' ../text
    "$TSA" attend -q q.npy -k k.npy -v v.npy -o /dev/stdout --json 2>../out >piped.npy
    same 'output into a file by /dev/stdout' piped.npy whole.npy
    check 'the JSON is elsewhere' grep -q '^  "method": "taylor"' ../out
    ln -s /dev/fd/1 out
    "$TSA" attend -q q.npy -k k.npy -v v.npy -o out 2>/dev/null | cat >piped.npy
    same 'output into a pipe by a link' piped.npy whole.npy
    printf before >piped.npy
    works attend -q q.npy -k k.npy -v v.npy -o /dev/fd/3 3>>piped.npy
    { printf before; cat whole.npy; } >want.npy
    same 'output after what was there' piped.npy want.npy
    { printf before; works attend -q q.npy -k k.npy -v v.npy -o /dev/fd/3 3>&1; } >piped.npy
    same 'output where the descriptor is' piped.npy want.npy
    fails 1 '/dev/fd/9: cannot be written: ' attend -q q.npy -k k.npy -v v.npy -o /dev/fd/9
    fails 1 '/dev/fd/3: cannot be written: Bad file' attend -q q.npy -k k.npy -v v.npy \
        -o /dev/fd/3 3<old.npy
    cp q.npy x.npy
    fails 1 '/dev/fd/3: is the input x.npy' attend -q x.npy -k k.npy -v v.npy -o /dev/fd/3 3>>x.npy
    fails 1 'x.npy: is the input /dev/fd/3' attend -q /dev/fd/3 -k k.npy -v v.npy -o x.npy 3<x.npy
    same 'the input stays' x.npy q.npy
    "$TSA" attend -q q.npy -k k.npy -v v.npy -o same.npy >same.npy 2>../text
    same 'the output is standard output by its own name' same.npy whole.npy
    check 'the text is elsewhere' grep -q '^output     same.npy' ../text
fi
if command -v bash >/dev/null 2>&1; then
    # shellcheck disable=SC2016
    check 'output into a command' bash -c '
        "$0" attend -q q.npy -k k.npy -v v.npy -o >(cat >x.npy) &&
        for try in 1 2 3 4 5 6 7 8 9 10; do cmp -s x.npy whole.npy && exit; sleep 0.1; done' "$TSA"
fi

# Closed descriptors: no file that is opened takes their place.
make x.npy f4 1 1 1; make y.npy f4 1 1 1; make z.npy f4 1 1 1
"$NPY_TOOL" poke x.npy 0 2; "$NPY_TOOL" poke y.npy 0 -5
beyond() {
    rm -f o.npy
    "$TSA" attend -q x.npy -k y.npy -v z.npy -o o.npy --compute mixed --normalize none --report
}
beyond >../out 2>../text; mv o.npy want.npy
check 'a warning' test -s ../text
check 'without standard input' beyond 0<&-; same 'its output' o.npy want.npy
beyond >../out 2>&-; check 'without standard error' test $? -eq 0; same 'its output' o.npy want.npy
beyond >../out 0<&- 2>&-; check 'without both' test $? -eq 0; same 'its output' o.npy want.npy
beyond 2>../err 0<&- >&-; check 'without standard output' test $? -eq 1
same 'its output' o.npy want.npy
if mkfifo narrow 2>/dev/null; then
    cp x.npy bad.npy; "$NPY_TOOL" poke bad.npy 0 nan
    cat narrow >piped.npy &
    "$TSA" attend -q bad.npy -k y.npy -v z.npy -o narrow >../out 2>&-
    check 'a failure without standard error' test $? -eq 1
    wait
    check 'its text is not in the output' test ! -s piped.npy
fi
mute() {
    "$TSA" "$@" >&- 2>../err
    if [ $? -eq 1 ] && grep -q 'standard output' ../err; then pass; else
        complain "closed standard output: tsa $*"; fi
}
for sub in attend bench demo info paper size; do mute $sub --help; done
mute info
mute info --json
mute size --head-dim 4 --value-dim 4
mute demo --tokens 10 --heads 1
mute paper --list
mute bench --list
mute attend -q q.npy -k k.npy -v v.npy -o o.npy
mute attend -q q.npy -k k.npy -v v.npy -o o.npy --json
if [ -e /dev/stdout ]; then
    "$TSA" attend -q q.npy -k k.npy -v v.npy -o /dev/stdout >&- 2>../text
    check 'no output into a closed descriptor' test $? -eq 1
    check 'and why' grep -q '/dev/stdout: cannot be written: Bad file' ../text
fi

# What comes from outside is printed without control characters, in UTF-8.
escape=$(printf 'o\033[31m\302\233\177\377\303\251.npy')
works attend -q q.npy -k k.npy -v v.npy -o "$escape"
check 'no control characters' grep -q "^output     $(printf 'o?\\[31m????\303\251.npy'), f32" ../out
same 'its name is as given' "$escape" whole.npy
works paper --quick --only 11 --out "$(printf 'p\033[0m')"
check 'nor from paper' grep -q '^p?\[0m/paper.html' ../out

# Nothing to compute: at once, whatever the other dimensions.
empty() {
    works_at_once() {
        # shellcheck disable=SC2016
        check "empty: $*" sh -c 'ulimit -t 4; exec "$0" "$@"' "$TSA" "$@"
        mv ../said ../out
    }
    for option in '' --json '--report --compare' '--report --compare --json' --noncausal \
        '--method softmax' '--dtype f64' '--compute mixed --compare'; do
        # shellcheck disable=SC2086
        works_at_once attend -q x.npy -k x.npy -v x.npy -o o.npy $option
        check "its shape, $1" grep -q "'shape': ($1)" o.npy
        check 'no data' test "$(wc -c <o.npy)" -eq 128
    done
}
for shape in '0, 1000000000, 1, 1' '0, 100000000, 4, 4' '0, 1, 1, 1000000000' \
    '0, 1, 1000000000, 4' '4, 100000000, 0, 4' '100000000, 8, 0, 4' '100000000, 0, 4' \
    '0, 1000000000'; do
    head x.npy 1 "{$f4, 'shape': ($shape)}" 0
    empty "$shape"
done
head x.npy 1 "{$f4, 'shape': (0, 4)}" 0
works attend -q x.npy -k x.npy -v x.npy -o o.npy --report --json
check 'a report of nothing' grep -q '"report": \[\]' ../out
fails 2 '--chunk: .*an even one' attend -q x.npy -k x.npy -v x.npy -o o.npy --compute mixed \
    --chunk 3

# Files that cannot be replaced by another are written over, once all is computed. As another user:
# a folder that cannot be written to, and a file in it that can.
user='' plain="$TSA"
if [ "$(id -u)" = 0 ]; then
    user='setpriv --reuid 65534 --regid 65534 --clear-groups'
    chmod 711 .. .
    # shellcheck disable=SC2086
    $user "$TSA" info >/dev/null 2>&1 || user=none
fi
if [ "$user" != none ]; then
    mkdir closed; cp v.npy closed/o.npy; cat q.npy q.npy q.npy >closed/long.npy
    chmod 666 closed/*; chmod 644 q.npy k.npy v.npy; chmod 555 closed
    printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$user" "$TSA" >../as_user; chmod 755 ../as_user
    TSA=../as_user
    number_of() { ls -i "$1" | cut -d ' ' -f 1; }
    for name in o long; do
        before=$(number_of closed/$name.npy)
        works attend -q q.npy -k k.npy -v v.npy -o closed/$name.npy
        same 'written over' closed/$name.npy whole.npy
        check 'the same file' test "$before" = "$(number_of closed/$name.npy)"
    done
    fails 1 'closed/new.npy: cannot be written: Permission' attend -q q.npy -k k.npy -v v.npy \
        -o closed/new.npy
    cp q.npy x.npy; chmod 644 x.npy; "$NPY_TOOL" poke x.npy 20 nan
    fails 1 'x.npy: ' attend -q x.npy -k k.npy -v v.npy -o closed/o.npy
    same 'it survives a failure' closed/o.npy whole.npy
    TSA=$plain
    if [ "$(id -u)" = 0 ]; then
        # Everyone may write to this file, but only its owner may replace it.
        mkdir sticky; cp q.npy sticky/o.npy; chmod 1777 sticky; chmod 666 sticky/o.npy
        TSA=../as_user
        works attend -q q.npy -k k.npy -v v.npy -o sticky/o.npy
        TSA=$plain
        same 'a file of another owner' sticky/o.npy whole.npy
        check 'no temporary file' test -z "$(find sticky -name '.tsa-*')"
    fi
    # A system that grants no threads: an output, or an error and nothing left.
    if command -v bash >/dev/null 2>&1; then
        mkdir open; chmod 777 open; make z.npy f4 1 8 4000 5; chmod 644 z.npy
        works attend -q z.npy -k z.npy -v z.npy -o want.npy
        # shellcheck disable=SC2016,SC2086
        $user bash -c 'ulimit -u 1; exec "$0" attend -q z.npy -k z.npy -v z.npy -o open/o.npy \
            --threads 2' "$TSA" >../out 2>../err
        if [ $? -eq 0 ]; then same 'no threads granted' open/o.npy want.npy; else
            check 'no output of a failure' test ! -e open/o.npy; fi
        check 'no temporary file' test -z "$(find open -name '.tsa-*')"
    fi
    chmod 755 closed
fi
# A file that is mounted on its own.
touch mounted.npy
if unshare -rm mount --bind q.npy mounted.npy 2>/dev/null; then
    cp q.npy x.npy
    # shellcheck disable=SC2016
    check 'a mounted file' unshare -rm sh -c 'mount --bind x.npy mounted.npy &&
        exec "$0" attend -q q.npy -k k.npy -v v.npy -o mounted.npy' "$TSA"
    same 'a mounted file is written over' x.npy whole.npy
    check 'no temporary file' test -z "$(find . -name '.tsa-*')"
fi

# Signals: nothing is left, and the status is that of the signal.
make x.npy f4 1 200000 16; make y.npy f4 2 200000 2
own='handle_segv=0:handle_sigbus=0:handle_sigfpe=0' # not the sanitizers'
for options in ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS; do
    eval "export $options=\"\${$options:-}:$own\""
done
catch=
env --default-signal true 2>/dev/null && catch='env --default-signal'
interrupt() {
    # shellcheck disable=SC2086
    (ulimit -c 0 2>/dev/null; exec $catch "$TSA" attend -q x.npy -k x.npy -v y.npy -o cut.npy \
        --method softmax) >../out 2>../err &
    process=$!
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
        ls .tsa-* >/dev/null 2>&1 && break
        sleep 0.1
    done
    check "a temporary file before SIG$1" ls -d .tsa-*
    kill -"$1" $process
    wait $process 2>/dev/null
    status=$?
    check "status of SIG$1: $status" test "$(kill -l $status 2>/dev/null)" = "$1"
    check "nothing left by SIG$1" test -z "$(find . -name '.tsa-*' -o -name cut.npy)"
    rm -f .tsa-*
}
signals='TERM HUP ALRM USR1 USR2 PIPE XCPU VTALRM PROF ABRT SEGV BUS FPE'
[ -z "$catch" ] || signals="INT QUIT $signals"
for signal in $signals; do interrupt $signal; done
rm -f x.npy y.npy

finish 'files of the command'
