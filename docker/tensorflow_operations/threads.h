// Work by all threads of the CPU.

#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "tensorflow/core/framework/op_kernel.h"

namespace orchestrator {

// Calls work(begin, end) for blocks of `count` pieces of work of about the same length, several blocks for each thread.
template <typename Work>
void InBlocks(tensorflow::OpKernelContext* context, int64_t count, Work work) {
  auto* workers = context->device()->tensorflow_cpu_worker_threads()->workers;
  using Pool = tsl::thread::ThreadPool;
  const int64_t block = std::max<int64_t>(1, count / (8 * workers->NumThreads()));
  const Pool::SchedulingParams blocks(Pool::SchedulingStrategy::kFixedBlockSize, std::nullopt, block);
  workers->ParallelFor(count, blocks, work);
}

}  // namespace orchestrator
