#!/bin/sh
# Add a CUDA compiler to this build stage, at the paths of Debian's own packages. Needs neither a GPU nor a driver.
#
# TensorFlow's wheels run programs of CUDA 12 but cannot compile them: NVIDIA publishes nvcc as a wheel only since
# CUDA 13, whose programs need a driver of branch 580. Debian 13 has nvcc of CUDA 12.4: its programs run with every
# driver that TensorFlow supports, and it comes from the mirror that the base image already uses. The package is
# unpacked, not installed, because its dependencies are 3 GB of libraries that the wheels contain.
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

# The headers must have the version of nvcc.
pip download --require-hashes --only-binary :all: --no-deps --dest wheels --requirement /tmp/cuda-tensorflow.txt
for wheel in wheels/*.whl; do
  python -m zipfile --extract "$wheel" unpacked
done
cp --recursive unpacked/nvidia/*/include/. /usr/include/

# The libraries may be newer than nvcc. Only newer wheels contain the static library.
libraries=$(python -c 'import site; print(site.getsitepackages()[0])')/nvidia
system=/usr/lib/$(gcc -print-multiarch)
cp "$libraries"/cuda_runtime/lib/*.a "$system"
ln -s "$libraries/cuda_runtime/lib/libcudart.so.12" "$system/libcudart.so"

# TensorFlow opens libcusolver by a library whose search path lacks the directory of its wheel, and ignores all GPUs if
# it does not find it.
ln -s ../../cusolver/lib/libcusolver.so.11 "$libraries/cusparse/lib/libcusolver.so.11"
cd /
rm -rf "$directory" /var/lib/apt/lists/*
