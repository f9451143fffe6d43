// Batch normalisation in training, with an addition and a ReLU after it, as one operation of TensorFlow for CPUs:
//
//   y = activation(gamma * (x - mean) / sqrt(variance + epsilon) + beta + side)
//
// TensorFlow has an operation for each of these, and each reads and writes all activations; in bfloat16 most of them are
// also slower than memory. Here x is read once for its statistics and once more to write y. The gradient reads what it
// needs twice, and writes each result once. The parts that threads work on do not depend on the number of threads, and
// their sums are added in order, so results are the same bits for any number of threads.
//
// Source: Ioffe and Szegedy 2015, "Batch Normalization" (arXiv 1502.03167), section 3.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

#include "matrix.h"
#include "numbers.h"

namespace orchestrator {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// Returns the gradient before the activation: that of its result y, where y is within its bounds.
template <bool relu, typename T>
INLINE float Masked(T dy, T y, float ceiling) {
  if (!relu) return Widen(dy);
  return (Widen(y) > 0) & (Widen(y) < ceiling) ? Widen(dy) : 0;
}

// Asks for the numbers that a loop reads after these `count`: the CPU itself looks less far ahead, and not past a page.
constexpr int64_t AHEAD = 1024;  // bytes; 2 and 4 KiB are as fast
template <typename T>
INLINE void Prefetch(const T* from, int64_t count) {
  const char* at = reinterpret_cast<const char*>(from) + AHEAD;
  for (int64_t n = 0; n < count * int64_t{sizeof(T)}; n += 64) __builtin_prefetch(at + n);
}

// The loops over some rows of all channels. Channels are independent, so compilers make vectors of them. Sums are of
// several rows at a time, so that they are loaded and stored less often.
constexpr int LINES = 4;

// Sums x - shift and its square; with a shift near the mean, their difference is exact enough for the variance.
template <int lines, typename T>
INLINE void AddMoments(const T* __restrict x, int64_t channels, const float* __restrict shift, float* __restrict sums,
                       float* __restrict squares) {
  for (int64_t c = 0; c < channels; ++c) {
    float sum = 0, square = 0;
    for (int line = 0; line < lines; ++line) {
      const float distance = Widen(x[line * channels + c]) - shift[c];
      sum += distance;
      square += distance * distance;
    }
    sums[c] += sum;
    squares[c] += square;
  }
}
template <typename T>
FOR_EVERY_CPU void Moments(const T* x, int64_t rows, int64_t channels, const float* shift, float* sums,
                           float* squares) {
  int64_t row = 0;
  for (; row + LINES <= rows; row += LINES) {
    Prefetch(x + row * channels, LINES * channels);
    AddMoments<LINES>(x + row * channels, channels, shift, sums, squares);
  }
  for (; row < rows; ++row) AddMoments<1>(x + row * channels, channels, shift, sums, squares);
}

template <bool relu, bool added, typename T>
FOR_EVERY_CPU void Apply(const T* __restrict x, const T* __restrict side, int64_t rows, int64_t channels,
                         const float* __restrict mean, const float* __restrict scale, const float* __restrict offset,
                         float ceiling, T* __restrict y) {
  for (int64_t row = 0, at = 0; row < rows; ++row, at += channels) {
    Prefetch(x + at, channels);
    if (added) Prefetch(side + at, channels);
    for (int64_t c = 0; c < channels; ++c) {
      float z = (Widen(x[at + c]) - mean[c]) * scale[c] + offset[c];
      if (added) z += Widen(side[at + c]);
      if (relu) z = z < 0 ? 0 : z > ceiling ? ceiling : z;  // keeps what is not a number
      Narrow(z, y + at + c);
    }
  }
}

// Sums the gradient dz before the activation, and dz * (x - mean).
template <int lines, bool relu, typename T>
INLINE void AddGradients(const T* __restrict dy, const T* __restrict y, const T* __restrict x, int64_t channels,
                         const float* __restrict mean, float ceiling, float* __restrict sums,
                         float* __restrict products) {
  for (int64_t c = 0; c < channels; ++c) {
    float sum = 0, product = 0;
    for (int line = 0; line < lines; ++line) {
      const int64_t at = line * channels + c;
      const float dz = Masked<relu>(dy[at], y[at], ceiling);
      sum += dz;
      product += dz * (Widen(x[at]) - mean[c]);
    }
    sums[c] += sum;
    products[c] += product;
  }
}
template <bool relu, typename T>
FOR_EVERY_CPU void Reduce(const T* dy, const T* y, const T* x, int64_t rows, int64_t channels, const float* mean,
                          float ceiling, float* sums, float* products) {
  int64_t row = 0, at = 0;
  for (; row + LINES <= rows; row += LINES, at += LINES * channels) {
    for (const T* from : {dy, relu ? y : x, x}) Prefetch(from + at, LINES * channels);
    AddGradients<LINES, relu>(dy + at, y + at, x + at, channels, mean, ceiling, sums, products);
  }
  for (; row < rows; ++row, at += channels) {
    AddGradients<1, relu>(dy + at, y + at, x + at, channels, mean, ceiling, sums, products);
  }
}

// Writes dz, which is the gradient of what was added. If y has two uses, the sum of their gradients is dy.
template <bool relu, bool two, typename T>
FOR_EVERY_CPU void Mask(const T* __restrict dy, const T* __restrict other, const T* __restrict y, int64_t count,
                        float ceiling, T* __restrict dz) {
  for (int64_t n = 0; n < count; ++n) {
    T sum = dy[n];
    if (two) Narrow(Widen(dy[n]) + Widen(other[n]), &sum);  // rounded as AddN does it
    Narrow(Masked<relu>(sum, y[n], ceiling), dz + n);
  }
}

template <bool relu, typename T>
FOR_EVERY_CPU void Back(const T* __restrict dy, const T* __restrict y, const T* __restrict x, int64_t rows,
                        int64_t channels, const float* __restrict mean, const float* __restrict mean_dz,
                        const float* __restrict by_dz, const float* __restrict by_x, float ceiling,
                        T* __restrict dx) {
  for (int64_t row = 0, at = 0; row < rows; ++row, at += channels) {
    for (const T* from : {dy, relu ? y : x, x}) Prefetch(from + at, channels);
    for (int64_t c = 0; c < channels; ++c) {
      const float dz = Masked<relu>(dy[at + c], y[at + c], ceiling);
      Narrow(by_dz[c] * (dz - mean_dz[c]) + by_x[c] * (Widen(x[at + c]) - mean[c]), dx + at + c);
    }
  }
}

// What both operations have: attributes, and checks of shapes. T is how numbers are stored.
template <typename TensorType>
class Operation : public OpKernel {
 public:
  using T = typename Stored<TensorType>::Type;

