#!/bin/sh
# SPDX-License-Identifier: MIT
# The command tsa: every option, refused and at work. Refusals have an exit code, one line that
# names the culprit, and leave nothing behind.
# shellcheck source=tests/command_lib.sh
. "$(dirname "$0")/command_lib.sh"

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
fails 2 '--coefficients: .*normalize must be l2' attend -q q.npy -k k.npy -v v.npy -o o.npy \
    --coefficients sphere --normalize none
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
refused 2 '--softmax-window: goes with --method softmax' --softmax-window 4
fails 2 '--softmax-window: goes with --method softmax' attend -q q.npy -k k.npy -v v.npy -o o.npy \
    --method softmax --noncausal --softmax-window 4
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

# -- at work -----------------------------------------------------------------------------------
for sub in '' attend size info demo; do
    # shellcheck disable=SC2086
    prints '^usage: tsa' $sub --help
    # shellcheck disable=SC2086
    prints '^tsa [0-9]*\.[0-9]*\.[0-9]*' $sub --version
done
prints '^usage: tsa COMMAND' help
prints '^usage: tsa COMMAND' help help
for sub in attend demo info size $(
    works --help && grep -q "bench .*not in this build" ../out || echo bench paper); do
    prints "^usage: tsa $sub" help $sub; mv ../out ../help
    works $sub --help
    same "help $sub is $sub --help" ../help ../out
done
fails 2 "'attnd' found; wanted a command" help attnd
fails 2 "'extra': unexpected" help attend extra


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
attend --method softmax && mv o.npy soft.npy
attend --method softmax --softmax-window 70 && same 'a window as long as all' o.npy soft.npy
attend --method softmax --softmax-window 3 && mv o.npy three.npy
attend --method softmax --softmax-window 3 --step 7 && same 'a window in pieces' o.npy three.npy
check 'a window shows' test "$(cmp three.npy soft.npy | wc -l)" -eq 1
attend --compare --json --temperature 1 --dtype f64 && taylor=$(number relative_l2)
attend --compare --json --temperature 1 --dtype f64 --coefficients sphere
less 'error of coefficients for random rows' "$(number relative_l2)" "$taylor"
attend --coefficients sphere --temperature 1
check 'which are printed' grep -q '^series  *sphere: [0-9. -]*$' ../out
attend --compare
check 'text of --compare' grep -q 'relative l2' ../out

# Products of bf16 operands: what ran is named. Without operands of bf16 nothing changes.
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
# each variant. Bounds are 2^-6 (bench/op.c) of the products of degrees from E on, scores being at
# most 1/2, over weights of at least 5/8 instead of 1/2, for values below 1 instead of 1/2.
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
    reported
}
report_beyond() { # with a warning, since three terms are not good for 5
    warns '|q.k|/a is up to 5 ' attend -q x.npy -k y.npy -v z.npy -o o.npy --report --json \
        --temperature 2 "$@"
    reported
}
reported() {
    less 'largest |q||k|/a' "$(number largest_qk_over_a)-$largest" 1e-12
    less 'largest |q||k|/a' "$largest-($(number largest_qk_over_a))" 1e-12
    less 'mean weight' "$(number smallest_mean_weight)-($mean)" 1e-12
    less 'mean weight' "$mean-($(number smallest_mean_weight))" 1e-12
}
largest=5 mean=-4;  report_beyond --normalize none --terms 2
check 'denominator below 0' grep -q '"nonpositive": 1' ../out
largest=5 mean=8.5; report_beyond --normalize none
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
    check 'two lines' test "$(wc -l <../warning)" -eq 2
    check 'of the series' grep -q '^tsa attend: scores: |q.k|/a is up to 5 ' ../warning
    check 'the warning' grep -q \
        '^tsa attend: mixed: |q||k|/a reaches 5 in head 0, .* from 2 on, .* 67.6 %' ../warning
}
warned --compute mixed --json
check 'the warning in the JSON' grep -A1 '"warnings"' ../out
check 'its text' grep -q '"mixed: |q||k|/a reaches 5 ' ../out
check 'and the other' grep -q '"scores: |q.k|/a is up to 5 ' ../out
estimate='0.00390625*12.5/18.5'
less 'estimate' "$(number mixed_error_estimate)-$estimate" 1e-9
less 'estimate' "$estimate-$(number mixed_error_estimate)" 1e-9
warned --compute mixed
check 'text of the estimate' grep -q 'mixed error$' ../out
largest=.5 mean=.625; report --compute mixed
check 'no warning of small scores' test -z "$(grep warnings ../out)"
largest=5 mean=8.5; report_beyond --normalize none
check 'no estimate in f32' test -z "$(grep -e mixed ../out)"

