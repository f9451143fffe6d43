// Gradient of a convolution's weights in bfloat16 as one operation of TensorFlow for CPUs:
//
//   dw[i, j, c, f] = sum of x[image, row * stride + i - top, column * stride + j - left, c] * dy[image, row, column, f]
//                    over images, rows and columns
//
// With AVX512_BF16 oneDNN 3.7 computes it at two thirds of the speed of the convolution itself. Here pixels are copied in
// pairs (pairs.h) for some images or rows at a time, which stay in the core's cache while all of their products are
// computed. Sums do not depend on the number of threads.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

#include "axis.h"
#include "pairs.h"

namespace orchestrator {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

struct Convolution {
  int64_t images, channels, filters;
  Axis rows, columns;

  int64_t weights() const { return rows.kernel * columns.kernel * channels * filters; }
};

// Division of the work. A block of rows of one image, or of several images, is copied at a time.
struct Blocks {
  // A block's pairs of pixels; a group's, whose sums are apart from those of other groups; and the most groups.
  static constexpr int64_t BLOCK = 256, GROUP = 1024, GROUPS = 16;
  static constexpr int64_t APART = 32;  // numbers between panels, which would be in the same lines of the cache otherwise

  // Copies of the images: with a stride of 1, all rows of the kernel read the same one.
  int64_t pairs, rows, images, images_in_group, groups, copies, copied_rows;

  explicit Blocks(const Convolution& c) {
    pairs = Parts(c.columns.result, PAIR);
    rows = std::clamp<int64_t>(BLOCK / pairs, 1, c.rows.result);
    images = rows < c.rows.result ? 1 : std::max<int64_t>(1, BLOCK / (rows * pairs));
    int64_t wanted = 1;  // a power of two, for an even number of tasks
    while (wanted < GROUPS && 2 * wanted * GROUP <= c.images * c.rows.result * pairs) wanted *= 2;
    images_in_group = Parts(c.images, wanted);
    groups = Parts(c.images, images_in_group);
    copies = c.rows.stride == 1 ? c.columns.kernel : c.rows.kernel * c.columns.kernel;
    copied_rows = c.rows.stride == 1 ? rows + c.rows.kernel - 1 : rows;
  }
};

// Adds up the gradient of some channels' weights over a group of images, in tiles of 16 registers.
template <int64_t CHANNELS, int64_t FILTERS>
class Task {
 public:
  Task(const Convolution& convolution, const Blocks& blocks, const Bfloat16* x, const Bfloat16* dy)
      : convolution_(convolution), blocks_(blocks), x_(x), dy_(dy),
        zeros_(std::max(convolution.channels, convolution.filters)),
        channels_run_(blocks.copied_rows * blocks.pairs * PAIR * CHANNELS),
        filters_run_(blocks.rows * blocks.pairs * PAIR * FILTERS),
        channels_panel_(blocks.images * channels_run_ + Blocks::APART),
        filters_panel_(blocks.images * filters_run_ + Blocks::APART),
        filters_(new Bfloat16[Parts(convolution.filters, FILTERS) * filters_panel_]) {}

  // Writes to `sums`, in float32, or to `weights` if there is no other group.
  void Run(int64_t group, int64_t first_channel, int64_t channels, float* sums, Bfloat16* weights) {
    first_channel_ = first_channel;
    channels_ = channels;
    panels_ = Parts(channels, CHANNELS);
    pixels_.reset(new Bfloat16[blocks_.copies * panels_ * channels_panel_]);
    const int64_t first = group * blocks_.images_in_group;
    const int64_t end = std::min(first + blocks_.images_in_group, convolution_.images);
    for (int64_t image = first; image < end; image += blocks_.images) {
      const int64_t images = std::min(blocks_.images, end - image);
      for (int64_t row = 0; row < convolution_.rows.result; row += blocks_.rows) {
        const int64_t rows = std::min(blocks_.rows, convolution_.rows.result - row);
        for (int64_t n = 0; n < images; ++n) Copy(image + n, n, row, rows);
        const bool last = image + images == end && row + rows == convolution_.rows.result;
        AddProducts(images, row, rows, image > first || row > 0, sums, last ? weights : nullptr);
      }
    }
  }

