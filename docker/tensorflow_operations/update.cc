// Two rules for updating weights, with weight decay, each as one operation of TensorFlow for CPUs:
//
//   momentum: accum = (accum - decay * var) * share - rate * grad;  var += accum
//   RMSProp:  g = grad + decay * var;  accum = accum * share + g * g * (1 - share)
//             var -= rate * g / sqrt(accum + epsilon)
//
// ResourceApplyGradientDescent, a cast and ResourceApplyKerasMomentum do the first with the same bits, but read and
// write the weights, their momenta and the gradients twice; Keras' operations for the second do so more often. With many
// weights a step is bound by this. For the same reason `grad` may be the mean of two gradients, this rank's and another
// one's.

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

INLINE float Mean(float one, float other) { return (one + other) * 0.5f; }
INLINE float Mean(Bfloat16 one, Bfloat16 other) {  // as AddV2 and Mul do, which round the sum
  Bfloat16 sum;
  Narrow(Widen(one) + Widen(other), &sum);
  return Widen(sum) * 0.5f;
}

struct Numbers {
  float rate, decay, share, epsilon;
};

// Rules: what becomes of a weight and of the number that is accumulated for it.
struct Momentum {
  template <bool decays>
  INLINE static void Apply(const Numbers& numbers, float grad, float* accum, float* var) {
    const float before = decays ? *accum - *var * numbers.decay : *accum;
    *accum = before * numbers.share - grad * numbers.rate;
    *var += *accum;
  }
};
struct RmsProp {
  template <bool decays>
  INLINE static void Apply(const Numbers& numbers, float grad, float* accum, float* var) {
    const float decayed = decays ? grad + *var * numbers.decay : grad;
    *accum = *accum * numbers.share + decayed * decayed * (1 - numbers.share);
    *var -= numbers.rate * decayed / __builtin_sqrtf(*accum + numbers.epsilon);
  }
};

template <typename Rule, bool decays, bool averages, typename T>
FOR_EVERY_CPU void Update(const T* __restrict grad, const T* __restrict other, int64_t count, const Numbers& numbers,
                          float* __restrict accum, float* __restrict var) {
  const Numbers own = numbers;
  for (int64_t n = 0; n < count; ++n) {
    const float mean = averages ? Mean(grad[n], other[n]) : Widen(grad[n]);
    Rule::template Apply<decays>(own, mean, accum + n, var + n);
  }
}

// Inputs: var, accum, rate, decay, share, epsilon, and one or two gradients.
template <typename Rule, typename TensorType>
class UpdateOperation : public OpKernel {
 public:
  using T = typename Stored<TensorType>::Type;

  explicit UpdateOperation(OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("decays", &decays_));
  }

  void Compute(OpKernelContext* context) override {
    tensorflow::core::RefCountPtr<Var> resources[2];
    for (int n : {0, 1}) {
      OP_REQUIRES_OK(context, LookupResource(context, tensorflow::HandleFromInput(context, n), &resources[n]));
    }
    const int count = context->num_inputs() - FIRST;
    OP_REQUIRES(context, count <= 2, absl::InvalidArgumentError(absl::StrCat(count, " gradients, expected 1 or 2")));
    const Tensor &grad = context->input(FIRST), &other = context->input(FIRST + count - 1);
    OP_REQUIRES(context, grad.shape() == other.shape(),
                absl::InvalidArgumentError(absl::StrCat("gradients have shapes ", grad.shape().DebugString(), " and ",
                                                        other.shape().DebugString(), ", expected the same")));
    tensorflow::mutex* locks[] = {resources[0]->mu(), resources[1]->mu()};
    if (locks[1] < locks[0]) std::swap(locks[0], locks[1]);
    tensorflow::mutex_lock first(*locks[0]), second(*locks[1]);
    float* updated[2];
    for (int n : {0, 1}) {
      OP_REQUIRES(context, resources[n]->tensor()->shape() == grad.shape(),
                  absl::InvalidArgumentError(absl::StrCat("input ", n, " has shape ",
                                                          resources[n]->tensor()->shape().DebugString(), ", expected ",
                                                          grad.shape().DebugString(), " as the gradient")));
      OP_REQUIRES_OK(context, Own(context, resources[n]->tensor()));
      updated[n] = resources[n]->tensor()->template flat<float>().data();
    }
    const auto number = [&](int n) { return context->input(n).scalar<float>()(); };
    const Numbers numbers = {number(2), number(3), number(4), number(5)};
    const T* gradients[2];
    for (int n : {0, 1}) gradients[n] = Data<T>(n ? other : grad);
    const bool averages = count == 2;
    const auto update = decays_ ? (averages ? Update<Rule, true, true, T> : Update<Rule, true, false, T>)
                                : (averages ? Update<Rule, false, true, T> : Update<Rule, false, false, T>);
    auto* workers = context->device()->tensorflow_cpu_worker_threads()->workers;
    workers->ParallelFor(grad.NumElements(), COST, [&](int64_t begin, int64_t end) {
      update(gradients[0] + begin, gradients[1] + begin, end - begin, numbers, updated[1] + begin, updated[0] + begin);
    });
  }

 private:
  static constexpr int FIRST = 6;     // input that is a gradient
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

#define REGISTER_RULE(NAME)                                                                                           \
  REGISTER_OP(NAME)                                                                                                   \
      .Input("var: resource").Input("accum: resource")                                                               \
      .Input("rate: float").Input("decay: float").Input("share: float").Input("epsilon: float")                       \
      .Input("grads: count * T")                                                                                      \
      .Attr("T: {float, bfloat16}").Attr("decays: bool").Attr("count: int >= 1")                                      \
      .SetIsStateful()                                                                                                \
      .SetShapeFn([](tensorflow::shape_inference::InferenceContext*) { return absl::OkStatus(); })
REGISTER_RULE("OrchestratorMomentum");
REGISTER_RULE("OrchestratorRmsProp");

#define REGISTER(NAME, RULE, T)                                                                          \
  REGISTER_KERNEL_BUILDER(Name(NAME).Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"), UpdateOperation<RULE, T>)
REGISTER("OrchestratorMomentum", Momentum, float);
REGISTER("OrchestratorMomentum", Momentum, tensorflow::bfloat16);
REGISTER("OrchestratorRmsProp", RmsProp, float);
REGISTER("OrchestratorRmsProp", RmsProp, tensorflow::bfloat16);

}  // namespace orchestrator
