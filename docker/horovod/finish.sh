#!/bin/sh
# Adds our modules to the installed Horovod and proves what was built into it: the framework of the first argument (or
# both), Gloo and MPI, and where the second argument is "gpu" NCCL.
set -eux
case "$1" in
  tensorflow) modules=horovod.tensorflow ;;
  pytorch) modules=horovod.torch ;;
  both) modules='horovod.tensorflow horovod.torch' ;;
esac
site=$(python -c 'import site; print(site.getsitepackages()[0])')
cp -r /tmp/overlay/. "$site/"
python -m compileall -q "$site/horovod"
proved='hvd.gloo_built() and hvd.mpi_built()'
test "$2" != gpu || proved="$proved and hvd.nccl_built()"
# horovodrun --check-build claims whatever it was compiled for; an import that works is the proof.
for module in $modules; do
  python -c "import $module as hvd; assert $proved"
done
horovodrun --check-build
