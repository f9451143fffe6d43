// Products of matrices of bfloat16 whose inner dimension is pixels, two of them at a time.
//
// AVX512_BF16 has an instruction that multiplies two pairs of numbers and adds both products to a float32. So pixels are
// copied in pairs: the first channel of both, the second channel of both, and so on. Copies are divided into panels of as
// many channels as one tile of the product has.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "numbers.h"

namespace orchestrator {

constexpr int64_t PAIR = 2, REGISTER = 16;  // numbers in a pair, and float32 in a register

// Pixels of one image's row, `step` pixels apart from `first` on; those outside of the image are `zeros`.
struct Pixels {
  const Bfloat16 *row, *zeros;
  int64_t columns, channels, first, step, count;

  INLINE const Bfloat16* At(int64_t n) const {
    const int64_t column = first + n * step;
    return row && n < count && column >= 0 && column < columns ? row + column * channels : zeros;
  }
};

// Copies the first `channels` channels of pixels as pairs, one panel of `lanes` channels after the other.
template <int64_t lanes>
FOR_EVERY_CPU void CopyPairs(const Pixels& pixels, int64_t channels, Bfloat16* to, int64_t panel) {
  for (int64_t n = 0; n < pixels.count; n += PAIR, to += PAIR * lanes) {
    const Bfloat16 *__restrict one = pixels.At(n), *__restrict other = pixels.At(n + 1);
    Bfloat16* __restrict out = to;
    int64_t c = 0;
    for (; c + lanes <= channels; c += lanes, out += panel) {
      for (int64_t lane = 0; lane < lanes; ++lane) {
        out[PAIR * lane] = one[c + lane];
        out[PAIR * lane + 1] = other[c + lane];
      }
    }
    if (c == channels) continue;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      out[PAIR * lane] = c + lane < channels ? one[c + lane] : Bfloat16{0};
      out[PAIR * lane + 1] = c + lane < channels ? other[c + lane] : Bfloat16{0};
    }
  }
}

// Panels of channels and of filters: `pairs` pairs in each of `runs` parts, whose beginnings are apart by a run.
struct Panels {
  const Bfloat16 *channels, *filters;
  int64_t channels_run, filters_run, runs, pairs;
};

template <int64_t CHANNELS, int64_t FILTERS>
using Tile = float[CHANNELS][FILTERS];

template <int64_t CHANNELS, int64_t FILTERS>
FOR_EVERY_CPU void MultiplyAnywhere(const Panels& panels, Tile<CHANNELS, FILTERS>& tile) {
  memset(tile, 0, sizeof tile);
  for (int64_t run = 0; run < panels.runs; ++run) {
    const Bfloat16* a = panels.channels + run * panels.channels_run;
    const Bfloat16* b = panels.filters + run * panels.filters_run;
    for (int64_t pair = 0; pair < panels.pairs; ++pair, a += PAIR * CHANNELS, b += PAIR * FILTERS) {
      for (int64_t c = 0; c < CHANNELS; ++c) {
        const float one = Widen(a[PAIR * c]), other = Widen(a[PAIR * c + 1]);
        for (int64_t f = 0; f < FILTERS; ++f) tile[c][f] += one * Widen(b[PAIR * f]) + other * Widen(b[PAIR * f + 1]);
      }
    }
  }
}

#if defined(__x86_64__)
INLINE bool HasInstruction() {
  static const bool has_instruction = __builtin_cpu_supports("avx512bf16");
  return has_instruction;
}

template <int64_t CHANNELS, int64_t FILTERS>
__attribute__((target("avx512f,avx512bf16"))) void MultiplyInRegisters(const Panels& panels,
                                                                       Tile<CHANNELS, FILTERS>& tile) {
  constexpr int64_t REGISTERS = FILTERS / REGISTER;
  __m512 sums[CHANNELS][REGISTERS];
  for (auto& row : sums) {
    for (auto& sum : row) sum = _mm512_setzero_ps();
  }
  for (int64_t run = 0; run < panels.runs; ++run) {
    const Bfloat16* a = panels.channels + run * panels.channels_run;
    const Bfloat16* b = panels.filters + run * panels.filters_run;
    for (int64_t pair = 0; pair < panels.pairs; ++pair, a += PAIR * CHANNELS, b += PAIR * FILTERS) {
      __m512bh filters[REGISTERS];
      for (int64_t n = 0; n < REGISTERS; ++n) filters[n] = (__m512bh)_mm512_loadu_si512(b + n * PAIR * REGISTER);
#pragma GCC unroll 16
      for (int64_t c = 0; c < CHANNELS; ++c) {
        int32_t both;
        memcpy(&both, a + PAIR * c, sizeof both);
        const auto repeated = (__m512bh)_mm512_set1_epi32(both);
        for (int64_t n = 0; n < REGISTERS; ++n) sums[c][n] = _mm512_dpbf16_ps(sums[c][n], repeated, filters[n]);
      }
    }
  }
  for (int64_t c = 0; c < CHANNELS; ++c) {
    for (int64_t n = 0; n < REGISTERS; ++n) _mm512_storeu_ps(tile[c] + n * REGISTER, sums[c][n]);
  }
}
#endif

// Computes a tile: for each channel and filter the sum of the products of their numbers.
template <int64_t CHANNELS, int64_t FILTERS>
void Multiply(const Panels& panels, Tile<CHANNELS, FILTERS>& tile) {
#if defined(__x86_64__)
  if (HasInstruction()) return MultiplyInRegisters<CHANNELS, FILTERS>(panels, tile);
#endif
  MultiplyAnywhere<CHANNELS, FILTERS>(panels, tile);
}

}  // namespace orchestrator
