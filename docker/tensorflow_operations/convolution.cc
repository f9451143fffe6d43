// A convolution in bfloat16, or the gradient of its images, as one operation of TensorFlow for CPUs:
//
//   y[image, row, column, f] = sum of x[image, row * stride + i - top, column * stride + j - left, c] * k[i, j, c, f]
//   dx[image, row, column, c] = sum of dy[image, (row + top - i) / stride, (column + left - j) / stride, f]
//                                      * k[i, j, c, f]
//
// With AVX512_BF16 oneDNN 3.7 computes both at two thirds of its best speed on grids of 4x4, and with strides. Here a
// tile has the same pixel of several images. So all of its pixels have the same neighbours outside of the image, which
// are left out: oneDNN multiplies them as zeros. Each number is summed by one thread, always in the same order.

#include <string>
#include <vector>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

#include "axis.h"
#include "pairs.h"
#include "threads.h"

namespace orchestrator {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

constexpr int64_t IMAGES = 8, OUTPUTS = 2 * REGISTER;  // of a tile
using Pixel = Tile<IMAGES, OUTPUTS>;

// A part of the kernel: where its numbers begin in a panel of the kernel, and those it multiplies in an image.
struct Tap {
  int64_t weights, pixel;
};

// A pixel of several images, and a panel of the kernel: `pairs` pairs of numbers for each tap.
struct Factors {
  const Bfloat16 *images[IMAGES], *panel;
  const std::vector<Tap>& taps;
  int64_t pairs;
};

FOR_EVERY_CPU void MultiplyTapsAnywhere(const Factors& factors, Pixel& sums) {
  memset(sums, 0, sizeof sums);
  for (const Tap& tap : factors.taps) {
    const Bfloat16* b = factors.panel + tap.weights;
    for (int64_t k = 0; k < PAIR * factors.pairs; k += PAIR, b += PAIR * OUTPUTS) {
      for (int64_t n = 0; n < IMAGES; ++n) {
        const Bfloat16* a = factors.images[n] + tap.pixel + k;
        const float one = Widen(a[0]), other = Widen(a[1]);
        for (int64_t o = 0; o < OUTPUTS; ++o) sums[n][o] += one * Widen(b[PAIR * o]) + other * Widen(b[PAIR * o + 1]);
      }
    }
  }
}

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512bf16"))) void MultiplyTapsInRegisters(const Factors& factors, Pixel& result) {
  __m512 sums[IMAGES][2];
  for (auto& row : sums) row[0] = row[1] = _mm512_setzero_ps();
  for (const Tap& tap : factors.taps) {
    const Bfloat16 *a[IMAGES], *b = factors.panel + tap.weights;
    for (int64_t n = 0; n < IMAGES; ++n) a[n] = factors.images[n] + tap.pixel;
    for (int64_t pair = 0; pair < factors.pairs; ++pair, b += PAIR * OUTPUTS) {
      const auto first = (__m512bh)_mm512_loadu_si512(b), second = (__m512bh)_mm512_loadu_si512(b + PAIR * REGISTER);
#pragma GCC unroll 8
      for (int64_t n = 0; n < IMAGES; ++n) {
        int32_t both;
        memcpy(&both, a[n] + PAIR * pair, sizeof both);
        const auto repeated = (__m512bh)_mm512_set1_epi32(both);
        sums[n][0] = _mm512_dpbf16_ps(sums[n][0], repeated, first);
        sums[n][1] = _mm512_dpbf16_ps(sums[n][1], repeated, second);
      }
    }
  }
  for (int64_t n = 0; n < IMAGES; ++n) {
    for (int64_t half : {0, 1}) _mm512_storeu_ps(result[n] + half * REGISTER, sums[n][half]);
  }
}
#endif

// Computes a pixel of several images for the outputs of a panel.
void MultiplyTaps(const Factors& factors, Pixel& sums) {
#if defined(__x86_64__)
  if (HasInstruction()) return MultiplyTapsInRegisters(factors, sums);
#endif
  MultiplyTapsAnywhere(factors, sums);
}

// Copies a tap's weights for some outputs, whose weights are `apart` numbers apart, as pairs of inputs.
FOR_EVERY_CPU void CopyTransposed(const Bfloat16* from, int64_t apart, int64_t outputs, int64_t pairs, Bfloat16* to) {
  memset(to, 0, pairs * PAIR * OUTPUTS * sizeof *to);
  for (int64_t o = 0; o < outputs; ++o) {
    for (int64_t pair = 0; pair < pairs; ++pair) {
      memcpy(to + (pair * OUTPUTS + o) * PAIR, from + o * apart + pair * PAIR, PAIR * sizeof *to);
    }
  }
}

