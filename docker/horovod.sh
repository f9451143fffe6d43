#!/bin/sh
# Builds Horovod 0.28.1, the last release (2023), against the TensorFlow of this environment, with Gloo and MPI; where
# the first argument is "gpu" with NCCL too, by the compiler that cuda.sh brought.
set -eux
accelerator=$1
cd /tmp
pip download --require-hashes --no-deps --no-build-isolation --no-binary :all: --requirement horovod.txt
tar --extract --file horovod-0.28.1.tar.gz
cd horovod-0.28.1

# Edits a file and fails where that changed nothing.
edit() {
  cp "$2" /tmp/before
  sed --in-place "$1" "$2"
  ! cmp --silent /tmp/before "$2"
}
# Includes headers (highwayhash, farmhash) that TensorFlow's wheel lacks; adds only allreduce inside XLA's functions.
edit '/xla_mpi_ops\.cc/d' horovod/tensorflow/CMakeLists.txt
# TensorFlow neither has this header there nor exports this function any more; only GPU builds look for them.
edit 's|^#include "tensorflow/compiler/xla/stream_executor/stream.h"|#include "xla/stream_executor/stream.h"\
namespace stream_executor::gpu {\
inline GpuStreamHandle AsGpuStreamValue(Stream* stream) {\
  return static_cast<GpuStreamHandle>(stream->platform_specific_handle().stream);\
}\
}|' horovod/tensorflow/mpi_ops.cc
# A set of ranks forgets which interface it was given and takes the address of the host's own name, which in Debian and
# Ubuntu is 127.0.1.1: no other host finds it there.
edit '/::InitializeForProcessSet(/,/CreateDevice/ s/= gloo_iface_;/= global_context.gloo_iface_;/' \
  horovod/common/gloo/gloo_context.cc
# Gloo tells a peer that it may send on the connection that carries what the peer gets itself: asked after that was
# begun, two ranks fill their link in one direction at a time. So it asks first.
gloo=third_party/gloo/gloo
edit '/^  \/\/ Remote copy/i\
  for (int i = 1; i < worldSize; i++) {\
    int recvRank = (myRank + worldSize - i) % worldSize;\
    out->recv(recvRank, slot, outOffsetPerRank[recvRank], outLengthPerRank[recvRank]);\
  }
/^    int recvRank/d; /^    out->recv($/,+1d' $gloo/alltoallv.cc
edit '/^ *out->send(/ { N; s/\(.*\)\n\(.*\)/\2\n\1/ }' $gloo/allgatherv.cc
# The launcher's own ssh options would switch host-key checking off.
edit 's/StrictHostKeyChecking=no/BatchMode=yes/' horovod/runner/util/remote.py
# A set of ranks that has met is forgotten, and with it which ranks of the others had: their addresses stay, and a rank
# that starts Horovod again may find one that nobody answers at any more.
edit 's/self\.server\.finished_list\.clear()/del self.server.finished_list[scope]/' horovod/runner/http/http_server.py
# To learn what is built in, the launcher imports TensorFlow (two seconds) before it starts a rank; it is proved below.
edit 's/if not \(gloo\|mpi\)_built(.*/if False:/' horovod/runner/launch.py
# No debug information, which takes time to make and space to keep.
edit 's/RelWithDebInfo/Release/' setup.py

export HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1
export HOROVOD_WITH_GLOO=1 HOROVOD_WITH_MPI=1
PROVED='hvd.gloo_built() and hvd.mpi_built()'
if test "$accelerator" = gpu; then
  nccl=$(python -c 'import site; print(site.getsitepackages()[0])')/nvidia/nccl
  ln -s libnccl.so.2 "$nccl/lib/libnccl.so"
  export HOROVOD_GPU_OPERATIONS=NCCL HOROVOD_NCCL_HOME="$nccl" HOROVOD_NCCL_LINK=SHARED
  # nvcc cannot link the newer wheel's code for kernels that start kernels. Horovod has none.
  export HOROVOD_CUDA_HOME=/usr HOROVOD_WITHOUT_NVTX=1 NVCC_APPEND_FLAGS='--cudadevrt none'
  # Pascal to Hopper. Newer GPUs compile the last one's code for themselves when it is first used.
  export HOROVOD_BUILD_CUDA_CC_LIST=60,70,75,80,86,89,90
  PROVED="$PROVED and hvd.nccl_built()"
fi
MAKEFLAGS="-j$(nproc)"
export MAKEFLAGS
pip install --no-build-isolation --no-deps .

# horovodrun --check-build claims whatever it was compiled for; an import that works is the proof.
cd /
python -c "import horovod.tensorflow as hvd; assert $PROVED"
horovodrun --check-build
rm -rf /tmp/horovod-0.28.1 /tmp/horovod-0.28.1.tar.gz /tmp/before
