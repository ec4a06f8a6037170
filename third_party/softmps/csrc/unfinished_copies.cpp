#include "unfinished_copies.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "metal.h"

namespace softmps {
namespace {

constexpr size_t kMaxCompared = size_t{64} << 20;  // of a longer source only the life is watched

struct Delivery {
  uint64_t ticket;
  at::Tensor host, values;
};

struct Loan {
  uint64_t ticket;
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  const void* base;   // of the storage
  const char* bytes;  // of the tensor
  size_t length;
  std::vector<char> as_lent;
  bool temporary;
};

// Held while delivering, so that a second waiter returns only when the values are there. Tensors
// are dropped without it: that may take the GIL, which another waiter may hold.
std::mutex mutex;

template <class T>
std::deque<T>& list() {
  static auto* list = new std::deque<T>;  // leaked: tensors are freed at exit
  return *list;
}

template <class T>
std::vector<T> take_up_to(uint64_t ticket) {
  std::vector<T> taken;
  auto& all = list<T>();
  while (!all.empty() && all.front().ticket <= ticket) {
    taken.push_back(std::move(all.front()));
    all.pop_front();
  }
  return taken;
}

void copy_unseen(const at::Tensor& to, const at::Tensor& from) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;  // the copy_() of the program did the rest
  at::Tensor target = to;
  target.copy_(from);
}

// NaN, -1 or true: what is there before the device has written is not to be used.
void make_unusable(const at::Tensor& host) {
  at::Tensor scalar = at::empty({}, host.options());
  std::memset(scalar.data_ptr(), host.scalar_type() == at::kBool ? 1 : 0xff, scalar.nbytes());
  copy_unseen(host, scalar);
}

std::string fault_of(const Loan& loan) {
  const std::string copy =
      "a non_blocking copy of " + std::to_string(loan.length) + " bytes from the host to mps ";
  if (loan.temporary) {
    return copy +
           "converts its source on the CPU first, into memory that is free again when the call "
           "returns and that the GPU may read later (PyTorch 2.13 keeps no reference, "
           "pytorch#189690). Convert before or after the copy, or copy without non_blocking";
  }
  const auto storage = loan.storage.lock();
  if (!storage || storage->data() != loan.base) {
    return copy +
           "had its source freed before the program waited: the GPU may read it after that "
           "(PyTorch 2.13 keeps no reference, pytorch#189690). Keep the source until "
           "torch.mps.synchronize(), or copy without non_blocking";
  }
  if (!loan.as_lent.empty() && std::memcmp(loan.bytes, loan.as_lent.data(), loan.length) != 0) {
    return copy +
           "had its source changed before the program waited: the GPU may read it before or after "
           "the change. Change it after torch.mps.synchronize(), or copy without non_blocking";
  }
  return "";
}

}  // namespace

bool copies_may_be_unfinished() {
  static const bool enabled = [] {
    const char* setting = std::getenv("MPS_DS_SOFT_NON_BLOCKING");
    return !setting || std::strcmp(setting, "0") != 0;
  }();
  return enabled;
}

void copy_to_host_later(const at::Tensor& host, const at::Tensor& values) {
  make_unusable(host);
  std::lock_guard<std::mutex> lock(mutex);
  list<Delivery>().push_back({metal::next_ticket(), host, values});
}

void lend_to_device(const at::Tensor& source, bool temporary) {
  const size_t length = source.numel() * source.itemsize();
  const char* bytes = static_cast<const char*>(source.const_data_ptr());
  std::vector<char> as_lent;
  if (!temporary && length <= kMaxCompared) as_lent.assign(bytes, bytes + length);
  const c10::Storage& storage = source.storage();
  std::lock_guard<std::mutex> lock(mutex);
  list<Loan>().push_back({metal::next_ticket(), storage.getWeakStorageImpl(), storage.data(), bytes,
                          length, std::move(as_lent), temporary});
}

bool any_unfinished_copies() {
  std::lock_guard<std::mutex> lock(mutex);
  return !list<Delivery>().empty() || !list<Loan>().empty();
}

// Declared in metal.h: the Metal half calls it.
std::string finish_copies(uint64_t ticket) {
  std::vector<Delivery> deliveries;
  std::vector<Loan> loans;
  {
    std::lock_guard<std::mutex> lock(mutex);
    deliveries = take_up_to<Delivery>(ticket);
    loans = take_up_to<Loan>(ticket);
    for (const Delivery& delivery : deliveries) copy_unseen(delivery.host, delivery.values);
  }
  for (const Loan& loan : loans) {
    const std::string fault = fault_of(loan);
    if (!fault.empty()) return fault;
  }
  return "";
}

}  // namespace softmps
