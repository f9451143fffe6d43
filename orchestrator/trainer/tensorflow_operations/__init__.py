"""Operations that this project adds to TensorFlow for CPUs; the image build compiles docker/tensorflow_operations."""
