// Gradients of images and of the bias that was added to them before a ReLU, as one operation of TensorFlow for CPUs:
//
//   dx = dy where y > 0, else 0;  dbias = sum of dx over all pixels
//
// TensorFlow has an operation for each, and the second one reads all of dx again.

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

#include "matrix.h"
#include "numbers.h"

namespace orchestrator {

using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

template <typename T>
FOR_EVERY_CPU void MaskAndAdd(const T* __restrict dy, const T* __restrict y, int64_t rows, int64_t width,
                              T* __restrict dx, float* __restrict sums) {
  for (int64_t row = 0, at = 0; row < rows; ++row, at += width) {
    for (int64_t c = 0; c < width; ++c) {
      const T masked = Widen(y[at + c]) > 0 ? dy[at + c] : T{};
      dx[at + c] = masked;
      sums[c] += Widen(masked);
    }
  }
}

// Inputs: dy, y. Outputs: dx, dbias.
template <typename TensorType>
class ReluGradient : public OpKernel {
 public:
  using OpKernel::OpKernel;
  using T = typename Stored<TensorType>::Type;

  void Compute(OpKernelContext* context) override {
    const Tensor &dy = context->input(0), &y = context->input(1);
    const int dims = y.dims();
    OP_REQUIRES(context, dy.shape() == y.shape() && dims > 0 && y.dim_size(dims - 1) > 0,
                absl::InvalidArgumentError(absl::StrCat("dy has shape ", dy.shape().DebugString(), " and y ",
                                                        y.shape().DebugString(),
                                                        ", expected the same, with one or more channels")));
    const Matrix matrix(y.shape());
    Tensor *dx = nullptr, *dbias = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, y.shape(), &dx));
    OP_REQUIRES_OK(context, context->allocate_output(1, TensorShape({matrix.channels}), &dbias));
    const auto total = Sums(context, matrix, 1, [&](int64_t at, int64_t rows, float* sums) {
      MaskAndAdd(Data<T>(dy) + at, Data<T>(y) + at, rows, matrix.width, Data<T>(*dx) + at, sums);
    });
    for (int64_t c = 0; c < matrix.channels; ++c) Narrow(static_cast<float>(total[c]), Data<T>(*dbias) + c);
  }
};

REGISTER_OP("OrchestratorReluGradient")
    .Input("dy: T").Input("y: T").Output("dx: T").Output("dbias: T").Attr("T: {float, bfloat16}")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      context->set_output(0, context->input(1));
      context->set_output(1, context->Vector(context->Dim(context->input(1), -1)));
      return absl::OkStatus();
    });

#define REGISTER(T)                                                                                                 \
  REGISTER_KERNEL_BUILDER(Name("OrchestratorReluGradient").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"),   \
                          ReluGradient<T>)
REGISTER(float);
REGISTER(tensorflow::bfloat16);

}  // namespace orchestrator
