// A clock for compiled functions: the time at which its inputs are computed, in seconds of CLOCK_MONOTONIC, as Python's
// time.perf_counter on Linux. TensorFlow's own, tf.timestamp, is refused in deterministic mode, and a call of Python
// costs 30 us, during which no other thread of Python runs.

#include <ctime>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace orchestrator {

class Clock : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    tensorflow::Tensor* seconds;
    OP_REQUIRES_OK(context, context->allocate_output(0, tensorflow::TensorShape({}), &seconds));
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    seconds->scalar<double>()() = now.tv_sec + now.tv_nsec * 1e-9;
  }
};

// Not stateful: tf.function runs stateful operations one after the other, so that a reading would wait for those before.
REGISTER_OP("OrchestratorClock")
    .Input("after: T").Output("seconds: double")
    .Attr("T: list(type)")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      context->set_output(0, context->Scalar());
      return absl::OkStatus();
    });
REGISTER_KERNEL_BUILDER(Name("OrchestratorClock").Device(tensorflow::DEVICE_CPU), Clock);

}  // namespace orchestrator
