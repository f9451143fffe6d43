#!/bin/sh
# Adds our modules to the installed Horovod and proves what was built into it: with Gloo and MPI, and where the first
# argument is "gpu" with NCCL.
set -eux
site=$(python -c 'import site; print(site.getsitepackages()[0])')
cp -r /tmp/overlay/. "$site/"
python -m compileall -q "$site/horovod"
proved='hvd.gloo_built() and hvd.mpi_built()'
test "$1" != gpu || proved="$proved and hvd.nccl_built()"
# horovodrun --check-build claims whatever it was compiled for; an import that works is the proof.
python -c "import horovod.tensorflow as hvd; assert $proved"
horovodrun --check-build