  explicit Operation(OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("ceiling", &ceiling_));
    OP_REQUIRES_OK(construction, construction->GetAttr("epsilon", &epsilon_));
    relu_ = ceiling_ > 0;
  }

 protected:
  static const float* Floats(const Tensor& tensor) { return tensor.flat<float>().data(); }

  static void RequireChannels(OpKernelContext* context, const TensorShape& images) {
    OP_REQUIRES(context, images.dims() > 0 && images.dim_size(images.dims() - 1) > 0,
                absl::InvalidArgumentError(
                    absl::StrCat("x has shape ", images.DebugString(), ", expected one or more channels")));
  }

  static void RequireShapes(OpKernelContext* context, std::initializer_list<int> inputs, const TensorShape& shape) {
    for (int n : inputs) {
      const TensorShape& given = context->input(n).shape();
      OP_REQUIRES(context, given == shape,
                  absl::InvalidArgumentError(absl::StrCat("input ", n, " has shape ", given.DebugString(),
                                                          ", expected ", shape.DebugString())));
    }
  }

  float ceiling_, epsilon_;
  bool relu_;
};

// Inputs: x, gamma, beta, side. Outputs: y, and the mean and the variance of this batch.
template <typename TensorType>
class Normalize : public Operation<TensorType> {
 public:
  using Operation<TensorType>::Operation;
  using T = typename Operation<TensorType>::T;

