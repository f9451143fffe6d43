// Activations as a matrix of rows of all channels, and work on its rows by all threads.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"

#include "threads.h"

namespace orchestrator {

// Rows of few channels would make short loops: several pixels are one row then.
struct Matrix {
  int64_t channels, pixels, width, rows, part;

  explicit Matrix(const tensorflow::TensorShape& shape) {
    channels = shape.dim_size(shape.dims() - 1);
    pixels = shape.num_elements() / channels;
    int64_t pixels_in_row = 1;
    while (channels * pixels_in_row < 64 && pixels % (2 * pixels_in_row) == 0) pixels_in_row *= 2;
    width = channels * pixels_in_row;
    rows = pixels / pixels_in_row;
    part = std::max<int64_t>({1, 65536 / width, (rows + 255) / 256});
  }
  int64_t parts() const { return (rows + part - 1) / part; }
  std::vector<float> InRow(const std::vector<float>& by_channel) const {
    std::vector<float> repeated(width);
    for (int64_t n = 0; n < width; ++n) repeated[n] = by_channel[n % channels];
    return repeated;
  }
};

// Calls work(offset of the first number, rows, number) for each part, on all threads.
template <typename Work>
void ForParts(tensorflow::OpKernelContext* context, const Matrix& matrix, Work work) {
  InBlocks(context, matrix.parts(), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t first = n * matrix.part;
      work(first * matrix.width, std::min(matrix.part, matrix.rows - first), n);
    }
  });
}

// Returns `count` sums of all channels: work(offset of the first number, rows, sums) adds those of a part, which are
// `matrix.width` numbers for each of the sums.
template <typename Work>
std::vector<double> Sums(tensorflow::OpKernelContext* context, const Matrix& matrix, int count, Work work) {
  std::vector<float> parts(matrix.parts() * count * matrix.width);
  ForParts(context, matrix, [&](int64_t at, int64_t rows, int64_t n) {
    work(at, rows, parts.data() + n * count * matrix.width);
  });
  std::vector<double> total(count * matrix.channels);
  const float* next = parts.data();
  for (int64_t n = 0; n < matrix.parts(); ++n) {
    for (double* sums = total.data(); sums < total.data() + total.size(); sums += matrix.channels) {
      for (int64_t at = 0; at < matrix.width; at += matrix.channels) {
        for (int64_t c = 0; c < matrix.channels; ++c) sums[c] += *next++;
      }
    }
  }
  return total;
}

}  // namespace orchestrator
