#!/bin/sh
# Completes the CUDA that PyTorch brought as wheels, and that lies in one directory, by its compiler: since CUDA 13 NVIDIA
# publishes it as wheels too. No GPU and no driver is needed. slim.sh removes it.
set -eux
pip install --require-hashes --only-binary :all: --no-deps --requirement /tmp/cuda-pytorch.txt
cuda=$(python -c 'import site; print(site.getsitepackages()[0])')/nvidia/cu13
# Names that linkers look for.
ln -s lib "$cuda/lib64"
ln -s libcudart.so.13 "$cuda/lib/libcudart.so"
"$cuda/bin/nvcc" --version | grep --fixed-strings 'release 13.2,'
