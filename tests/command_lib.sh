# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# What the scripts command*.sh share: a folder to work in, checks that count, and the files that
# most of them use. TSA is the program, NPY_TOOL the maker of files.
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
# warns PATTERN ARGUMENTS...: exit 0, one line on stderr with the pattern; stdout is in ../out.
warns() {
    pattern=$1; shift
    "$TSA" "$@" >../out 2>../err
    found=$?
    if [ $found -ne 0 ]; then complain "exit $found: tsa $*"
    elif [ "$(wc -l <../err)" -ne 1 ]; then complain "not one line on stderr: tsa $*"
    elif ! grep -q -e "$pattern" ../err; then complain "no '$pattern' in the line: tsa $*"
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
number() { sed -n "s/.*\"$1\": \([-0-9.e]*\).*/\1/p" ../out; }
less() { check "$1: $2 < $3" awk "BEGIN { exit !($2 + 0 < $3 + 0) }"; }
same() { check "$1" cmp "$2" "$3"; }
is() { check "$1 is $2" test "$(number "$1")" = "$2"; }
# finish NAME: the last line of a script, with its exit code.
finish() {
    echo "$1: $good passed, $bad failed"
    [ $bad -eq 0 ]
}

make q.npy f4 1 2 4 70 5
make k.npy f4 2 2 2 70 5
make v.npy f4 3 2 2 70 7
attend() { works attend -q q.npy -k k.npy -v v.npy -o o.npy "$@"; }
refused() { fails "$1" "$2" attend -q q.npy -k k.npy -v v.npy -o o.npy ${3+"$3"} ${4+"$4"}; }
