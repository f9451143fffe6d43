// SGD with momentum and weight decay as one operation of TensorFlow for CPUs:
//
//   accum = (accum - decay * var) * momentum - rate * grad;  var += accum
//
// Together ResourceApplyGradientDescent, a cast and ResourceApplyKerasMomentum do the same with the same bits, but read
// and write the weights, their momenta and the gradients twice: with many weights a step is bound by this.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/shape_inference.h"

#include "numbers.h"

// The same bits on every CPU, with and without fused multiplication and addition.
#pragma GCC optimize("fp-contract=off")

namespace orchestrator {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::Var;

template <bool decays, typename T>
FOR_EVERY_CPU void Update(const T* __restrict grad, int64_t count, float rate, float decay, float momentum,
                          float* __restrict accum, float* __restrict var) {
  for (int64_t n = 0; n < count; ++n) {
    const float before = decays ? accum[n] - var[n] * decay : accum[n];
    const float after = before * momentum - Widen(grad[n]) * rate;
    accum[n] = after;
    var[n] += after;
  }
}

// Inputs: var, accum, grad, rate, decay, momentum.
template <typename TensorType>
class Momentum : public OpKernel {
 public:
  using T = typename Stored<TensorType>::Type;

  explicit Momentum(OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("decays", &decays_));
  }

  void Compute(OpKernelContext* context) override {
    tensorflow::core::RefCountPtr<Var> resources[2];
    for (int n : {0, 1}) {
      OP_REQUIRES_OK(context, LookupResource(context, tensorflow::HandleFromInput(context, n), &resources[n]));
    }
    const Tensor& grad = context->input(2);
    tensorflow::mutex* locks[] = {resources[0]->mu(), resources[1]->mu()};
    if (locks[1] < locks[0]) std::swap(locks[0], locks[1]);
    tensorflow::mutex_lock first(*locks[0]), second(*locks[1]);
    float* numbers[2];
    for (int n : {0, 1}) {
      OP_REQUIRES(context, resources[n]->tensor()->shape() == grad.shape(),
                  absl::InvalidArgumentError(absl::StrCat("input ", n, " has shape ",
                                                          resources[n]->tensor()->shape().DebugString(), ", expected ",
                                                          grad.shape().DebugString(), " as the gradient")));
      OP_REQUIRES_OK(context, Own(context, resources[n]->tensor()));
      numbers[n] = resources[n]->tensor()->template flat<float>().data();
    }
    const float rate = context->input(3).scalar<float>()(), decay = context->input(4).scalar<float>()(),
                momentum = context->input(5).scalar<float>()();
    const T* gradients = reinterpret_cast<const T*>(grad.tensor_data().data());
    const auto update = decays_ ? Update<true, T> : Update<false, T>;
    auto* workers = context->device()->tensorflow_cpu_worker_threads()->workers;
    workers->ParallelFor(grad.NumElements(), COST, [&](int64_t begin, int64_t end) {
      update(gradients + begin, end - begin, rate, decay, momentum, numbers[1] + begin, numbers[0] + begin);
    });
  }

 private:
  static constexpr int64_t COST = 4;  // cycles per number, for the size of the threads' parts

  // Copies numbers that the result of an earlier read shares.
  static absl::Status Own(OpKernelContext* context, Tensor* tensor) {
    if (tensor->RefCountIsOne()) return absl::OkStatus();
    Tensor own;
    TF_RETURN_IF_ERROR(context->allocate_temp(tensor->dtype(), tensor->shape(), &own));
    memcpy(const_cast<char*>(own.tensor_data().data()), tensor->tensor_data().data(), tensor->tensor_data().size());
    *tensor = own;
    return absl::OkStatus();
  }

  bool decays_;
};

REGISTER_OP("OrchestratorMomentum")
    .Input("var: resource").Input("accum: resource").Input("grad: T")
    .Input("rate: float").Input("decay: float").Input("momentum: float")
    .Attr("T: {float, bfloat16}").Attr("decays: bool")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext*) { return absl::OkStatus(); });

#define REGISTER(T) \
  REGISTER_KERNEL_BUILDER(Name("OrchestratorMomentum").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"), Momentum<T>)
REGISTER(float);
REGISTER(tensorflow::bfloat16);

}  // namespace orchestrator
