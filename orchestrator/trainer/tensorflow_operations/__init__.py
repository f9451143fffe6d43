"""Operations that this project adds to TensorFlow for CPUs: docker/operations, which the image build compiles."""
