#pragma once
#include "../softmetal_macros.h"
