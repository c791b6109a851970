#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# labels: prefix;sanitized
# The command line tool as people use it: what each command prints, and the
# exit codes. Takes the installed tool, or the one in the build tree.
set -u
tool="${FLASHACL_PREFIX:-}/bin/flashacl"
[ -x "$tool" ] || tool="${FLASHACL_BUILD:?}/flashacl"
[ -x "$tool" ] || { echo "no flashacl in the prefix or the build" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

fail() {
  echo "FAILED: $1"
  sed 's/^/    /' "$work/out" "$work/err"
  failures=$((failures + 1))
}

# run CODE ARGS...: runs the tool; its words are in $work/out and $work/err.
run() {
  local expected=$1
  shift
  "$tool" "$@" > "$work/out" 2> "$work/err" < /dev/null
  local code=$?
  what="flashacl $*"
  [ "$code" -eq "$expected" ] || fail "$what: exit code $code, not $expected"
}

says() {
  grep -qF -- "$1" "$work/out" || fail "$what: stdout lacks '$1'"
}

complains() {
  grep -qF -- "$1" "$work/err" || fail "$what: stderr lacks '$1'"
  [ ! -s "$work/out" ] || fail "$what: prints to stdout what belongs to stderr"
}

# prints TEXT: exactly this text begins what the tool printed.
prints() {
  local lines
  lines=$(printf '%s\n' "$1" | wc -l)
  [ "$(head -n "$lines" "$work/out")" = "$1" ] ||
    fail "$what: does not begin with
$1"
}

# Bytes FIRST..FIRST+COUNT of a file as hexadecimal.
hex() {
  od -An -v -tx1 -j "$2" -N "$3" "$1" | tr -d ' \n'
}

# png_is FILE WIDTH HEIGHT: a PNG file of at least this size, and not by more
# than axes and legend take.
png_is() {
  [ "$(hex "$1" 0 8)" = 89504e470d0a1a0a ] || fail "$what: not a PNG file"
  local width=$((0x$(hex "$1" 16 4))) height=$((0x$(hex "$1" 20 4)))
  [ "$width" -gt "$2" ] && [ "$width" -lt $(($2 + 600)) ] &&
    [ "$height" -gt "$3" ] && [ "$height" -lt $(($3 + 200)) ] ||
    fail "$what: PNG is $width x $height, scores should be $2 x $3"
}

run 0 --help
says "flashacl verify"
for command in info explain mask verify check bench compare peers show replay help; do
  says "  $command"
  run 0 $command --help
  says "Usage: flashacl $command"
  run 0 --help
done
run 0 --version
grep -qE '^[0-9.]+( \(commit [0-9a-f]{7,}(-dirty)?\))?$' "$work/out" ||
  fail "$what: no version and commit"
run 2
complains "subcommand"
run 2 paint
complains "paint: no such command; there are info, explain"
run 2 verfiy "fwd f32 h=1 d=8 q=4 k=4"
complains "did you mean verify?"
run 2 bench --thread 2
complains "did you mean --threads?"
run 2 bench --repetitions -3
complains "-3 is not a number of at least 1"
run 2 bench --repetitions two
complains "two is not a number"
grep -qE '[0-9]{20}' "$work/err" && fail "$what: names a bound in many digits"

# Help is as wide as the terminal; topics come from the same source.
for columns in 40 60 100; do
  COLUMNS=$columns run 0 bench --help
  widest=$(wc -L < "$work/out")
  [ "$widest" -le $((columns > 60 ? columns : 60)) ] ||
    fail "$what: $widest columns wide where there are $columns"
done
run 0 help
says "flashacl verify"
run 0 help bench
says "--repetitions"
run 0 help notation
says "page-row"
run 2 help notatoin
complains "did you mean notation?"
run 0 help man
says ".TH FLASHACL 1"
says "flashacl compare"
if command -v man >/dev/null; then
  man --warnings -l "$work/out" > "$work/man" 2> "$work/err" < /dev/null
  [ ! -s "$work/err" ] || fail "$what: man has complaints"
fi
run 0 help bash
bash -n "$work/out" || fail "$what: no script for bash"
completes() {
  local words
  words=$(bash -c 'source "$1"; COMP_WORDS=($2); COMP_CWORD=$3; _flashacl
                   echo "${COMPREPLY[*]}"' - "$work/out" "$1" "$2")
  [ "$words" = "$3" ] || fail "$what: completes '$1' to '$words', not '$3'"
}
completes "flashacl ver" 1 "verify"
completes "flashacl bench --rep" 2 "--repetitions"
run 0 help zsh
command -v zsh >/dev/null && { zsh -n "$work/out" || fail "$what: no script"; }
run 0 help fish
says "complete -c flashacl"
run 2 info --fast
complains "--fast"

run 0 info
says "FlashACL"
says "caches"
says "threads"
says "vector target"
says "compiled for"
says "reference/fp64"

# One row that sees one key: its result is the value.
printf '\0\0\200\77\0\0\0\100' > "$work/value.bin"
printf '\0\0\200\77\0\0\0\101' > "$work/other.bin"
printf 'PK' > "$work/broken.npz"
head -c 20 "$work/value.bin" > "$work/broken.npy"
one="fwd f32 h=1 d=2 q=1 k=1"
value=$work/value.bin:f32:1x1x2
other=$work/other.bin:f32:1x1x2
run 0 check $one q=$value k=$value v=$value out=$value
says "right: f32 explains its error"
run 1 check "$one" q=$value k=$value v=$value out=$value mine=$other
says "WRONG in 1 of 1 rows"
says "row 0 channel 1: 8 is not 2"
run 1 check "$one" q=$value k=$value v=$value out=$other --png "$work/check.png"
[ "$(hex "$work/check.png" 0 8)" = 89504e470d0a1a0a ] || fail "$what: no PNG"
# More keys than rows: gradients of keys are pictured down the keys.
head -c 320 /dev/zero > "$work/keys.bin"
yes 8 | head -c 320 > "$work/wrong_keys.bin"
keys=$work/keys.bin:f32:40x1x2
run 1 check "bwd f32 h=1 d=2 q=1 k=40" q=$value k=$keys v=$keys dout=$value \
    dk=$work/wrong_keys.bin:f32:40x1x2 --png "$work/keys.png"
png_is "$work/keys.png" 100 500
run 2 check "$one" q=$value k=$value v=$value
complains "no result to check: out=FILE"
# Its only score is 5 / sqrt(2), which is its maximum and its log-sum-exp.
printf '\60\106\142\100' > "$work/score.bin"
printf '\0\0\200\77' > "$work/one.bin"
# A sink of 1 has 0.0734 of that row, and its gradient is that of -4.63.
head -c 4 /dev/zero > "$work/zero.bin"
run 1 check "bwd f32 h=1 d=2 q=1 k=1 sink" q=$value k=$value v=$value \
    dout=$value sink=$work/one.bin:f32:1 dsink=$work/zero.bin:f32:1 \
    --png "$work/sink.png"
says "grad sink sequence 0 head 0 row 0 channel 0: 0 is not -0.340081"
score=$work/score.bin:f32:1x1x1
sum=$work/one.bin:f32:1x1x1
run 0 check "$one" q=$value k=$value v=$value max=$score sum=$sum lse=$score
says "right: f32 explains its error"
run 1 check "$one" q=$value k=$value v=$value max=$sum sum=$sum lse=$score
says "row max sequence 0 head 0 row 0 channel 0: 1 is not 3.53553"
run 2 check "$one" q=$value k=$value v=$value lse="$work/one.bin:f32:1"
complains "lse: (1) is none of"
run 2 check "$one" q=$value k=$value v=$value out=none.npy
complains "none.npy: No such file"
run 2 check "$one" q=$value k=$value v=$value out="$work/broken.npy"
complains "the file does not begin as .npy files do"
run 2 check "$one" q=$value k=$value v=$value out="$work/broken.npz"
complains "the file is no zip archive"
run 2 check "$one" q=$value k=$value v=$value out="$work/value.bin:f32:1x1x3"
complains "8 bytes, expected the 12"
run 2 check "$one" q=$value k=$value v=$value out="$work/value.bin"
complains "expected X.npy"
run 2 check "$one" q=$value k=$value out=$value
complains "v: missing"
run 2 check "bwd f32 h=1 d=2 q=1 k=1" qq=$value dq=$value
complains "qq: neither a tensor nor a result"

line="fwd bf16 h=32/8 d=128 q=64x1 k=64x4096 causal paged:128"
run 0 explain "$line"
says "problem       fwd bf16 h=32/8 d=128 q=64x1 k=64x4096 paged:128 causal"
says "cpu/decode"
says "tiles         "
says "scores        8388608 of 8388608, 0.0 % skipped"
says "arithmetic    4.29 GFLOP"
says "workspace"
run 0 explain "fwd f32 h=1 d=8 q=4 k=4 causal"
says "scores        10 of 16, 37.5 % skipped"
run 0 explain "fwd f32 h=1 d=8 q=4 k=4 mask"
says "at most"
run 0 explain "$line" --implementation reference/fp64
says "the fp64 reference: right and slow"
says "tiles         none: it goes row by row"
run 0 explain "$line" --without cpu/decode
says "excluded by the caller"
run 0 explain "$line" --workers 64
says "mean work of 64 workers"
run 0 explain "fwd f32 h=1 d=8 q=4 k=4" --workers 1
says "balance       1.000: mean work of 1 worker over"
printf 'fwd f32 h=1 d=8 q=4 k=4\nfwd f16 h=8 d=64 q=999 k=999 causal\n' >"$work/lines"
run 0 explain --workers 16 --workloads "$work/lines"
says "fwd f16 h=8 d=64 q=999 k=999 causal"
says "0."
run 2 explain "$line" --workers 0
complains "--workers: 0 is not a number of at least 1"
run 2 explain --workers 16
complains "expected a problem or --workloads FILE"
run 2 explain "$line" --implementation cpu/backward
run 2 explain "fwd bf16 h=32/5 d=128 q=1 k=1"
complains "32"
run 2 explain "fwd bf17 h=1 d=1 q=1 k=1"
complains "f32, f16, bf16 or i8"
run 2 explain
run 2 explain "$line" --implementation cpu/decoed
complains "did you mean cpu/decode?"
run 2 explain "fwd bf16 h=32/8 d=128 q=64 k=64 casual"
complains "did you mean causal?"
run 2 explain "fdw f32 h=1 d=8 q=4 k=4"
complains "did you mean fwd?"
for dtype in fp16 float16 half; do
  run 0 explain "fwd $dtype h=1 d=8 q=4 k=4"
  says "problem       fwd f16 "
done
run 0 explain "fwd bfloat16 h=1 d=8 q=4 k=4 out:float32"
says "problem       fwd bf16 h=1 d=8 q=4 k=4 out:f32"
# A line needs no quotes.
run 0 explain fwd fp32 h=1 d=8 q=4 k=4 causal --without cpu/decode
says "problem       fwd f32 h=1 d=8 q=4 k=4 causal"
run 0 mask fwd f32 h=1 d=64 q=2 k=2 causal
says "row 0 sees [0,1)"
run 0 verify fwd f32 h=1 d=8 q=4 k=4 bwd f32 h=1 d=8 q=4 k=4
says "2 problems: all right"

run 0 mask "fwd f32 h=1 d=64 q=8 k=12 band:-4:0:2" --tile=4x4
prints '##..|....|....      row 0 sees [0,2)
##..|....|....
###.|....|....
####|....|....
----+----+----      tiles: partial empty empty
####|#...|....             partial partial empty
####|##..|....
####|###.|....
##.#|####|....      row 7 sees [0,2) [3,8)'
says "row i sees column j iff -4 <= j - i <= 0, or j < 2"

# modes ARGUMENTS PICTURE: rows of the picture from the sparse mode, joined by
# spaces.
modes() {
  run 0 mask --sparse-mode $1
  local picture
  picture=$(grep -oE '^[#.]+' "$work/out" | tr '\n' ' ')
  [ "$picture" = "$2 " ] || fail "$what: draws $picture, not $2"
}
modes "0 --sq 4 --skv 6 --pre 1 --next 2" "###... ####.. .####. ..####"
modes "1 --sq 2 --skv 3" "### ###"
modes "2 --sq 3 --skv 5" "#.... ##... ###.."
modes "3 --sq 3 --skv 5" "###.. ####. #####"
modes "3 --sq 5 --skv 3" "... ... #.. ##. ###"
modes "4 --sq 4 --skv 6 --pre 1 --next 0" ".##... ..##.. ...##. ....##"
modes "4 --sq 4 --skv 6 --pre 2 --next -1" "##.... .##... ..##.. ...##."
modes "6 --sq 4 --skv 4 --prefix 2" "##.. ##.. ###. ####"
modes "6 --sq 3 --skv 5 --prefix 4" "####. ####. #####"
modes "6 --sq 5 --skv 3 --prefix 1" "#.. #.. #.. ##. ###"
modes "7 --sq 3,2 --skv 3,6 --pre 6 --next -2" "#.. ##. ###"
modes "7 --sq 3,2 --skv 3,6 --pre 6 --next -2 --sequence 1" "###... ####.."
modes "8 --sq 3,5,4 --skv 4,5,4 --pre 4 --next 1" "###. #### ####"
modes "8 --sq 3,5 --skv 4,5 --pre 4 --next 1 --sequence 1" \
      "#.... ##... ###.. ####. #####"

run 0 mask "fwd f16 h=1 d=8 q=5000 k=6000 causal"
says "one character: 105 rows x 94 columns"
says "row 0 sees [0,1001)"
run 0 mask "fwd f16 h=1 d=8 q=2x3 k=0,4 causal mask"
says "no row sees anything"
says "the mask tensor"
says "sequence 0 of 2"

run 0 mask --sparse-mode 3 --sq 8 --skv 12 --png "$work/small.png"
says "small.png: "
png_is "$work/small.png" 288 192
run 0 mask --sparse-mode 4 --sq 2048 --skv 2048 --pre 256 --next 0 \
    --tile 512x512 --png "$work/exact.png"
png_is "$work/exact.png" 2048 2048
run 0 mask --sparse-mode 2 --sq 1 --skv 100000 --png "$work/long.png"
png_is "$work/long.png" 4000 24
run 2 mask --sparse-mode 3 --sq 8 --skv 12 --png "$work/no/such/folder.png"
run 0 mask --sparse-mode 3 --sq 8 --skv 12 --png -
cmp -s "$work/out" "$work/small.png" ||
  fail "$what: stdout is not the picture alone"

run 2 mask
complains "give a problem line or --sparse-mode"
run 2 mask --sparse-mode 9 --sq 1 --skv 1
run 2 mask --sparse-mode 3
complains "--sq and --skv"
run 2 mask --sparse-mode 6 --sq 2 --skv 2
complains "--prefix"
run 2 mask --sparse-mode 3 --sq 2,3 --skv 2,3,4
run 2 mask --sparse-mode 3 --sq 2 --skv 2 --tile 4
complains "ROWSxCOLUMNS"
run 2 mask --sparse-mode 3 --sq 2 --skv 2 --sequence 1
complains "--sequence"

run 0 verify "bwd f16 h=4/2 d=16 q=3,5 k=7,5 causal sink"
says "cpu reference/fp64  ok"
says "grad sink: 4 elements"
says "1 problem: all right"
cat > "$work/problems.txt" <<'LINES'
# comments and empty lines are skipped

fwd f32 h=2 d=16 q=9 k=9 sink
  fwd bf16 h=4/2 d=8 q=2x1 k=2x33 paged:16 int8:channel
LINES
run 0 verify "$work/problems.txt" --seed 5 --seeds 2
says "(seed 6)"
says "2 problems: all right"
what="flashacl verify -"
"$tool" verify - < "$work/problems.txt" > "$work/out" 2> "$work/err" ||
  fail "$what: does not read stdin"
says "2 problems: all right"
[ ! -s "$work/err" ] || fail "$what: shows progress where there is no terminal"
echo "fwd f32 h=2 d=16" >> "$work/problems.txt"
run 2 verify "$work/problems.txt"
complains "problems.txt:5:"
run 2 verify /dev/null
complains "no problem in it"
run 2 verify "$work/absent.txt"
complains "no such file"
run 2 verify "fwd f32 h=1 d=8 q=1 k=1" --implementation cpu/none
complains "no such implementation"
# Some rows of long problems, unless all of it is asked for; who does not take a
# problem is one line.
long="fwd f32 h=8 d=64 q=1000 k=1000 causal"
run 0 verify "$long"
says "rows verified"
says "--all checks the whole"
[ "$(grep -c "not take it" "$work/out")" -eq 1 ] ||
  fail "$what: more than one line for those who do not take it"
run 0 verify --all "fwd f32 h=1 d=8 q=4 k=4"
says "reference/fp64  ok"

tiny="fwd f32 h=2/1 d=8 q=4 k=4 causal"
once="--seconds 0 --repetitions 2"
run 0 bench "$tiny" $once --threads 1 --implementation reference/fp64
says "$tiny"
says "cpu reference/fp64, 1 thread, all verified"
says "the fp64 reference: right and slow"
says "2 repetitions of"
says "GFLOP/s"
says "of the FMA peak"
says "of the read bandwidth"
says "workspace"
cat > "$work/workloads.txt" <<'LINES'
# a title, a bar, a problem
tiny prompt | fwd f32 h=2/1 d=8 q=4 k=4 causal
tiny step | bwd f16 h=2 d=8 q=9 k=9
LINES
run 0 bench "$work/workloads.txt" $once --json "$work/bench.json" \
    --plot "$work/bench.svg"
says "tiny step"
grep -q '"title": "tiny step"' "$work/bench.json" || fail "$what: no JSON"
grep -q 'tiny step' "$work/bench.svg" || fail "$what: no picture"
run 0 bench "$tiny" $once --implementation reference/fp64 --json -
says '"samples"'
[ "$(head -c 1 "$work/out")" = "{" ] || fail "$what: JSON is not alone"
run 0 verify "$work/workloads.txt"
says "2 problems: all right"
run 2 bench "fwd f32 h=2 d=8" $once
complains "no such file"
run 2 bench "$tiny" --plot picture.png
complains "must end in .svg"
run 2 bench "$tiny" --implementation cpu/none
complains "no such implementation"
FLASHACL_NUM_THREADS=1 run 0 bench "$tiny" $once \
    --implementation reference/fp64
says "1 thread"
run 0 bench "$work/workloads.txt" --list
[ "$(wc -l < "$work/out")" -eq 2 ] || fail "$what: does not list both"
run 0 bench "$work/workloads.txt" --list --filter STEP
prints "tiny step | bwd f16 h=2 d=8 q=9 k=9"
run 2 bench "$work/workloads.txt" --list --filter nothing
complains "none of 2 problems"
# What cannot be written is said before anything is measured.
run 2 bench "$tiny" $once --json "$work/no/such/folder.json"
complains "cannot write"
run 0 compare "$work/bench.json" "$work/bench.json"
says "2 same"
run 2 compare "$work/bench.json" "$work/workloads.txt"
complains "workloads.txt: no JSON"
run 2 peers "fwd f64 h=1 d=8 q=4 k=4"
complains "f64"
run 2 peers "$tiny" --python "$work/no-python"
complains "cannot start"
run 2 peers "$tiny" --turns 0
run 2 bench "$tiny" --target AVX9000
complains "expected one of"
run 2 bench "$tiny" --repetitions 0
run 2 bench "$tiny" $once --implementation reference/fp64 \
    --without reference/fp64
grep -qF "skipped: " "$work/err" || fail "$what: does not say what it skips"

if [ -w /dev/full ]; then
  what="flashacl info > /dev/full"
  "$tool" info > /dev/full 2> "$work/err" && fail "$what: exit code 0"
fi

if [ "$failures" -gt 0 ]; then
  echo "$failures checks failed"
  exit 1
fi
echo "all checks passed"
