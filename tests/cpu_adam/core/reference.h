// A step in double, and how far plain float32 arithmetic may be from it (docs/numerics.md).
#pragma once

#include "support.h"

// A value and the largest error that its calculation in float32 may have.
struct Bounded {
  double value;
  double error;
};

struct BoundedStep {
  Bounded param, exp_avg, exp_avg_sq, max_exp_avg_sq;
};

struct Element {
  double param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq;
};

BoundedStep reference_step(const Element& before, const Options& options);

// Whether `got` is `want`, within its error, rounded to `storage`.
bool is_rounded(double got, const Bounded& want, Storage storage);
