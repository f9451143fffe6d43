#!/bin/sh
# Refuses to build an image with both frameworks for GPUs: TensorFlow's wheels need CUDA 12 and PyTorch's CUDA 13, and
# Horovod is compiled by one CUDA. orchestrator/gpu_compatibility/drivers_to_install.yaml says so before a build.
echo 'an image with both frameworks is for CPUs alone: TensorFlow needs CUDA 12, PyTorch CUDA 13' >&2
exit 1
