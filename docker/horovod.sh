#!/bin/sh
# Builds Horovod 0.28.1, the last release (2023), against the TensorFlow of this environment, with Gloo and MPI.
set -eux
cd /tmp
pip download --no-deps --no-build-isolation --no-binary :all: horovod==0.28.1
echo '92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0  horovod-0.28.1.tar.gz' | sha256sum --check
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
# The launcher's own ssh options would switch host-key checking off.
edit 's/StrictHostKeyChecking=no/BatchMode=yes/' horovod/runner/util/remote.py
# To learn what is built in, the launcher imports TensorFlow (two seconds) before it starts a rank; it is proved below.
edit 's/if not \(gloo\|mpi\)_built(.*/if False:/' horovod/runner/launch.py
# No debug information, which takes time to make and space to keep.
edit 's/RelWithDebInfo/Release/' setup.py

export HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1
export HOROVOD_WITH_GLOO=1 HOROVOD_WITH_MPI=1
MAKEFLAGS="-j$(nproc)"
export MAKEFLAGS
pip install --no-build-isolation --no-deps .

# horovodrun --check-build claims whatever it was compiled for; an import that works is the proof.
cd /
python -c 'import horovod.tensorflow as hvd; assert hvd.gloo_built() and hvd.mpi_built()'
rm -rf /tmp/horovod-0.28.1 /tmp/horovod-0.28.1.tar.gz /tmp/before
