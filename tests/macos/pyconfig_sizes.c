// Compiled only: the sizes in third_party/macos/python/pyconfig.h are those of the target.
#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>
#include <wchar.h>

#include "pyconfig.h"

#define SAME(type, macro) _Static_assert(sizeof(type) == macro, #macro)
SAME(int, SIZEOF_INT);
SAME(long, SIZEOF_LONG);
SAME(long long, SIZEOF_LONG_LONG);
SAME(pid_t, SIZEOF_PID_T);
SAME(pthread_t, SIZEOF_PTHREAD_T);
SAME(size_t, SIZEOF_SIZE_T);
SAME(time_t, SIZEOF_TIME_T);
SAME(uintptr_t, SIZEOF_UINTPTR_T);
SAME(void*, SIZEOF_VOID_P);
SAME(wchar_t, SIZEOF_WCHAR_T);
SAME(_Bool, SIZEOF__BOOL);
