#include "generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>

#include "blocks.h"

namespace softmps {
namespace {

// mps and cpu must not give the same numbers for a seed: on a Mac one is Philox, the other mt19937.
constexpr uint64_t kSeedSalt = 0x6d7073;

struct MpsGenerator final : c10::GeneratorImpl {
  explicit MpsGenerator(uint64_t seed)
      : GeneratorImpl(kMps0, c10::DispatchKeySet(c10::DispatchKey::MPS)),
        host(at::detail::createCPUGenerator(seed ^ kSeedSalt)) {}

  void set_current_seed(uint64_t seed) override { host.set_current_seed(seed ^ kSeedSalt); }
  uint64_t current_seed() const override { return host.current_seed() ^ kSeedSalt; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return current_seed();
  }
  void set_offset(uint64_t) override {
    TORCH_CHECK(false, "softmps: the mps generator has no offset");
  }
  uint64_t get_offset() const override {
    TORCH_CHECK(false, "softmps: the mps generator has no offset");
  }
  void set_state(const c10::TensorImpl& state) override {
    TORCH_CHECK(state.numel() == host.get_state().numel(), "RNG state is wrong size");
    host.set_state(at::Tensor(state.shallow_copy_and_detach(c10::VariableVersion(0), true)));
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return host.get_state().getIntrusivePtr();
  }
  MpsGenerator* clone_impl() const override {
    auto* copy = new MpsGenerator(current_seed());
    copy->host.set_state(host.get_state());
    return copy;
  }

  at::Generator host;
};

}  // namespace

const at::Generator& default_generator() {
  static auto* generator =
      new at::Generator(at::make_generator<MpsGenerator>(c10::default_rng_seed_val));
  return *generator;
}

at::Generator new_generator() {
  return at::make_generator<MpsGenerator>(c10::default_rng_seed_val);
}

at::Generator host_generator(const at::Generator& generator) {
  return static_cast<MpsGenerator*>(generator.unsafeGetGeneratorImpl())->host;
}

}  // namespace softmps