FOR_EVERY_CPU void Store(const float* sums, int64_t outputs, Bfloat16* to) {
  for (int64_t o = 0; o < outputs; ++o) Narrow(sums[o], to + o);
}

// Sizes of the operation: it reads `inputs` channels of the images before it, and writes `outputs` of those after it.
struct Sizes {
  Axis down, across;
  bool back;
  int64_t images, inputs, outputs;

  int64_t taps() const { return down.kernel * across.kernel; }
  int64_t pairs() const { return inputs / PAIR; }
  int64_t panels() const { return Parts(outputs, OUTPUTS); }
  int64_t tap_size() const { return inputs * OUTPUTS; }
  int64_t in_panel(int64_t panel) const { return std::min(OUTPUTS, outputs - panel * OUTPUTS); }
  TensorShape of_x(int64_t channels) const { return TensorShape({images, down.images, across.images, channels}); }
  TensorShape of_y(int64_t channels) const { return TensorShape({images, down.result, across.result, channels}); }
  TensorShape before() const { return back ? of_y(inputs) : of_x(inputs); }
  TensorShape after() const { return back ? of_x(outputs) : of_y(outputs); }

  // Returns the pixel that a tap reads for one of the output, along an axis; a negative number if there is none.
  int64_t Source(const Axis& axis, int64_t pixel, int64_t tap) const {
    const int64_t from = back ? pixel + axis.before - tap : pixel * axis.stride + tap - axis.before;
    if (back && from % axis.stride != 0) return -1;
    const int64_t source = back ? from / axis.stride : from;
    return source < (back ? axis.result : axis.images) ? source : -1;
  }

  // Returns the taps that read pixels of the image for one of the output.
  std::vector<Tap> Inside(int64_t row, int64_t column) const {
    std::vector<Tap> inside;
    for (int64_t tap = 0; tap < taps(); ++tap) {
      const int64_t from_row = Source(down, row, tap / across.kernel);
      const int64_t from_column = Source(across, column, tap % across.kernel);
      if (from_row < 0 || from_column < 0) continue;
      inside.push_back({tap * tap_size(), (from_row * (back ? across.result : across.images) + from_column) * inputs});
    }
    return inside;
  }
};

// Copies part n of the kernel, a panel's weights of one tap.
void CopyWeights(const Sizes& sizes, const Bfloat16* kernel, int64_t n, Bfloat16* to) {
  const int64_t panel = n / sizes.taps(), tap = n % sizes.taps();
  const int64_t inputs = sizes.inputs, outputs = sizes.outputs;
  const int64_t first = panel * OUTPUTS, count = sizes.in_panel(panel);
  const Bfloat16* from = kernel + tap * inputs * outputs;
  if (sizes.back) return CopyTransposed(from + first * inputs, inputs, count, sizes.pairs(), to);
  CopyPairs<OUTPUTS>({from + first, nullptr, inputs, outputs, 0, 1, inputs}, count, to, sizes.tap_size());
}

// Computes a panel's outputs of a pixel of all images.
void Convolve(const Sizes& sizes, const Bfloat16* images, const Bfloat16* panels, int64_t panel, int64_t pixel,
              Bfloat16* result) {
  const int64_t columns = sizes.back ? sizes.across.images : sizes.across.result, outputs = sizes.outputs;
  const int64_t size = sizes.before().num_elements() / sizes.images;
  const int64_t written = sizes.after().num_elements() / sizes.images;
  const std::vector<Tap> inside = sizes.Inside(pixel / columns, pixel % columns);
  Factors factors = {{}, panels + panel * sizes.taps() * sizes.tap_size(), inside, sizes.pairs()};
  Pixel sums;
  for (int64_t first = 0; first < sizes.images; first += IMAGES) {
    for (int64_t n = 0; n < IMAGES; ++n) factors.images[n] = images + std::min(first + n, sizes.images - 1) * size;
    MultiplyTaps(factors, sums);
    for (int64_t n = 0; n < IMAGES && first + n < sizes.images; ++n) {
      Store(sums[n], sizes.in_panel(panel), result + (first + n) * written + pixel * outputs + panel * OUTPUTS);
    }
  }
}

