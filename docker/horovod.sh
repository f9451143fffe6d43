#!/bin/sh
# Build Horovod 0.28.1, the last release (2023), for the framework that the first argument names, with Gloo and MPI. If
# the second argument is "gpu", build it with NCCL too, by the compiler that cuda-*.sh installed.
set -eux
framework=$1
accelerator=$2
cd /tmp
pip download --require-hashes --no-deps --no-build-isolation --no-binary :all: --requirement horovod.txt
tar --extract --file horovod-0.28.1.tar.gz
cd horovod-0.28.1
sh /tmp/horovod/apply.sh .

case "$framework" in
  tensorflow) export HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 ;;
  pytorch) export HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 ;;
  both) export HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITH_PYTORCH=1 ;;
esac
export HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITH_MPI=1
if test "$accelerator" = gpu; then
  site=$(python -c 'import site; print(site.getsitepackages()[0])')
  ln -s libnccl.so.2 "$site/nvidia/nccl/lib/libnccl.so"
  export HOROVOD_GPU_OPERATIONS=NCCL HOROVOD_NCCL_HOME="$site/nvidia/nccl" HOROVOD_NCCL_LINK=SHARED HOROVOD_WITHOUT_NVTX=1
  # GPUs that are newer than the last one of a list compile its code when they first use it.
  case "$framework" in
    tensorflow) # Pascal to Hopper
      export HOROVOD_CUDA_HOME=/usr HOROVOD_BUILD_CUDA_CC_LIST=60,70,75,80,86,89,90
      # nvcc cannot link the newer wheel's library for kernels that start kernels. Horovod has no such kernels.
      export NVCC_APPEND_FLAGS='--cudadevrt none'
      ;;
    pytorch) # Turing to Blackwell
      export CUDA_HOME="$site/nvidia/cu13" HOROVOD_CUDA_HOME="$site/nvidia/cu13"
      export HOROVOD_BUILD_CUDA_CC_LIST=75,80,86,89,90,100,120
      ;;
  esac
fi
MAKEFLAGS="-j$(nproc)"
export MAKEFLAGS
pip install --no-build-isolation --no-deps .
cd /
rm -rf /tmp/horovod-0.28.1 /tmp/horovod-0.28.1.tar.gz
