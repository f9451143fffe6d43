#!/bin/sh
# Renew the lock files of Python packages, with the SHA-256 of each file. The arguments are uv's: `--upgrade` selects the
# newest versions, `--upgrade-package NAME` upgrades one package; without arguments versions change only if they must.
set -eu
cd "$(dirname "$0")/.."
uv=.venv/bin/uv
export UV_CUSTOM_COMPILE_COMMAND='make lock'

lock() { # lock OUTPUT OPTION...
  output=$1
  shift
  "$uv" pip compile --quiet --universal --generate-hashes --no-annotate --no-emit-index-url --output-file "$output" "$@"
}

control='--python-version 3.10' # the oldest that pyproject.toml allows
image='--python-version 3.11 --only-binary :all:' # Debian 12's
# shellcheck disable=SC2086  # lists of options
{
  lock requirements/uv.txt $control "$@" requirements/uv.in
  lock requirements/development.txt $control "$@" --extra dev pyproject.toml
  for part in cli.txt=pyproject.toml build.txt=requirements/build.in; do
    lock "requirements/${part%=*}" $control "$@" --constraint requirements/development.txt "${part#*=}"
  done
  for framework in tensorflow pytorch; do
    lock "docker/cuda-$framework.txt" $image "$@" --no-deps "requirements/cuda-$framework.in"
  done
  lock requirements/horovod-suite.txt $image "$@" requirements/horovod-suite.in
  lock docker/requirements-tensorflow-cpu.txt $image "$@" --override requirements/tensorflow-cpu.override \
    requirements/image.in requirements/tensorflow.in requirements/tensorflow-cpu.in
  lock docker/requirements-tensorflow-gpu.txt $image "$@" \
    requirements/image.in requirements/tensorflow.in requirements/tensorflow-gpu.in
  lock docker/requirements-pytorch-cpu.txt $image "$@" --excludes requirements/pytorch-cpu.excludes \
    requirements/image.in requirements/pytorch.in
  lock docker/requirements-worker.txt $image "$@" requirements/worker.in
  lock docker/requirements-pytorch-gpu.txt $image "$@" requirements/image.in requirements/pytorch.in
  lock docker/requirements-both-cpu.txt $image "$@" --project requirements/both \
    --override requirements/tensorflow-cpu.override --excludes requirements/pytorch-cpu.excludes \
    requirements/image.in requirements/tensorflow.in requirements/tensorflow-cpu.in requirements/pytorch.in requirements/both.in
}