// Inputs: images (x, or dy if `back`), kernel. Output: y, or dx. `rows` and `columns` are those of x.
class ConvolutionOperation : public OpKernel {
 public:
  explicit ConvolutionOperation(OpKernelConstruction* construction) : OpKernel(construction) {
    std::string padding;
    OP_REQUIRES_OK(construction, construction->GetAttr("rows", &rows_));
    OP_REQUIRES_OK(construction, construction->GetAttr("columns", &columns_));
    OP_REQUIRES_OK(construction, construction->GetAttr("stride", &stride_));
    OP_REQUIRES_OK(construction, construction->GetAttr("back", &back_));
    OP_REQUIRES_OK(construction, construction->GetAttr("padding", &padding));
    same_ = padding == "SAME";
  }

  void Compute(OpKernelContext* context) override {
    const Tensor &images = context->input(0), &kernel = context->input(1);
    OP_REQUIRES(context, images.dims() == 4 && kernel.dims() == 4,
                absl::InvalidArgumentError(absl::StrCat("images have ", images.dims(), " dimensions and the kernel ",
                                                        kernel.dims(), ", expected 4 and 4")));
    const Sizes sizes = {Axis(rows_, kernel.dim_size(0), stride_, same_),
                         Axis(columns_, kernel.dim_size(1), stride_, same_), back_, images.dim_size(0),
                         kernel.dim_size(back_ ? 3 : 2), kernel.dim_size(back_ ? 2 : 3)};
    OP_REQUIRES(context, images.shape() == sizes.before() && sizes.inputs % PAIR == 0,
                absl::InvalidArgumentError(absl::StrCat("images have shape ", images.shape().DebugString(),
                                                        ", expected ", sizes.before().DebugString(),
                                                        " with an even number of channels")));
    Tensor *result = nullptr, panels;
    OP_REQUIRES_OK(context, context->allocate_output(0, sizes.after(), &result));
    if (result->NumElements() == 0) return;
    const int64_t copies = sizes.panels() * sizes.taps();
    const TensorShape shape({copies, sizes.tap_size()});
    OP_REQUIRES_OK(context, context->allocate_temp(tensorflow::DT_BFLOAT16, shape, &panels));
    auto* workers = context->device()->tensorflow_cpu_worker_threads()->workers;
    workers->ParallelFor(copies, sizes.tap_size(), [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) CopyWeights(sizes, Data(kernel), n, Data(panels) + n * sizes.tap_size());
    });
    const int64_t pixels = result->dim_size(1) * result->dim_size(2), parts = sizes.panels() * pixels;
    InBlocks(context, parts, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        Convolve(sizes, Data(images), Data(panels), n / pixels, n % pixels, Data(*result));
      }
    });
  }

 private:
  int64_t rows_, columns_, stride_;
  bool back_, same_;
};

REGISTER_OP("OrchestratorConvolution")
    .Input("images: bfloat16").Input("kernel: bfloat16").Output("result: bfloat16")
    .Attr("rows: int >= 1").Attr("columns: int >= 1").Attr("stride: int >= 1").Attr("padding: {'SAME', 'VALID'}")
    .Attr("back: bool")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      int64_t rows, columns, stride;
      bool back;
      std::string padding;
      TF_RETURN_IF_ERROR(context->GetAttr("rows", &rows));
      TF_RETURN_IF_ERROR(context->GetAttr("columns", &columns));
      TF_RETURN_IF_ERROR(context->GetAttr("stride", &stride));
      TF_RETURN_IF_ERROR(context->GetAttr("back", &back));
      TF_RETURN_IF_ERROR(context->GetAttr("padding", &padding));
      tensorflow::shape_inference::ShapeHandle images, kernel;
      TF_RETURN_IF_ERROR(context->WithRank(context->input(0), 4, &images));
      TF_RETURN_IF_ERROR(context->WithRank(context->input(1), 4, &kernel));
      auto height = context->UnknownDim(), width = context->UnknownDim();
      const auto i = context->Dim(kernel, 0), j = context->Dim(kernel, 1);
      if (back) height = context->MakeDim(rows), width = context->MakeDim(columns);
      else if (context->ValueKnown(i) && context->ValueKnown(j)) {
        height = context->MakeDim(Axis(rows, context->Value(i), stride, padding == "SAME").result);
        width = context->MakeDim(Axis(columns, context->Value(j), stride, padding == "SAME").result);
      }
      context->set_output(0, context->MakeShape({context->Dim(images, 0), height, width,
                                                 context->Dim(kernel, back ? 2 : 3)}));
      return absl::OkStatus();
    });

REGISTER_KERNEL_BUILDER(Name("OrchestratorConvolution").Device(tensorflow::DEVICE_CPU),
                        ConvolutionOperation);

}  // namespace orchestrator
