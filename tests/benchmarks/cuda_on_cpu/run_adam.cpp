// Every thread of a launch of the translated adam kernel, TRANSLATION, whose names begin with "k".
#include TRANSLATION

extern "C" void run_adam(unsigned groups, unsigned threads, void* const* buffers,
                         const msl::k::AdamCall* call) {
  using namespace msl::k;
  blockDim.x = threads;
  for (blockIdx.x = 0; blockIdx.x < groups; ++blockIdx.x)
    for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x)
      k_adam(static_cast<const AdamRow*>(buffers[0]), static_cast<const AdamChunk*>(buffers[1]),
             static_cast<const AdamStepRow*>(buffers[2]), static_cast<const AdamHyper*>(buffers[3]),
             static_cast<const AdamDim*>(buffers[3]), *call, nullptr, nullptr, nullptr, nullptr,
             nullptr, nullptr);
}