  void Compute(OpKernelContext* context) override {
    const Tensor& images = context->input(0);
    this->RequireChannels(context, images.shape());
    if (!context->status().ok()) return;
    const Matrix matrix(images.shape());
    const int64_t channels = matrix.channels, width = matrix.width;
    this->RequireShapes(context, {1, 2}, TensorShape({channels}));
    if (context->num_inputs() > 3) this->RequireShapes(context, {3}, images.shape());
    if (!context->status().ok()) return;
    Tensor* outputs[3];
    OP_REQUIRES_OK(context, context->allocate_output(0, images.shape(), &outputs[0]));
    for (int n : {1, 2}) OP_REQUIRES_OK(context, context->allocate_output(n, TensorShape({channels}), &outputs[n]));
    const T *x = Data<T>(images), *side = context->num_inputs() > 3 ? Data<T>(context->input(3)) : nullptr;
    T* y = Data<T>(*outputs[0]);

    std::vector<float> shift(channels), means(channels), scale(channels);
    for (int64_t c = 0; matrix.rows > 0 && c < channels; ++c) shift[c] = Widen(x[c]);
    const std::vector<float> shifts = matrix.InRow(shift);
    const auto total = Sums(context, matrix, 2, [&](int64_t at, int64_t rows, float* sums) {
      Moments(x + at, rows, width, shifts.data(), sums, sums + width);
    });
    const float *gamma = this->Floats(context->input(1)), *beta = this->Floats(context->input(2));
    for (int64_t c = 0; c < channels; ++c) {
      const double distance = total[c] / matrix.pixels, mean = shift[c] + distance;
      double variance = total[channels + c] / matrix.pixels - distance * distance;
      if (variance < 0) variance = 0;
      outputs[1]->flat<float>()(c) = means[c] = mean;
      outputs[2]->flat<float>()(c) = variance;
      scale[c] = gamma[c] / std::sqrt(variance + this->epsilon_);
    }
    means = matrix.InRow(means);
    scale = matrix.InRow(scale);
    const std::vector<float> offset = matrix.InRow({beta, beta + channels});
    const auto apply = this->relu_ ? (side ? Apply<true, true, T> : Apply<true, false, T>)
                                   : (side ? Apply<false, true, T> : Apply<false, false, T>);
    ForParts(context, matrix, [&](int64_t at, int64_t rows, int64_t) {
      const T* added = side ? side + at : nullptr;
      apply(x + at, added, rows, width, means.data(), scale.data(), offset.data(), this->ceiling_, y + at);
    });
  }
};

// Inputs: dy, for one or two uses of y, y, x, gamma, mean, variance. Outputs: gradients of x, gamma, beta and side. Two
// uses are allowed only with a side.
template <typename TensorType>
class NormalizeGradient : public Operation<TensorType> {
 public:
  using Operation<TensorType>::Operation;
  using T = typename Operation<TensorType>::T;

