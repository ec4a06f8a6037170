// What the host does in each step, in C++ as csrc/mps/adam_step.mm does it: a row for each
// gradient, and one copy to the device. And DeepSpeed's CUDA operation, where its source was found.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/extension.h>

#include "adam_tables.h"
#include "storage_types.h"

namespace {

uint32_t storage_type(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kHalf:
      return STORAGE_FLOAT16;
    case at::kBFloat16:
      return STORAGE_BFLOAT16;
    default:
      return STORAGE_FLOAT32;
  }
}

// Fills `pinned` with the rows of dense gradients and copies it to `table` on the current stream.
// `together`: of each row, the other tensors' addresses or-ed, for the question of alignment.
void step_rows(const py::list& grads, const at::Tensor& together, const at::Tensor& pinned,
               const at::Tensor& table) {
  auto* rows = static_cast<AdamStepRow*>(pinned.mutable_data_ptr());
  const auto* others = together.const_data_ptr<int64_t>();
  for (size_t i = 0; i < grads.size(); ++i) {
    PyObject* item = PyList_GET_ITEM(grads.ptr(), i);
    TORCH_CHECK(THPVariable_Check(item), "grads[", i, "] is no tensor");
    const at::Tensor& grad = THPVariable_Unpack(item);
    const auto address = reinterpret_cast<uint64_t>(grad.unsafeGetTensorImpl()->data());
    const bool wide = (address | static_cast<uint64_t>(others[i])) % 16 == 0;
    const uint32_t flags = storage_type(grad) << 8 | (wide ? ADAM_WIDE : 0u);
    rows[i] = {address, 0, 0, flags, 0, 0};
  }
  C10_CUDA_CHECK(cudaMemcpyAsync(table.mutable_data_ptr(), rows, grads.size() * sizeof(AdamStepRow),
                                 cudaMemcpyHostToDevice, c10::cuda::getCurrentCUDAStream()));
}

}  // namespace

#ifdef WITH_DEEPSPEED
#include <vector>

void multi_tensor_adam_cuda(int chunk_size, at::Tensor noop_flag,
                            std::vector<std::vector<at::Tensor>> tensor_lists, const float lr,
                            const float beta1, const float beta2, const float epsilon,
                            const int step, const int mode, const int bias_correction,
                            const float weight_decay);
#endif

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("step_rows", &step_rows, "The rows of a step, from the gradients, to the device");
#ifdef WITH_DEEPSPEED
  m.def("multi_tensor_adam", &multi_tensor_adam_cuda, "DeepSpeed's fused Adam");
#endif
}
