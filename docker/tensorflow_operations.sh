#!/bin/sh
# Compile this project's operations for the TensorFlow of this environment. The first argument is the framework. The
# library's name has TensorFlow's version and the number of orchestrator/trainer/tensorflow_operations/library.py.
set -eux
test "$1" != pytorch || exit 0
cd /tmp/tensorflow_operations
site=$(python -c 'import site; print(site.getsitepackages()[0])')
version=$(python -c 'import tensorflow; print(tensorflow.__version__)')
# -w: the headers of TensorFlow cause warnings. -fno-math-errno: roots in vectors.
g++ -std=c++17 -O3 -fno-math-errno -fPIC -shared -w -DEIGEN_MAX_ALIGN_BYTES=64 "-I$site/tensorflow/include" *.cc \
  -o "/opt/orchestrator/lib/orchestrator-tensorflow-$version-8.so" "-L$site/tensorflow" -l:libtensorflow_framework.so.2
