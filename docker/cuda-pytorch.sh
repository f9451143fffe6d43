#!/bin/sh
# Add NVIDIA's CUDA compiler to the CUDA libraries that PyTorch installed as wheels, all of which are in one directory.
# Since CUDA 13 the compiler is a wheel too. Needs neither a GPU nor a driver. remove_unneeded_files.sh removes it.
set -eux
pip install --require-hashes --only-binary :all: --no-deps --requirement /tmp/cuda-pytorch.txt
cuda=$(python -c 'import site; print(site.getsitepackages()[0])')/nvidia/cu13
# Names that linkers look for.
ln -s lib "$cuda/lib64"
ln -s libcudart.so.13 "$cuda/lib/libcudart.so"
"$cuda/bin/nvcc" --version | grep --fixed-strings 'release 13.2,'
