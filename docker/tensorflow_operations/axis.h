// Sizes of a convolution.

#pragma once

#include <algorithm>
#include <cstdint>

#include "numbers.h"

namespace orchestrator {

INLINE int64_t Parts(int64_t whole, int64_t part) { return (whole + part - 1) / part; }

// Sizes of images, kernel and result along one axis.
struct Axis {
  int64_t images, kernel, stride, result, before;

  Axis(int64_t images, int64_t kernel, int64_t stride, bool same) : images(images), kernel(kernel), stride(stride) {
    result = same ? Parts(images, stride) : Parts(std::max<int64_t>(0, images - kernel + 1), stride);
    before = same ? std::max<int64_t>(0, (result - 1) * stride + kernel - images) / 2 : 0;
  }
};

}  // namespace orchestrator
