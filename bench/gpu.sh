#!/usr/bin/env bash
# Run all measurements on a machine with an NVIDIA GPU: `make gpu-report` writes build/gpu.md, one file to send, with the
# rates, a description of the machine, and the last lines of failed measurements.
#
#   bench/gpu.sh                        by Docker, in the trainer's GPU image (built if missing; `make install` first)
#   bench/gpu.sh --image NAME           in this image, with the worker side of this working tree
#   bench/gpu.sh --batches "128 256"    only these batch sizes (64 128 256 512); each takes about five minutes
#   bench/gpu.sh --precisions bfloat16  only these precisions (float32 float16 bfloat16)
#   PYTHON=/path/python bench/gpu.sh    without Docker: a Python with TensorFlow, tf_keras, Horovod and this package
#   TORCH_PYTHON=/path/python bench/gpu.sh      a Python with PyTorch (and a C compiler for torch.compile), to compare
#   bench/gpu.sh --dry-run              on CPUs, a few small steps: every line except calls of nvidia-smi
#
# ResNet-50 on synthetic images of 224 pixels, one GPU: the trainer in each precision and batch size, with and without
# XLA; Horovod 0.28.1's own example, which has float32 only; the shortest loop in tf_keras; and PyTorch.
# Samples of `nvidia-smi dmon` give the mean use of the SMs, the mean power and the largest memory. Failures (out of
# memory) have a row too.
set -euo pipefail
cd "$(dirname "$0")/.."

dry= image= batches=(64 128 256 512) precisions=(float32 float16 bfloat16)
while test $# -gt 0; do
  case $1 in
    --dry-run) dry=yes ;;
    --image) image=$2; shift ;;
    --batches) read -ra batches <<< "$2"; shift ;;
    --precisions) read -ra precisions <<< "$2"; shift ;;
    *) echo "$1: unknown; see the top of $0" >&2; exit 2 ;;
  esac
  shift
done

pixels=224 images=8192 epochs=4 iterations=3 rounds=3 steps=20 device=()
if test -n "$dry"; then
  precisions=(bfloat16) batches=(2) pixels=32 images=8 epochs=2 iterations=1 rounds=1 steps=2 device=(--no-cuda)
fi
example=tensorflow2_synthetic_benchmark.py
example_at=https://raw.githubusercontent.com/horovod/horovod/v0.28.1/examples/tensorflow2/$example
example_sha256=f59fdc77495f955ed22198a84e7d1127721b85731bb466427974069222aceb95
output=${BENCH_OUTPUT:-build}/gpu.md

