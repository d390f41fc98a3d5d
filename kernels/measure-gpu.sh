#!/bin/sh
# SPDX-License-Identifier: MIT
# Measure the GPUs of this machine in one go, within six minutes: build bench-cuda and train-cuda with one cc line each,
# measure products, copies and collectives, train one model three ways on one GPU, and leave samples, profile and report
# in a directory. For machines that are there for minutes only: cc and the CUDA toolkit are enough, nothing is
# installed. Each part writes as it goes, so an early end loses nothing.
#
#   kernels/measure-gpu.sh [DIRECTORY [SECONDS]]     default: $OUT or ./gpu-samples, 200 s of measuring
#
# DIRECTORY then holds report.txt, samples.jsonl, train-*.jsonl, log.txt, and gpu.json if psisim is there (in $PSISIM, in
# build/ or on the path). Where it is not:  psisim fit DIRECTORY/samples.jsonl -o gpu.json  on any other machine.
# Exit status: 0 done, 77 no GPU, else the first failure.
set -u

here=$(cd "$(dirname "$0")" && pwd) || exit 1
out=${1:-${OUT:-gpu-samples}}
budget=${2:-200}
train_limit=35 # seconds for each training

case $budget in
  '' | *[!0-9]*) echo "measure-gpu: '$budget' is not a number of seconds" >&2; exit 2 ;;
esac
if ! mkdir -p "$out" || ! out=$(cd "$out" && pwd) || ! : >"$out/log.txt"; then
  echo "measure-gpu: cannot write into '$out'" >&2
  exit 1
fi
log=$out/log.txt
report=$out/report.txt

say() { printf '%s\n' "$*" | tee -a "$log"; }
fail() {
  say "measure-gpu: $1"
  exit "${2:-1}"
}

# ---- What can be missing ----

compiler=
for name in ${CC:-} cc gcc clang; do
  command -v "$name" >/dev/null 2>&1 && compiler=$name && break
done
[ -n "$compiler" ] || fail "no C compiler (looked for cc gcc clang)"

cuda=
nvcc=$(command -v nvcc 2>/dev/null || true)
for root in "${CUDA_HOME:-}" "${CUDA_PATH:-}" "${nvcc%/bin/nvcc}" /usr/local/cuda /usr/local/cuda-* /opt/cuda /usr; do
  [ -n "$root" ] && [ -f "$root/include/cuda_runtime_api.h" ] && cuda=$root && break
done
[ -n "$cuda" ] || fail "no CUDA toolkit: cuda_runtime_api.h is in none of CUDA_HOME, the path of nvcc, /usr/local/cuda"

libraries=
for folder in lib64 targets/x86_64-linux/lib targets/sbsa-linux/lib lib/x86_64-linux-gnu lib/aarch64-linux-gnu lib; do
  [ -e "$cuda/$folder/libcudart.so" ] && libraries=$cuda/$folder && break
done
[ -n "$libraries" ] || fail "no libcudart.so below $cuda"

if ! command -v nvidia-smi >/dev/null 2>&1 || ! nvidia-smi -L >>"$log" 2>&1; then
  [ -e /dev/nvidia0 ] || [ -e /dev/dxg ] || fail "no GPU: no driver answers (nvidia-smi, /dev/nvidia0)" 77
fi
free_kib=$(df -Pk "$out" 2>/dev/null | awk 'NR == 2 { print $4 }')
[ "${free_kib:-999999}" -ge 51200 ] || fail "less than 50 MiB free in $out"

# Without `timeout` the programs' own limits must do.
limited() {
  seconds=$1
  shift
  if command -v timeout >/dev/null 2>&1; then timeout -k 5 "$seconds" "$@"; else "$@"; fi
}

# ---- Building ----

flags="-O3 -std=gnu11 -I$cuda/include -L$libraries -Wl,-rpath,$libraries"

# build NAME FLAG-WITHOUT-NCCL LIBRARIES SOURCES...: with NCCL, or without it where it is missing.
build() {
  name=$1 without=$2 libs=$3
  shift 3
  # shellcheck disable=SC2086
  "$compiler" $flags -o "$out/$name" "$@" $libs -lnccl -ldl -lm -pthread 2>>"$log" && return 0
  say "$name: does not build with NCCL, once more without"
  # shellcheck disable=SC2086
  "$compiler" $flags "-D$without" -o "$out/$name" "$@" $libs -ldl -lm -pthread 2>>"$log"
}

say "measure-gpu: $(date -u +%Y-%m-%dT%H:%M:%SZ), CUDA in $cuda, $budget s into $out"
if command -v nvidia-smi >/dev/null 2>&1; then
  nvidia-smi >>"$log" 2>&1
  nvidia-smi topo -m >>"$log" 2>&1
fi
cd "$here" || exit 1
build bench-cuda BENCH_WITHOUT_NCCL "-lcudart -lcublas" bench-cuda.c bench-cuda-gemm.c bench-cuda-group.c \
  bench-cuda-memory.c bench-cuda-nccl.c bench-nvml.c bench-common.c || fail "bench-cuda does not build, see $log"

train_sources=
for source in train-*.c data-*.c; do
  [ "$source" = train-host.c ] || train_sources="$train_sources $source"
done
# shellcheck disable=SC2086
build train-cuda TRAIN_WITHOUT_NCCL "-lcudart -lcublas -lnvrtc" $train_sources ||
  say "train-cuda does not build (it needs CUDA 12.8), see $log: nothing is trained"

