#!/bin/sh
# Remove what nothing in the image uses. The first argument is the framework, the second "cpu" or "gpu".
set -eux
site=$(python -c 'import site; print(site.getsitepackages()[0])')
# Jedi completes code of packages that are not in the image by these 5,700 files, each of which costs Docker on a slow
# node 10 ms.
rm -rf "$site/jedi/third_party/typeshed/stubs" "$site/jedi/third_party/django-stubs"
# TensorFlow's headers, 430 MB, were needed to build Horovod. Nothing uses libclang, 62 MB.
rm -rf "$site/tensorflow/include" "$site/clang/native"

if test "$1-$2" = tensorflow-cpu || test "$1-$2" = both-cpu; then
  # tf_keras requires the package tensorflow. For x86_64, PyPI has the CPU build under the name tensorflow-cpu.
  test ! -d "$site"/tensorflow_cpu-*.dist-info ||
    sed --in-place 's/^Requires-Dist: tensorflow</Requires-Dist: tensorflow-cpu</' "$site"/tf_keras-*.dist-info/METADATA
fi
if test "$1-$2" = pytorch-cpu || test "$1-$2" = both-cpu; then
  # PyTorch's only wheel is linked to CUDA. On a CPU it needs only the libraries that the linker loads with it. The
  # others, 1 GB, are loaded when a GPU computes.
  python -c 'import torch; torch.backends.cudnn.version(); print(open("/proc/self/maps").read())' |
    grep --only-matching "$site/nvidia/.*" | sort --unique > /tmp/loaded
  find "$site/nvidia" -type f -path '*/lib/*' > /tmp/libraries
  grep --invert-match --line-regexp --fixed-strings --file /tmp/loaded /tmp/libraries | xargs rm
  rm -rf "$site"/nvidia/*/include
  sed --in-place '/^Requires-Dist: triton/d' "$site"/torch-*.dist-info/METADATA
fi
if test "$1-$2" = pytorch-gpu; then
  pip uninstall --yes --requirement /tmp/cuda-pytorch.txt
  rm "$site/nvidia/cu13/lib64" "$site/nvidia/cu13/lib/libcudart.so"
fi
pip check