 private:
  // Copies rows of the result's gradient and what the kernel reads for them, as image `n` of the block.
  void Copy(int64_t image, int64_t n, int64_t row, int64_t rows) {
    const Axis &down = convolution_.rows, &across = convolution_.columns;
    for (int64_t copy = 0; copy < blocks_.copies; ++copy) {
      const int64_t i = copy / across.kernel, j = copy % across.kernel;
      Bfloat16* to = pixels_.get() + copy * panels_ * channels_panel_ + n * channels_run_;
      for (int64_t r = 0; r < rows + blocks_.copied_rows - blocks_.rows; ++r, to += blocks_.pairs * PAIR * CHANNELS) {
        const int64_t from = (row + r) * down.stride + i - down.before;
        const bool inside = from >= 0 && from < down.images;
        const int64_t at = (image * down.images + from) * across.images * convolution_.channels + first_channel_;
        const Pixels pixels = {inside ? x_ + at : nullptr, zeros_.data(), across.images, convolution_.channels,
                               j - across.before, across.stride, across.result};
        CopyPairs<CHANNELS>(pixels, channels_, to, channels_panel_);
      }
    }
    Bfloat16* to = filters_.get() + n * filters_run_;
    for (int64_t r = 0; r < rows; ++r, to += blocks_.pairs * PAIR * FILTERS) {
      const int64_t at = (image * down.result + row + r) * across.result * convolution_.filters;
      const Pixels pixels = {dy_ + at, zeros_.data(), across.result, convolution_.filters, 0, 1, across.result};
      CopyPairs<FILTERS>(pixels, convolution_.filters, to, filters_panel_);
    }
  }

  // Leaves out the rows for which the kernel reads outside of the images.
  void AddProducts(int64_t images, int64_t row, int64_t rows, bool add, float* sums, Bfloat16* weights) {
    const Axis &down = convolution_.rows, &across = convolution_.columns;
    for (int64_t f = 0; f < convolution_.filters; f += FILTERS) {
      for (int64_t tap = 0; tap < down.kernel * across.kernel; ++tap) {
        const bool shared = blocks_.copies < down.kernel * across.kernel;
        const int64_t i = tap / across.kernel, copy = shared ? tap % across.kernel : tap, skipped = shared ? i : 0;
        const int64_t above = Parts(std::max<int64_t>(0, down.before - i), down.stride);
        const int64_t below = Parts(down.images + down.before - i, down.stride);
        const int64_t begin = std::clamp<int64_t>(above - row, 0, rows), end = std::clamp(below - row, begin, rows);
        for (int64_t panel = 0; panel < panels_; ++panel) {
          const Panels panels = {pixels_.get() + (copy * panels_ + panel) * channels_panel_ +
                                     (skipped + begin) * blocks_.pairs * PAIR * CHANNELS,
                                 filters_.get() + f / FILTERS * filters_panel_ + begin * blocks_.pairs * PAIR * FILTERS,
                                 channels_run_, filters_run_, images, (end - begin) * blocks_.pairs};
          Tile<CHANNELS, FILTERS> tile;
          Multiply<CHANNELS, FILTERS>(panels, tile);
          const int64_t c = panel * CHANNELS;
          const int64_t at = (tap * convolution_.channels + first_channel_ + c) * convolution_.filters + f;
          Store(tile, std::min(CHANNELS, channels_ - c), std::min(FILTERS, convolution_.filters - f),
                convolution_.filters, add ? sums + at : nullptr, sums + at, weights ? weights + at : nullptr);
        }
      }
    }
  }

  FOR_EVERY_CPU static void Store(const Tile<CHANNELS, FILTERS>& tile, int64_t channels, int64_t filters,
                                  int64_t line, const float* before, float* sums, Bfloat16* weights) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t f = 0; f < filters; ++f) {
        const float sum = before ? tile[c][f] + before[c * line + f] : tile[c][f];
        if (weights) Narrow(sum, weights + c * line + f);
        else sums[c * line + f] = sum;
      }
    }
  }

  const Convolution convolution_;
  const Blocks blocks_;
  const Bfloat16 *x_, *dy_;
  const std::vector<Bfloat16> zeros_;
  const int64_t channels_run_, filters_run_, channels_panel_, filters_panel_;
  const std::unique_ptr<Bfloat16[]> filters_;
  std::unique_ptr<Bfloat16[]> pixels_;
  int64_t first_channel_ = 0, channels_ = 0, panels_ = 0;
};

FOR_EVERY_CPU void AddGroups(const float* sums, int64_t groups, int64_t apart, int64_t count, Bfloat16* weights) {
  for (int64_t n = 0; n < count; ++n) {
    float sum = sums[n];
    for (int64_t group = 1; group < groups; ++group) sum += sums[group * apart + n];
    Narrow(sum, weights + n);
  }
}

// Inputs: x, dy. Output: dw.
class WeightGradient : public OpKernel {
 public:
  explicit WeightGradient(OpKernelConstruction* construction) : OpKernel(construction) {
    std::string padding;
    OP_REQUIRES_OK(construction, construction->GetAttr("height", &height_));
    OP_REQUIRES_OK(construction, construction->GetAttr("width", &width_));
    OP_REQUIRES_OK(construction, construction->GetAttr("stride", &stride_));
    OP_REQUIRES_OK(construction, construction->GetAttr("padding", &padding));
    same_ = padding == "SAME";
  }

