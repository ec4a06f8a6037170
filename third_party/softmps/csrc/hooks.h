// at::MPSHooksInterface: what torch.mps, torch.backends.mps and torch::mps:: call.
#pragma once

namespace softmps {

// Makes PyTorch use our hooks, also if it has already cached its stub.
void install_hooks();

}  // namespace softmps
