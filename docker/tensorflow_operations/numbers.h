// How the operations store numbers in 16 bits, and are compiled for several CPUs.

#pragma once

#include <cstdint>
#include <cstring>

#include "tensorflow/core/framework/bfloat16.h"
#include "tensorflow/core/framework/tensor.h"

// Compiled for each of these instruction sets; the loader takes the best one that the CPU has.
#if defined(__x86_64__)
#define FOR_EVERY_CPU __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EVERY_CPU
#endif
#define INLINE inline __attribute__((always_inline))

namespace orchestrator {

struct Bfloat16 {
  uint16_t bits;  // the upper half of a float32
};

// Returns the numbers of a tensor; T is the type in which they are stored.
template <typename T = Bfloat16>
INLINE T* Data(const tensorflow::Tensor& tensor) {
  return reinterpret_cast<T*>(const_cast<char*>(tensor.tensor_data().data()));
}

INLINE float Widen(float value) { return value; }
INLINE float Widen(Bfloat16 value) {
  const uint32_t bits = uint32_t{value.bits} << 16;
  float wide;
  memcpy(&wide, &bits, sizeof wide);
  return wide;
}
INLINE void Narrow(float value, float* out) { *out = value; }
INLINE void Narrow(float value, Bfloat16* out) {  // to the nearest, ties to even
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  out->bits = static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

template <typename T>
struct Stored {
  using Type = T;
};
template <>
struct Stored<tensorflow::bfloat16> {
  using Type = Bfloat16;
};

}  // namespace orchestrator