mkdir -p build/bench "$(dirname "$output")"
work=$(mktemp -d "$PWD/build/gpu.XXXXXX")
sampler=
running=
container=bench-${work##*/}
finished=
has_example=
trap 'stop_sampler; stop_running; test ! -e "$work/results.tsv" || report || true; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# --- containers or Python ---------------------------------------------------------------------------------------------
gpus=(--gpus all)
if test -n "$dry"; then gpus=(); fi
if test -z "${PYTHON-}" && test -z "$image"; then
  accelerator=gpu
  if test -n "$dry"; then accelerator=cpu; fi
  image=$(.venv/bin/python - "$accelerator" "$work/image.log" <<'PYTHON'
import sys
from pathlib import Path
from orchestrator.config import Local
from orchestrator.docker import build
from orchestrator.docker.context import Variant
from orchestrator.docker.engine import Engine
print(build.ensure(Engine(), "trainer", Variant(Local().base_image, accelerator=sys.argv[1]), Path(sys.argv[2])))
PYTHON
  )
  sources=()
else
  sources=(--volume "$PWD/orchestrator:/opt/orchestrator/src/orchestrator:ro")
fi

# attended COMMAND...: run a command. Bash waits for it here, because a signal interrupts `wait`, and no other command.
attended() {
  local status=0
  "$@" &
  running=$!
  wait "$running" || status=$?
  running=
  return "$status"
}
stop_running() {
  test -n "$running" || return 0
  kill -KILL "$running" || true # before its container is removed, which it may be about to create
  wait "$running" 2> /dev/null || true
  running=
  test -z "$image" || docker rm --force "$container" > /dev/null 2>&1 || true
}
# python VARIABLE=VALUE... -- ARGUMENT...: run Python, in a container if there is an image.
python() {
  local variables=(TF_CPP_MIN_LOG_LEVEL=2 "PYTHONPATH=$PWD")
  while test "$1" != --; do variables+=("$1"); shift; done
  shift
  if test -z "$image"; then attended env "${variables[@]}" "$PYTHON" "$@"; return; fi
  attended docker run --name "$container" --rm --init "${gpus[@]}" --network none --hostname localhost --ipc host --entrypoint "" \
    --user "$(id -u):$(id -g)" --env HOME="$work" --env USER=bench --workdir "$work" \
    --volume "$PWD/bench:$PWD/bench:ro" --volume "$PWD/build:$PWD/build" "${sources[@]}" \
    "${variables[@]/#/--env=}" "$image" /opt/orchestrator/bin/python "$@"
}

# Functions below use `&&` and `return` if their exit status is tested, because `set -e` has no effect there.

# --- use of the GPU during a run --------------------------------------------------------------------------------------
machine() {
  if test -n "$dry"; then echo "no GPU: a dry run on $(nproc) cores, without meaning"; return; fi
  nvidia-smi --query-gpu=name,memory.total,driver_version,compute_cap --format=csv,noheader | head -n 1
}
# Print facts about the machine that may explain a rate; a failing line does not affect the others.
details() {
  uname -srm
  lscpu | grep -E '^(Model name|CPU\(s\)|NUMA node\(s\)|Mem)' || true
  grep MemTotal /proc/meminfo || true
  git describe --always --dirty || true
  docker version --format 'Docker {{.Server.Version}}' || true
  python -- -c 'import horovod, keras, tensorflow as tf
print("TensorFlow", tf.__version__, "Keras", keras.__version__, "Horovod", horovod.__version__, tf.sysconfig.get_build_info())' || true
  if test -z "$dry"; then nvidia-smi; nvidia-smi topo -m; fi || true
}
sample() {
  if test -n "$dry"; then printf '#Time gpu pwr sm mem fb\n#HH:MM:SS Idx W %% %% MB\n 10:00:00 0 25 50 20 1000\n' > "$work/dmon"; return; fi
  nvidia-smi dmon --id 0 --select pum --options T --delay 1 > "$work/dmon" &
  sampler=$!
}
stop_sampler() {
  test -n "$sampler" || return 0
  kill "$sampler" || true
  wait "$sampler" 2> /dev/null || true
  sampler=
}
# Print means of SM use and power over samples with SM activity, and the largest memory: tab-separated.
sampled() {
  awk '
    /^#/ { if (!("sm" in at)) { sub(/^# */, ""); for (i = 1; i <= NF; i++) at[$i] = i } next }
    $at["sm"] > 0 { n++; sm += $at["sm"]; power += $at["pwr"]; if ($at["fb"] > most) most = $at["fb"] }
    END { if (n) printf "%.0f\t%.0f\t%d\n", sm / n, power / n, most; else print "\t\t" }
  ' "$work/dmon"
}

# row WHO PRECISION BATCH XLA COMMAND...: one line of the results; COMMAND's last line is the rate.
row() {
  local who=$1 precision=$2 batch=$3 xla=$4 rate
  shift 4
  echo "$who, $precision, batch $batch, XLA $xla" >&2
  sample
  if "$@" > "$work/output" 2>&1; then rate=$(tail -n 1 "$work/output"); else
    rate=failed
    { printf '\n%s, %s, batch %s, XLA %s:\n\n' "$who" "$precision" "$batch" "$xla"; tail -n 15 "$work/output" | sed 's/^/    /'; } |
      tee -a "$work/failures" >&2
  fi
  stop_sampler # not in $(sampled), a subshell
  printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$who" "$precision" "$batch" "$xla" "$rate" "$(sampled)" >> "$work/results.tsv"
}

ours() {
  local run="$work/run-$1-$2-$3"
  mkdir -p "$run" &&
  python -- -m bench.train_gpu config "$run" "$1" "$2" "$3" "$pixels" "$images" "$epochs" &&
  python -- -m orchestrator.trainer.train "$run" &&
  python -- -m bench.train_gpu rate "$run"
}
horovods() {
  python TF_USE_LEGACY_KERAS=1 -- "$PWD/build/bench/$example" "${device[@]}" \
    --batch-size "$1" --num-warmup-batches 5 --num-iters "$iterations" > "$work/example" &&
  sed -n 's/^Img\/sec per [CG]PU: \([0-9.]*\).*/\1/p' "$work/example"
}
# loop BATCH PRECISION: the shortest loop in tf_keras.
loop() {
  python BENCH_KERAS=tf_keras -- -m bench.train_loop resnet50 --channels 3 --classes 1000 --precision "$2" \
    --pixels "$pixels" --batch "$1" --steps "$steps" --rounds "$rounds" > "$work/loop" &&
  python -- -m bench.train_gpu median "$work/loop"
}
# pytorch BATCH PRECISION ARGUMENT...
pytorch() {
  local batch=$1 precision=$2
  shift 2
  attended env "PYTHONPATH=$PWD" "$TORCH_PYTHON" -m bench.train_torch --precision "$precision" --threads "$(nproc)" \
    --pixels "$pixels" --batch "$batch" --steps "$steps" --rounds "$rounds" "$@" > "$work/loop" &&
  python -- -m bench.train_gpu median "$work/loop"
}
fetch() {
  test -e "build/bench/$example" || test -z "${HOROVOD_SOURCE-}" || cp "$HOROVOD_SOURCE/examples/tensorflow2/$example" build/bench || return
  if ! test -e "build/bench/$example"; then
    curl --fail --silent --show-error --location --output "build/bench/$example.partial" "$example_at" || return
    mv "build/bench/$example.partial" "build/bench/$example"
  fi
  echo "$example_sha256  build/bench/$example" | sha256sum --check --quiet
}

# Print all rows and facts about the machine, also if the program is interrupted.
report() {
  {
    echo "$about, $(date +%F), ResNet-50, $pixels px (Horovod's example: 224 px), 1 process"
    test -n "$finished" || echo "Incomplete: the measurements were interrupted."
    echo
    python -- -m bench.train_gpu table "$work/results.tsv"
    printf '\n## Machine\n\n'
    details 2>&1 | sed 's/^/    /'
    if test -e "$work/failures"; then printf '\n## Failures\n'; cat "$work/failures"; fi
  } | tee "$output"
}

# --- all rows ---------------------------------------------------------------------------------------------------------
about=$(machine)
if fetch 2> "$work/fetch"; then has_example=yes; else
  { printf "\n    Horovod's example, the reference of all rows: %s\n" "$example_at" && sed 's/^/    /' "$work/fetch"; } |
    tee -a "$work/failures" >&2
fi
for batch in "${batches[@]}"; do
  if test -n "$has_example"; then row "Horovod's example" float32 "$batch" no horovods "$batch"; fi
  for precision in "${precisions[@]}"; do
    for xla in no yes; do row ours "$precision" "$batch" "$xla" ours "$precision" "$batch" "$xla"; done
    test "$precision" != float16 || continue
    row "shortest loop" "$precision" "$batch" no loop "$batch" "$precision"
    test -n "${TORCH_PYTHON-}" || continue
    row PyTorch "$precision" "$batch" no pytorch "$batch" "$precision"
    row "PyTorch, compiled" "$precision" "$batch" no pytorch "$batch" "$precision" --compile
  done
done
finished=yes
