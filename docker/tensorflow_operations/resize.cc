// Resizing of an image in 8 bits as one operation of TensorFlow:
//
//   out = cast(tf.image.resize(cast(image, float32), [size, size]) + 0.5, uint8)
//
// with the same bits. TensorFlow's operations write the image and the result in float32 several times; together they
// take as long as a quarter of the decoding of a JPEG. Pixels have three numbers, and are computed four at a time: the
// fourth is overwritten by the next pixel.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

#include "numbers.h"

// The same bits on every CPU, with and without fused multiplication and addition.
#pragma GCC optimize("fp-contract=off")

namespace orchestrator {

constexpr int CHANNELS = 3;

// A position of the result between two of the image.
struct Position {
  int lower, upper;
  float share;  // of the upper one
};

// As compute_interpolation_weights of TensorFlow's resize_bilinear_op.cc with half_pixel_centers.
static std::vector<Position> Positions(int from, int to) {
  const float scale = from / static_cast<float>(to);
  std::vector<Position> positions(to);
  for (int n = 0; n < to; ++n) {
    const float at = (static_cast<float>(n) + 0.5f) * scale - 0.5f, below = std::floor(at);
    positions[n] = {std::max(static_cast<int>(below), 0), std::min(static_cast<int>(std::ceil(at)), from - 1),
                    at - below};
  }
  return positions;
}

using Floats = float __attribute__((vector_size(16)));

INLINE Floats Pixel(const float* row, int column) {
  Floats pixel;
  memcpy(&pixel, row + CHANNELS * column, sizeof pixel);
  return pixel;
}

// `wide` and `out` have space for one number more than their pixels have.
FOR_EVERY_CPU void ResizeRow(const uint8_t* row, int width, float* __restrict wide, const Position* columns, int count,
                             float* __restrict out) {
  for (int n = 0; n < CHANNELS * width; ++n) wide[n] = row[n];
  for (int n = 0; n < count; ++n) {
    const Floats left = Pixel(wide, columns[n].lower), right = Pixel(wide, columns[n].upper);
    const Floats between = left + (right - left) * columns[n].share;
    memcpy(out + CHANNELS * n, &between, sizeof between);
  }
}

FOR_EVERY_CPU void Round(const float* __restrict above, const float* __restrict below, float share, int count,
                         uint8_t* __restrict out) {
  for (int n = 0; n < count; ++n) {
    out[n] = static_cast<uint8_t>(static_cast<int>(above[n] + (below[n] - above[n]) * share + 0.5f));
  }
}

class Resize : public tensorflow::OpKernel {
 public:
  explicit Resize(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("size", &size_));
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    const tensorflow::Tensor& image = context->input(0);
    const auto& shape = image.shape();
    OP_REQUIRES(context, shape.dims() == 3 && shape.dim_size(2) == CHANNELS && shape.num_elements() > 0,
                absl::InvalidArgumentError(absl::StrCat("image has shape ", shape.DebugString(),
                                                        ", expected (height, width, 3)")));
    tensorflow::Tensor* result;
    OP_REQUIRES_OK(context, context->allocate_output(0, tensorflow::TensorShape({size_, size_, CHANNELS}), &result));
    const int width = shape.dim_size(1), numbers = CHANNELS * size_;
    const auto rows = Positions(shape.dim_size(0), size_), columns = Positions(width, size_);
    const uint8_t* pixels = image.flat<uint8_t>().data();
    uint8_t* out = result->flat<uint8_t>().data();
    std::vector<float> wide(CHANNELS * width + 1);
    std::vector<float> resized[2] = {std::vector<float>(numbers + 1), std::vector<float>(numbers + 1)};
    int held[2] = {-1, -1};  // rows of the image in `resized`: an even one, and an odd one
    const auto row = [&](int number) {
      const int slot = number % 2;
      if (held[slot] != number) {
        ResizeRow(pixels + int64_t{number} * CHANNELS * width, width, wide.data(), columns.data(), size_,
                  resized[slot].data());
        held[slot] = number;
      }
      return resized[slot].data();
    };
    for (int n = 0; n < size_; ++n) {
      const float *above = row(rows[n].lower), *below = row(rows[n].upper);
      Round(above, below, rows[n].share, numbers, out + int64_t{n} * numbers);
    }
  }

 private:
  int size_;
};

REGISTER_OP("OrchestratorResize")
    .Input("image: uint8").Output("resized: uint8")
    .Attr("size: int >= 1")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      int size;
      TF_RETURN_IF_ERROR(context->GetAttr("size", &size));
      context->set_output(0, context->MakeShape({size, size, CHANNELS}));
      return absl::OkStatus();
    });
REGISTER_KERNEL_BUILDER(Name("OrchestratorResize").Device(tensorflow::DEVICE_CPU), Resize);

}  // namespace orchestrator