# ---- Measuring ----

{
  limited $((budget + 60)) "$out/bench-cuda" --budget "$budget" -o "$out/samples.jsonl"
  echo $? >"$out/status"
} 2>&1 | tee -a "$log"
status=$(cat "$out/status")
rm -f "$out/status"
[ "$status" -eq 127 ] && say "bench-cuda cannot load its libraries: is LD_LIBRARY_PATH set to $libraries?"
say "bench-cuda: exit status $status"

# ---- Training: four workers on one GPU, most of its memory activations ----

width=${WIDTH:-2048} blocks=${BLOCKS:-16} rows=${ROWS:-8192} # as it stands, 1 MiB of activations a row, all workers together
memory=$(nvidia-smi --query-gpu=memory.free --format=csv,noheader,nounits 2>/dev/null | awk 'NR == 1 { print int ($1) }')
while [ "$rows" -gt 256 ] && [ "${memory:-99999}" -lt $((rows + 4000)) ]; do rows=$((rows / 2)); done

schedule() {
  case $1 in
    single) order='chunks 1
micro_batches 4
rank 0: F0 F1 F2 F3 B3 B2 B1 B0' ;;
    accumulate) order='chunks 1
micro_batches 4
rank 0: F0 B0 F1 B1 F2 B2 F3 B3' ;;
    cdp-single) order='chunks 4
micro_batches 4
rank 0: F0@-1 F0.1@-1 F0.2@-1 F1@-1 F0.3 F1.1@-1 B0.3 F1.2 F2@-1 B0.2@-1 F1.3 F2.1 B0.1@-1 B1.3 F2.2 F3 B0@-1 B1.2 F2.3 F3.1
repeat
rank 0: B1.1@-1 B2.3 F4@-1 F3.2 B1@-1 B2.2 F4.1@-1 F3.3 B2.1 B3.3 U3 F4.2@-1 F5@-1 B2@-1 B3.2 U2 F4.3 F5.1@-1 B4.3 B3.1 U1 F5.2 F6@-1 B4.2@-1 B3 U0 F5.3 F6.1 B4.1@-1 B5.3 F6.2 F7 B4@-1 B5.2 F6.3 F7.1' ;;
  esac
  printf 'psisim-schedule 1\nranks 1\n%s\n' "$order"
}

# The value of a key in the line of a file that begins with another key: value FILE LINE KEY
value() { sed -n "s/^{\"$2\":.*\"$3\": *\"\{0,1\}\([^,\"}]*\).*/\1/p" "$1" | tail -n 1; }

trained=
if [ -x "$out/train-cuda" ] && [ "$status" -ne 77 ] && [ "$status" -ne 127 ]; then
  for plan in single accumulate cdp-single; do
    say "train-cuda: $plan, $blocks blocks of width $width, 4 workers of $rows samples"
    if schedule "$plan" | limited "$train_limit" "$out/train-cuda" --schedule - --log steps --steps 4 \
      --blocks "$blocks" --width "$width" --batch "$rows" >"$out/train-$plan.jsonl" 2>>"$log"; then
      trained="$trained $plan"
    else
      say "train-cuda: $plan did not end well, see $log"
    fi
  done
fi
rm -f "$out/bench-cuda" "$out/train-cuda"

# ---- Report ----

{
  echo "Measured $(date -u +%Y-%m-%d)"
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null | sort | uniq -c
  echo
  if [ -s "$out/samples.jsonl" ]; then
    echo "samples.jsonl: $(wc -l <"$out/samples.jsonl") records"
    sed -n 's/^{"record": "\([a-z_]*\)".*/\1/p' "$out/samples.jsonl" | sort | uniq -c
  else
    echo "samples.jsonl: nothing was measured"
  fi
  if [ -n "$trained" ]; then
    echo
    echo "Trained on one GPU: $blocks blocks of width $width, 4 workers of $rows samples, bytes of live tensors"
    printf '%-12s %15s %15s %12s %12s\n' plan peak activations 'step (s)' loss
    for plan in $trained; do
      file=$out/train-$plan.jsonl
      printf '%-12s %15s %15s %12.12s %12.12s\n' "$plan" "$(value "$file" rank peak_bytes)" \
        "$(value "$file" rank activations_peak_bytes)" "$(value "$file" final step_time_s)" "$(value "$file" final loss)"
    done
  fi
} >"$report"

psisim=${PSISIM:-}
for program in "$here/../build/psisim" "$(command -v psisim 2>/dev/null || true)"; do
  [ -z "$psisim" ] && [ -n "$program" ] && [ -x "$program" ] && psisim=$program
done
if [ -s "$out/samples.jsonl" ] && [ -n "$psisim" ] && "$psisim" --version >>"$log" 2>&1; then
  {
    echo
    "$psisim" fit "$out/samples.jsonl" -o "$out/gpu.json"
    echo
    echo "The same plans as psisim predicts them from gpu.json:"
    "$psisim" compare --machine "$out/gpu.json" --model custom --family mlp --layers "$blocks" --hidden "$width" \
      --micro-batch "$rows" --precision fp32 --optimizer momentum --grad-clip no \
      --plans single,accumulate,cdp-single --workers 4 --stages 4
  } >>"$report" 2>>"$log" || say "psisim could not use the samples, see $log"
else
  echo "For a profile, anywhere: psisim fit samples.jsonl -o gpu.json" >>"$report"
fi
cat "$report"
exit "$status"
