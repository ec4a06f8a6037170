#include "cpu_adam/vector_scalar.h"
//
#include "cpu_adam/vector.h"

namespace mps_ds::cpu_adam {

const Backend kScalar{"scalar", [] { return true; }, &step_dense<ScalarFloat>};

}  // namespace mps_ds::cpu_adam
