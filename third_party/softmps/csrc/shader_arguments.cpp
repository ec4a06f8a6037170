#include "shader_arguments.h"

#include <ATen/core/Tensor.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <string>

#include "blocks.h"

namespace softmps {
namespace {

using metal::Bytes;

template <class T>
void append(Bytes& bytes, T value) {
  const auto* first = reinterpret_cast<const char*>(&value);
  bytes.insert(bytes.end(), first, first + sizeof value);
}

void append_float(Bytes& bytes, double number, const std::string& cast) {
  const auto value = static_cast<float>(number);
  if (cast.empty() || cast == "fp32") {
    append(bytes, value);
  } else if (cast == "fp16") {
    append(bytes, c10::Half(value));
  } else if (cast == "bf16") {
    append(bytes, c10::BFloat16(value));
  } else {
    TORCH_CHECK(false, "Unsupported cast instruction ", cast);
  }
}

void append_int(Bytes& bytes, int64_t value, const std::string& cast) {
  if (cast.empty() || cast == "int64") {
    append(bytes, value);
  } else if (cast == "int32") {
    append(bytes, static_cast<int32_t>(value));
  } else if (cast == "int16") {
    append(bytes, static_cast<int16_t>(value));
  } else if (cast == "int8") {
    append(bytes, static_cast<int8_t>(value));
  } else if (cast == "uint8") {
    append(bytes, static_cast<uint8_t>(value));
  } else {
    TORCH_CHECK(false, "Unsupported cast instruction ", cast);
  }
}

bool is_number(const py::handle& object) {
  return py::isinstance<py::float_>(object) || py::isinstance<py::int_>(object);
}

void append_number(Bytes& bytes, const py::handle& object, const std::string& cast) {
  if (py::isinstance<py::float_>(object)) {
    append_float(bytes, object.cast<double>(), cast);
  } else {
    append_int(bytes, object.cast<int64_t>(), cast);
  }
}

// Metal has no double: PyTorch narrows a CPU scalar.
Bytes bytes_of_cpu_scalar(const at::Tensor& scalar) {
  Bytes bytes;
  if (scalar.scalar_type() == at::kDouble) {
    append(bytes, static_cast<float>(*scalar.const_data_ptr<double>()));
  } else if (scalar.scalar_type() == at::kComplexDouble) {
    const auto value = *scalar.const_data_ptr<c10::complex<double>>();
    append(bytes, static_cast<c10::complex<float>>(value));
  } else {
    const auto* first = static_cast<const char*>(scalar.const_data_ptr());
    bytes.assign(first, first + scalar.itemsize());
  }
  return bytes;
}

metal::Argument pack_tensor(const at::Tensor& tensor) {
  if (tensor.is_cpu()) {
    TORCH_CHECK(tensor.dim() == 0, "Passed CPU tensor to MPS op");
    return bytes_of_cpu_scalar(tensor);
  }
  TORCH_CHECK(tensor.is_mps(), "Passed ", tensor.device(), " tensor to MPS op");
  const Block* block = block_of(tensor.storage());
  return metal::BufferArgument{block ? block->buffer : nullptr,
                               static_cast<size_t>(tensor.storage_offset()) * tensor.itemsize()};
}

Bytes pack_sequence(const py::sequence& values, const std::string& cast) {
  TORCH_CHECK(py::len(values) > 0, "Empty list/tuple can not be an argument to metal kernel");
  const bool floats = py::isinstance<py::float_>(values[0]);
  Bytes bytes;
  for (const py::handle& value : values) {
    TORCH_CHECK(is_number(value) && py::isinstance<py::float_>(value) == floats,
                "Unexpected argument types");
    append_number(bytes, value, cast);
  }
  return bytes;
}

metal::Argument pack(const py::handle& argument, const std::string& cast) {
  if (THPVariable_Check(argument.ptr())) return pack_tensor(THPVariable_Unpack(argument.ptr()));
  if (py::isinstance<py::list>(argument) || py::isinstance<py::tuple>(argument)) {
    return pack_sequence(py::reinterpret_borrow<py::sequence>(argument), cast);
  }
  TORCH_CHECK(is_number(argument), "Unsupported argument type");
  Bytes bytes;
  append_number(bytes, argument, cast);
  return bytes;
}

std::string cast_of(size_t index, const py::object& casts) {
  if (casts.is_none()) return "";
  if (py::isinstance<py::str>(casts)) return casts.cast<std::string>();
  TORCH_CHECK(py::isinstance<py::dict>(casts), "Unexpected caster arg type ",
              py::str(py::type::of(casts)).cast<std::string>());
  const auto by_index = py::reinterpret_borrow<py::dict>(casts);
  const py::int_ key(index);
  return by_index.contains(key) ? by_index[key].cast<std::string>() : "";
}

}  // namespace

std::vector<metal::Argument> pack_arguments(const py::sequence& arguments,
                                            const py::object& casts) {
  std::vector<metal::Argument> packed;
  for (size_t i = 0; i < py::len(arguments); ++i) {
    packed.push_back(pack(py::object(arguments[i]), cast_of(i, casts)));
  }
  return packed;
}

}  // namespace softmps
