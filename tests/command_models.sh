#!/bin/sh
# SPDX-License-Identifier: MIT
# The command tsa attend with gates, sums, denominators and the names of published models.
# shellcheck source=tests/command_lib.sh
. "$(dirname "$0")/command_lib.sh"

make g.npy f8 4 2 2 70
make i.npy f4 5 2 2 70
for file in g.npy i.npy; do check "magnitudes of $file" "$NPY_TOOL" fill $file abs; done
make ones.npy f4 6 2 2 70
check 'ones' "$NPY_TOOL" fill ones.npy 1

# -- refused ---------------------------------------------------------------------------------
for value in mean SUM ''; do refused 2 "--output: '$value' found; wanted ratio or sum" --output "$value"; done
for option in output-scale denominator-add denominator-floor; do
    refused 2 "--$option: 'x' found; wanted a finite number" --$option x
done
refused 2 '--denominator-floor: ' --denominator-floor -1
refused 2 '--denominator-floor: ' --denominator-floor 1e-60
fails 2 '--denominator-add: .*sums have no denominator' attend -q q.npy -k k.npy -v v.npy -o o.npy \
    --output sum --denominator-add 1
refused 2 "--model: 'gpt' found; wanted based, taylorshift" --model gpt
for model in power retnet gla mamba2 mlstm; do refused 2 "--model $model: wants --gate" --model $model; done
fails 2 '--model mlstm: wants --value-gate' attend -q q.npy -k k.npy -v v.npy -o o.npy \
    --model mlstm --gate g.npy
refused 2 '--value-gate: goes with --gate only' --value-gate i.npy
for option in compare report; do
    fails 2 "--$option: there is no softmax with gates" attend -q q.npy -k k.npy -v v.npy -o o.npy \
        --gate g.npy --$option
done
fails 2 '--gate: goes with --method taylor only' attend -q q.npy -k k.npy -v v.npy -o o.npy \
    --gate g.npy --method softmax
refused 1 'missing.npy: ' --gate missing.npy
refused 1 'q.npy: shape (2, 4, 70, 5) found; wanted that of k.npy without its last' --gate q.npy
make short.npy f4 4 2 2 69
refused 1 'short.npy: shape (2, 2, 69) found; .*(2, 2, 70)' --gate short.npy
make half.npy f2 4 2 2 70
refused 1 "half.npy: dtype '<f2' found; wanted '<f4' or '<f8'" --gate half.npy
make one.npy f4 4 280
refused 1 'one.npy: shape (280,) found' --gate one.npy
cp g.npy far.npy
check 'a gate above 1' "$NPY_TOOL" poke far.npy 200 1.5
refused 1 'far.npy: gate is 1.5 at sequence 1, head 0, token 60; wanted 0 to 1' --gate far.npy
check 'a gate that is none' "$NPY_TOOL" poke far.npy 200 nan
refused 1 'far.npy: gate is nan at sequence 1, head 0, token 60' --gate far.npy
check 'a value gate below 0' "$NPY_TOOL" poke i.npy 3 -1
fails 1 'i.npy: value_gate is -1 at sequence 0, head 0, token 3' attend -q q.npy -k k.npy -v v.npy \
    -o o.npy --gate g.npy --value-gate i.npy
check 'magnitudes again' "$NPY_TOOL" fill i.npy abs
fails 1 'is the input g.npy, too' attend -q q.npy -k k.npy -v v.npy -o g.npy --gate g.npy

# -- at work -----------------------------------------------------------------------------------
# Gates of 1 are none, bit by bit.
attend && mv o.npy plain.npy
attend --gate ones.npy && same 'gates of 1' o.npy plain.npy
attend --gate ones.npy --value-gate ones.npy && same 'value gates of 1' o.npy plain.npy
attend --output-scale 0.5 && ! cmp -s o.npy plain.npy && pass

# Every model, whole and token by token; what its options say is what it sets.
for model in based rebased sata power retnet gla mamba2 mlstm; do
    set -- --model $model
    case $model in power | retnet | gla | mamba2 | mlstm) set -- "$@" --gate g.npy ;; esac
    case $model in mlstm) set -- "$@" --value-gate i.npy ;; esac
    attend "$@" && mv o.npy whole.npy
    check "$model names its options" grep -q "^model  *$model: --normalize none" ../out
    attend "$@" --step 1 && same "$model token by token" o.npy whole.npy
    attend "$@" --dtype f64 && check "$model in f64" "$NPY_TOOL" compare whole.npy o.npy 1e-3
done
attend --model gla --gate g.npy && mv o.npy gla.npy
attend --normalize none --temperature 2.2360679774997896 --coefficients 0,1 --output sum \
    --gate g.npy && same 'gla by its options' o.npy gla.npy
attend --model gla --gate g.npy --output-scale 2 && ! cmp -s o.npy gla.npy && pass
works attend -q q.npy -k k.npy -v v.npy -o o.npy --model taylorshift --json
check 'taylorshift scales by sqrt(N/d)' grep -q '"output_scale": 3.74165738' ../out
check 'and says so' grep -q '"model": "taylorshift"' ../out

# A state with gates keeps a little more.
works size --head-dim 16 --value-dim 64 --json; plain=$(number state_bytes)
works size --head-dim 16 --value-dim 64 --gate --json
less 'a state without gates' "$plain" "$(number state_bytes)"

finish command_models
