#!/bin/sh
# Add this project's modules to the installed Horovod, apply the patches that need no build of it, and check what was
# built into it: the framework that the first argument names (or both), Gloo and MPI, and NCCL if the second argument is
# "gpu".
set -eux
case "$1" in
  tensorflow) modules=horovod.tensorflow ;;
  pytorch) modules=horovod.torch ;;
  both) modules='horovod.tensorflow horovod.torch' ;;
esac
site=$(python -c 'import site; print(site.getsitepackages()[0])')
cp -r /tmp/overlay/horovod "$site/"
cp /tmp/horovod/apply.sh /tmp/overlay/
sh /tmp/overlay/apply.sh "$site"
python -m compileall -q "$site/horovod"
proved='hvd.gloo_built() and hvd.mpi_built()'
test "$2" != gpu || proved="$proved and hvd.nccl_built()"
# horovodrun --check-build prints what Horovod was compiled for, even if it cannot be imported.
for module in $modules; do
  python -c "import $module as hvd; assert $proved"
done
horovodrun --check-build
