// GNUstep's headers include this file under -fblocks, and GCC's Objective-C runtime does not have
// it. libblocksruntime-dev has the API.
#pragma once
#include <Block.h>