  void Compute(OpKernelContext* context) override {
    const Tensor &x = context->input(0), &dy = context->input(1);
    OP_REQUIRES(context, x.dims() == 4 && dy.dims() == 4,
                absl::InvalidArgumentError(absl::StrCat("x has ", x.dims(), " dimensions and dy ", dy.dims(),
                                                        ", expected 4: images, rows, columns, channels")));
    const Convolution convolution = {x.dim_size(0), x.dim_size(3), dy.dim_size(3),
                                     Axis(x.dim_size(1), height_, stride_, same_),
                                     Axis(x.dim_size(2), width_, stride_, same_)};
    const TensorShape expected({convolution.images, convolution.rows.result, convolution.columns.result,
                                convolution.filters});
    OP_REQUIRES(context, dy.shape() == expected,
                absl::InvalidArgumentError(absl::StrCat("dy has shape ", dy.shape().DebugString(), ", expected ",
                                                        expected.DebugString())));
    Tensor* dw = nullptr;
    const TensorShape shape({height_, width_, convolution.channels, convolution.filters});
    OP_REQUIRES_OK(context, context->allocate_output(0, shape, &dw));
    if (x.NumElements() == 0 || dy.NumElements() == 0) {
      memset(Data(*dw), 0, dw->TotalBytes());
      return;
    }
    const auto compute = convolution.filters <= REGISTER ? InTiles<16, REGISTER> : InTiles<8, 2 * REGISTER>;
    compute(context, convolution, Data(x), Data(dy), Data(*dw));
  }

 private:
  static constexpr int64_t FEWEST_CHANNELS = 32;  // of a task: each task copies all filters
  static constexpr int64_t MOST_COPIES = 768;     // of channels, of all taps, so that a block stays in the cache

  template <int64_t CHANNELS, int64_t FILTERS>
  static void InTiles(OpKernelContext* context, const Convolution& convolution, const Bfloat16* x, const Bfloat16* dy,
                      Bfloat16* dw) {
    auto* workers = context->device()->tensorflow_cpu_worker_threads()->workers;
    const Blocks blocks(convolution);
    const int64_t weights = convolution.weights(), panels = Parts(convolution.channels, CHANNELS);
    const int64_t wanted = std::min(Parts(2 * workers->NumThreads(), blocks.groups),
                                    convolution.channels / FEWEST_CHANNELS);
    const int64_t ranges = std::min(panels, std::max(wanted, Parts(convolution.channels * blocks.copies, MOST_COPIES)));
    Tensor sums;
    OP_REQUIRES_OK(context, context->allocate_temp(tensorflow::DT_FLOAT, TensorShape({blocks.groups, weights}), &sums));
    float* const all = sums.flat<float>().data();
    using Pool = tsl::thread::ThreadPool;
    const Pool::SchedulingParams one_by_one(Pool::SchedulingStrategy::kFixedBlockSize, std::nullopt, 1);
    workers->ParallelFor(blocks.groups * ranges, one_by_one, [&](int64_t begin, int64_t end) {
      Task<CHANNELS, FILTERS> task(convolution, blocks, x, dy);
      for (int64_t n = begin; n < end; ++n) {
        const int64_t group = n / ranges, range = n % ranges;
        const int64_t first = range * panels / ranges * CHANNELS, next = (range + 1) * panels / ranges * CHANNELS;
        task.Run(group, first, std::min(next, convolution.channels) - first, all + group * weights,
                 blocks.groups == 1 ? dw : nullptr);
      }
    });
    if (blocks.groups == 1) return;
    workers->ParallelFor(weights, 2 * blocks.groups, [&](int64_t begin, int64_t end) {
      AddGroups(all + begin, blocks.groups, weights, end - begin, dw + begin);
    });
  }

  int64_t height_, width_, stride_;
  bool same_;
};

REGISTER_OP("OrchestratorWeightGradient")
    .Input("x: bfloat16").Input("dy: bfloat16").Output("dw: bfloat16")
    .Attr("height: int >= 1").Attr("width: int >= 1").Attr("stride: int >= 1").Attr("padding: {'SAME', 'VALID'}")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      int64_t height, width;
      TF_RETURN_IF_ERROR(context->GetAttr("height", &height));
      TF_RETURN_IF_ERROR(context->GetAttr("width", &width));
      tensorflow::shape_inference::ShapeHandle x, dy;
      TF_RETURN_IF_ERROR(context->WithRank(context->input(0), 4, &x));
      TF_RETURN_IF_ERROR(context->WithRank(context->input(1), 4, &dy));
      context->set_output(0, context->MakeShape({context->MakeDim(height), context->MakeDim(width), context->Dim(x, 3),
                                                 context->Dim(dy, 3)}));
      return absl::OkStatus();
    });

REGISTER_KERNEL_BUILDER(Name("OrchestratorWeightGradient").Device(tensorflow::DEVICE_CPU), WeightGradient);

}  // namespace orchestrator