  void Compute(OpKernelContext* context) override {
    const int uses = context->num_inputs() - 5;
    const Tensor& images = context->input(uses + 1);
    this->RequireChannels(context, images.shape());
    if (!context->status().ok()) return;
    const Matrix matrix(images.shape());
    const int64_t channels = matrix.channels, width = matrix.width;
    this->RequireShapes(context, {0, uses - 1, uses}, images.shape());
    this->RequireShapes(context, {uses + 2, uses + 3, uses + 4}, TensorShape({channels}));
    if (!context->status().ok()) return;
    const int sides = context->num_outputs() - 3;
    OP_REQUIRES(context, sides <= 1 && uses <= 1 + sides,
                absl::InvalidArgumentError(absl::StrCat(uses, " gradients and ", sides,
                                                        " sides, expected 1 and 0, or at most 2 and 1")));
    Tensor* outputs[4] = {};
    for (int n = 0; n < context->num_outputs(); ++n) {
      const TensorShape shape = n == 1 || n == 2 ? TensorShape({channels}) : images.shape();
      OP_REQUIRES_OK(context, context->allocate_output(n, shape, &outputs[n]));
    }
    const T *dy = Data<T>(context->input(0)), *other = Data<T>(context->input(uses - 1)),
            *y = Data<T>(context->input(uses)), *x = Data<T>(images);
    T *dx = Data<T>(*outputs[0]), *dside = outputs[3] ? Data<T>(*outputs[3]) : nullptr;
    const float *gamma = this->Floats(context->input(uses + 2)), *mean = this->Floats(context->input(uses + 3)),
                *variance = this->Floats(context->input(uses + 4));

    const bool masked = this->relu_ && !dside;  // dside has the masked gradient
    const T* dz = dside ? dside : dy;
    const auto mask = this->relu_ ? (uses == 2 ? Mask<true, true, T> : Mask<true, false, T>)
                                  : (uses == 2 ? Mask<false, true, T> : Mask<false, false, T>);
    const auto reduce = masked ? Reduce<true, T> : Reduce<false, T>;
    const std::vector<float> means = matrix.InRow({mean, mean + channels});
    const auto total = Sums(context, matrix, 2, [&](int64_t at, int64_t rows, float* sums) {
      if (dside) mask(dy + at, other + at, y + at, rows * width, this->ceiling_, dside + at);
      reduce(dz + at, y + at, x + at, rows, width, means.data(), this->ceiling_, sums, sums + width);
    });
    std::vector<float> mean_dz(channels), by_dz(channels), by_x(channels);
    for (int64_t c = 0; c < channels; ++c) {
      const double deviation = std::sqrt(variance[c] + double{this->epsilon_});
      outputs[1]->flat<float>()(c) = total[channels + c] / deviation;
      outputs[2]->flat<float>()(c) = total[c];
      const double by = gamma[c] / deviation;
      by_dz[c] = by;
      by_x[c] = -by * total[channels + c] / (matrix.pixels * deviation * deviation);
      mean_dz[c] = total[c] / matrix.pixels;
    }
    by_dz = matrix.InRow(by_dz);
    by_x = matrix.InRow(by_x);
    mean_dz = matrix.InRow(mean_dz);
    const auto back = masked ? Back<true, T> : Back<false, T>;
    ForParts(context, matrix, [&](int64_t at, int64_t rows, int64_t) {
      back(dz + at, y + at, x + at, rows, width, means.data(), mean_dz.data(), by_dz.data(), by_x.data(),
           this->ceiling_, dx + at);
    });
  }
};

REGISTER_OP("OrchestratorNormalize")
    .Input("x: T").Input("gamma: float").Input("beta: float").Input("side: added * T")
    .Output("y: T").Output("mean: float").Output("variance: float")
    .Attr("T: {float, bfloat16}").Attr("added: int >= 0").Attr("ceiling: float").Attr("epsilon: float")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      for (int n : {0, 1, 2}) context->set_output(n, context->input(std::min(n, 1)));
      return absl::OkStatus();
    });
REGISTER_OP("OrchestratorNormalizeGradient")
    .Input("dy: uses * T").Input("y: T").Input("x: T").Input("gamma: float").Input("mean: float").Input("variance: float")
    .Output("dx: T").Output("dgamma: float").Output("dbeta: float").Output("dside: added * T")
    .Attr("T: {float, bfloat16}").Attr("uses: int >= 1").Attr("added: int >= 0").Attr("ceiling: float")
    .Attr("epsilon: float")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      const int images = context->num_inputs() - 4;
      for (int n = 0; n < context->num_outputs(); ++n) {
        context->set_output(n, context->input(n == 1 || n == 2 ? images + 1 : images));
      }
      return absl::OkStatus();
    });

#define REGISTER(T)                                                                             \
  REGISTER_KERNEL_BUILDER(                                                                      \
      Name("OrchestratorNormalize").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"), Normalize<T>); \
  REGISTER_KERNEL_BUILDER(                                                                      \
      Name("OrchestratorNormalizeGradient").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"), NormalizeGradient<T>)
REGISTER(float);
REGISTER(tensorflow::bfloat16);

}  // namespace orchestrator
