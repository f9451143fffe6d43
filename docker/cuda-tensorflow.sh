#!/bin/sh
# Lays a CUDA compiler over this stage, where Debian's own packages would have it. No GPU and no driver is needed.
#
# The wheels that TensorFlow brings run CUDA 12 programs but cannot compile them: NVIDIA publishes nvcc as a wheel only
# since CUDA 13, and what that compiles needs a driver of branch 580. Debian 13's nvcc is of CUDA 12.4: it does with
# every driver that TensorFlow itself does with, and comes from the mirror that the base image already trusts. It is
# unpacked, not installed, because its dependencies are 3 GB of libraries that we have as wheels.
set -eux
directory=$(mktemp --directory)
cd "$directory"

apt-get update
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)
test -n "$mirror"
echo "deb $mirror trixie non-free" > trixie.list
apt="apt-get -o Dir::Etc::sourcelist=$PWD/trixie.list -o Dir::Etc::sourceparts=- -o APT::Sandbox::User=root"
$apt update
$apt download nvidia-cuda-toolkit
dpkg-deb --extract nvidia-cuda-toolkit_*.deb /
nvcc --version | grep --fixed-strings 'release 12.4,'

# Its headers must be of its own version.
pip download --require-hashes --only-binary :all: --no-deps --dest wheels --requirement /tmp/cuda-tensorflow.txt
for wheel in wheels/*.whl; do
  python -m zipfile --extract "$wheel" unpacked
done
cp --recursive unpacked/nvidia/*/include/. /usr/include/

# The libraries may be newer, and only newer wheels have the static one.
libraries=$(python -c 'import site; print(site.getsitepackages()[0])')/nvidia
system=/usr/lib/$(gcc -print-multiarch)
cp "$libraries"/cuda_runtime/lib/*.a "$system"
ln -s "$libraries/cuda_runtime/lib/libcudart.so.12" "$system/libcudart.so"
cd /
rm -rf "$directory" /var/lib/apt/lists/*
