// What the host does in each step, in C++ as csrc/mps/adam_step.mm does it: a row for each
// gradient, and one copy to the device. And DeepSpeed's CUDA operation, where its source was found.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/extension.h>

#include <vector>

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
  // Twice over the list: what the second turn reads is on its way when it comes.
  const size_t count = grads.size();
  std::vector<const at::Tensor*> tensors(count);
  for (size_t i = 0; i < count; ++i) {
    PyObject* item = PyList_GET_ITEM(grads.ptr(), static_cast<Py_ssize_t>(i));
    TORCH_CHECK(THPVariable_Check(item), "grads[", i, "] is no tensor");
    tensors[i] = &THPVariable_Unpack(item);
    __builtin_prefetch(tensors[i]->unsafeGetTensorImpl());
  }
  auto* rows = static_cast<AdamStepRow*>(pinned.mutable_data_ptr());
  const auto* others = together.const_data_ptr<int64_t>();
  for (size_t i = 0; i < count; ++i) {
    const auto address = reinterpret_cast<uint64_t>(tensors[i]->unsafeGetTensorImpl()->data());
    const bool wide = (address | static_cast<uint64_t>(others[i])) % 16 == 0;
    const uint32_t flags = storage_type(*tensors[i]) << 8 | (wide ? ADAM_WIDE : 0u);
    rows[i] = {address, 0, 0, flags, 0, 0};
  }
  C10_CUDA_CHECK(cudaMemcpyAsync(table.mutable_data_ptr(), rows, count * sizeof(AdamStepRow),
                                 cudaMemcpyHostToDevice, c10::cuda::getCurrentCUDAStream()));
}

}  // namespace

#ifdef WITH_DEEPSPEED
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