# Scores that the series is not good for. Three terms are good up to 1, eight up to (8!/6)^(1/8).
beyond() {
    pattern=$1; shift
    warns "$pattern" attend -q x.npy -k y.npy -v z.npy -o o.npy "$@"
}
within() { works attend -q x.npy -k y.npy -v z.npy -o o.npy "$@"; }
advice='use --normalize l2, --temperature 10 or more, more --terms, or --method softmax$'
beyond "^tsa attend: scores: |q.k|/a is up to 5 (.*, head 0), but 3 terms .* up to 1: .*$advice" \
    --normalize none --temperature 2
beyond 'up to 5 .* up to 1: ' --normalize none --temperature 2 --noncausal
beyond 'up to 5 .* up to 1: ' --normalize none --temperature 2 --json
check 'the warning in the JSON' grep -A1 '"warnings"' ../out
check 'its text' grep -q '"scores: |q.k|/a is up to 5 ' ../out
for type in f8 f2; do
    for name in x y; do
        cp $name.npy copy.npy
        "$NPY_TOOL" convert copy.npy $type $name.npy
    done
    beyond 'up to 5 ' --normalize none --temperature 2
done
beyond 'up to 5 .* 8 terms .* up to 3.01: .*--temperature 3.32 or more, or --method softmax$' \
    --normalize none --terms 8
within --normalize none --temperature 10
within --normalize none --temperature 9.95 # lengths of 1 may be rounded
beyond 'up to 1.02 ' --normalize none --temperature 9.8
within --normalize none --terms 8 --temperature 3.4
within --normalize none --method softmax
within --normalize none --coefficients 1,1
within --temperature 1
beyond 'up to 1.25 .* up to 1: .*use --temperature 1 or' --normalize l2 --temperature .8
within --temperature .8 --terms 4
# Only pairs that meet count: the large query comes before the large key.
make x.npy f4 1 2 1; make y.npy f4 1 2 1; make z.npy f4 1 2 1
"$NPY_TOOL" poke x.npy 0 20; "$NPY_TOOL" poke x.npy 1 0.1
"$NPY_TOOL" poke y.npy 0 0.05; "$NPY_TOOL" poke y.npy 1 20
within --normalize none --temperature 2
beyond 'up to 200 ' --normalize none --temperature 2 --noncausal

# Sizes known from the paper.
size() { works size --json "$@"; }
size --head-dim 16 --value-dim 64 --terms 3
is features 153; is elements 9945; is f32 39780; is f64 79560; is bf16 19890
is kv_break_even_tokens 125
is kv_break_even_tokens_f32 $((($(number state_bytes) + 319) / 320))
is kv_break_even_tokens_bf16 $((($(number state_bytes) + 159) / 160))
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
prints 'sums  *9,945 ' size --head-dim 16 --value-dim 64
check 'and its bytes' grep -q "^  bytes  *$(echo "$bytes" | sed 's/...$/,&/') " ../out

# Facts and the demonstration.
works info --json
for key in version arithmetic isa built usable active threads default reason bf16 products fast \
    exp; do
    check "info has $key" grep -q "\"$key\":" ../out
done
prints 'active' info
prints '^bf16 products  *[a-z]' info
prints 'relative l2' demo --tokens 300 --heads 2 --threads 1
for line in '  sums  *9,945 ' 'state  *[0-9.]* KiB'; do
    check "demo has $line" grep -q "^  $line" ../out
done
works demo --tokens 2000 --heads 1 --json
less 'error of the demonstration' "$(number relative_l2)" 2e-3
for key in prefill decode tokens_per_s us_per_token state_bytes sums_per_head kv_cache_bytes; do
    check "demo has $key" grep -q "\"$key\":" ../out
done

# Tensors of a trained network, with outputs computed elsewhere in f64.
if [ -r "$TSA_DATA_DIR/story_q.npy" ]; then
    story() {
        truth=$TSA_DATA_DIR/$1 tolerance=$2; shift 2
        set -- attend -q "$TSA_DATA_DIR/story_q.npy" -k "$TSA_DATA_DIR/story_k.npy" \
            -v "$TSA_DATA_DIR/story_v.npy" -o story.npy "$@"
        case $* in *none*) warns 'scores: ' "$@" ;; *) works "$@" ;; esac
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

finish command
