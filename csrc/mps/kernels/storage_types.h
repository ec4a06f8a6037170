// Names of storage types, for kernels and for the host that chooses pipelines.
#pragma once

#define STORAGE_FLOAT32 0u
#define STORAGE_FLOAT16 1u
#define STORAGE_BFLOAT16 2u
#define STORAGE_NONE 3u
