// Gradient of the images of a depthwise convolution as one operation of TensorFlow for CPUs:
//
//   dx[image, row, column, c] = sum of dy[image, (row + top - i) / stride, (column + left - j) / stride, c]
//                                      * k[i, j, c, 0]    over i and j for which both quotients are whole
//
// With a stride of 2, oneDNN 3.7 has only its reference implementation for bfloat16, which takes 30 to 200 times as
// long. Channels are independent, so compilers make vectors of them.

#include <string>
#include <vector>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

#include "axis.h"
#include "numbers.h"
#include "threads.h"

namespace orchestrator {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

constexpr int64_t MOST_TAPS = 9;

// What a pixel is the sum of: pixels of dy, each with the weights that multiply its channels.
template <typename T>
struct Products {
  const T* pixels[MOST_TAPS];
  const float* weights[MOST_TAPS];
};

template <int taps, typename T>
FOR_EVERY_CPU void Sum(const Products<T>& products, int64_t channels, T* __restrict result) {
  const Products<T> own = products;
  for (int64_t c = 0; c < channels; ++c) {
    float sum = 0;
    for (int tap = 0; tap < taps; ++tap) sum += Widen(own.pixels[tap][c]) * own.weights[tap][c];
    Narrow(sum, result + c);
  }
}

template <typename T>
constexpr void (*SUMS[MOST_TAPS + 1])(const Products<T>&, int64_t, T*) = {
    Sum<0, T>, Sum<1, T>, Sum<2, T>, Sum<3, T>, Sum<4, T>, Sum<5, T>, Sum<6, T>, Sum<7, T>, Sum<8, T>, Sum<9, T>};

// A tap of the kernel along an axis, and the pixel of the result that it computed from one of the images.
struct Use {
  int64_t tap, result;
};

std::vector<Use> Uses(const Axis& axis, int64_t pixel) {
  std::vector<Use> uses;
  for (int64_t tap = 0; tap < axis.kernel; ++tap) {
    const int64_t from = pixel + axis.before - tap, result = from / axis.stride;
    if (from >= 0 && from % axis.stride == 0 && result < axis.result) uses.push_back({tap, result});
  }
  return uses;
}

struct DepthwiseSizes {
  int64_t images, channels;
  Axis down, across;

  TensorShape of_x() const { return TensorShape({images, down.images, across.images, channels}); }
  TensorShape of_y() const { return TensorShape({images, down.result, across.result, channels}); }
};

// Computes rows of dx, counted through all images. `weights` are those of all channels for each tap.
template <typename T>
void ComputeRows(const DepthwiseSizes& sizes, const T* dy, const float* weights, int64_t begin, int64_t end, T* dx) {
  const Axis &down = sizes.down, &across = sizes.across;
  const int64_t channels = sizes.channels, row_size = across.result * channels;
  std::vector<std::vector<Use>> of_columns;
  for (int64_t column = 0; column < across.images; ++column) of_columns.push_back(Uses(across, column));
  dx += begin * across.images * channels;
  for (int64_t row = begin; row < end; ++row) {
    const T* image = dy + row / down.images * down.result * row_size;
    const std::vector<Use> of_row = Uses(down, row % down.images);
    for (const std::vector<Use>& of_column : of_columns) {
      Products<T> products;
      int taps = 0;
      for (const Use& i : of_row) {
        for (const Use& j : of_column) {
          products.pixels[taps] = image + i.result * row_size + j.result * channels;
          products.weights[taps++] = weights + (i.tap * across.kernel + j.tap) * channels;
        }
      }
      SUMS<T>[taps](products, channels, dx);
      dx += channels;
    }
  }
}

// Inputs: dy, kernel. Output: dx, which has `rows` and `columns`.
template <typename TensorType>
class DepthwiseGradient : public OpKernel {
 public:
  using T = typename Stored<TensorType>::Type;

  explicit DepthwiseGradient(OpKernelConstruction* construction) : OpKernel(construction) {
    std::string padding;
    OP_REQUIRES_OK(construction, construction->GetAttr("rows", &rows_));
    OP_REQUIRES_OK(construction, construction->GetAttr("columns", &columns_));
    OP_REQUIRES_OK(construction, construction->GetAttr("stride", &stride_));
    OP_REQUIRES_OK(construction, construction->GetAttr("padding", &padding));
    same_ = padding == "SAME";
  }

  void Compute(OpKernelContext* context) override {
    const Tensor &dy = context->input(0), &kernel = context->input(1);
    OP_REQUIRES(context, dy.dims() == 4 && kernel.dims() == 4 && kernel.dim_size(3) == 1 &&
                             kernel.dim_size(0) * kernel.dim_size(1) <= MOST_TAPS,
                absl::InvalidArgumentError(absl::StrCat("dy has ", dy.dims(), " dimensions and the kernel has shape ",
                                                        kernel.shape().DebugString(), ", expected 4, and at most ",
                                                        MOST_TAPS, " taps with one filter for each channel")));
    const DepthwiseSizes sizes = {dy.dim_size(0), kernel.dim_size(2), Axis(rows_, kernel.dim_size(0), stride_, same_),
                                  Axis(columns_, kernel.dim_size(1), stride_, same_)};
    OP_REQUIRES(context, dy.shape() == sizes.of_y(),
                absl::InvalidArgumentError(absl::StrCat("dy has shape ", dy.shape().DebugString(), ", expected ",
                                                        sizes.of_y().DebugString())));
    Tensor* dx = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, sizes.of_x(), &dx));
    if (dx->NumElements() == 0) return;
    std::vector<float> weights(kernel.NumElements());
    for (size_t n = 0; n < weights.size(); ++n) weights[n] = Widen(Data<T>(kernel)[n]);
    InBlocks(context, sizes.images * rows_, [&](int64_t begin, int64_t end) {
      ComputeRows(sizes, Data<T>(dy), weights.data(), begin, end, Data<T>(*dx));
    });
  }

 private:
  int64_t rows_, columns_, stride_;
  bool same_;
};

REGISTER_OP("OrchestratorDepthwiseGradient")
    .Input("dy: T").Input("kernel: T").Output("dx: T")
    .Attr("T: {float, bfloat16}").Attr("rows: int >= 1").Attr("columns: int >= 1").Attr("stride: int >= 1")
    .Attr("padding: {'SAME', 'VALID'}")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      int64_t rows, columns;
      TF_RETURN_IF_ERROR(context->GetAttr("rows", &rows));
      TF_RETURN_IF_ERROR(context->GetAttr("columns", &columns));
      tensorflow::shape_inference::ShapeHandle dy;
      TF_RETURN_IF_ERROR(context->WithRank(context->input(0), 4, &dy));
      context->set_output(0, context->MakeShape({context->Dim(dy, 0), context->MakeDim(rows), context->MakeDim(columns),
                                                 context->Dim(dy, 3)}));
      return absl::OkStatus();
    });

#define REGISTER(T)                                                                             \
  REGISTER_KERNEL_BUILDER(Name("OrchestratorDepthwiseGradient").Device(tensorflow::DEVICE_CPU)   \
                              .TypeConstraint<T>("T"), DepthwiseGradient<T>)
REGISTER(float);
REGISTER(tensorflow::bfloat16);

}  // namespace orchestrator
