// The part of libdispatch that Metal host code touches: queues, once, semaphores. Apple's names and
// types, except that a queue is a plain pointer and not an Objective-C object (as under
// OS_OBJECT_USE_OBJC=0), so use dispatch_retain and dispatch_release.
//
// Stricter than libdispatch where that hangs or terminates:
//   - dispatch_sync onto the queue that the caller already runs on throws
//   softmetal::ValidationError;
//   - an exception that leaves a block aborts the process, after naming it.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#ifndef DISPATCH_NOESCAPE
#define DISPATCH_NOESCAPE __attribute__((noescape))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef void (^dispatch_block_t)(void);
typedef void (*dispatch_function_t)(void* context);
typedef struct dispatch_queue_s* dispatch_queue_t;
typedef struct dispatch_semaphore_s* dispatch_semaphore_t;
typedef struct dispatch_queue_attr_s* dispatch_queue_attr_t;
typedef uint64_t dispatch_time_t;
typedef intptr_t dispatch_once_t;

#define DISPATCH_QUEUE_SERIAL ((dispatch_queue_attr_t)0)
#define DISPATCH_TIME_NOW ((dispatch_time_t)0)
#define DISPATCH_TIME_FOREVER (~(dispatch_time_t)0)
#define NSEC_PER_SEC 1000000000ull
#define NSEC_PER_MSEC 1000000ull

dispatch_queue_t dispatch_queue_create(const char* label, dispatch_queue_attr_t attr);
const char* dispatch_queue_get_label(dispatch_queue_t queue);
void dispatch_sync(dispatch_queue_t queue, DISPATCH_NOESCAPE dispatch_block_t block);
void dispatch_sync_f(dispatch_queue_t queue, void* context, dispatch_function_t work);
void dispatch_async(dispatch_queue_t queue, dispatch_block_t block);

dispatch_semaphore_t dispatch_semaphore_create(intptr_t value);
intptr_t dispatch_semaphore_signal(dispatch_semaphore_t semaphore);
intptr_t dispatch_semaphore_wait(dispatch_semaphore_t semaphore, dispatch_time_t timeout);
dispatch_time_t dispatch_time(dispatch_time_t when, int64_t nanoseconds);

void dispatch_once(dispatch_once_t* predicate, DISPATCH_NOESCAPE dispatch_block_t block);

#ifdef __cplusplus
}  // extern "C"

// A transparent union in C; an overload in C++.
void dispatch_retain(dispatch_queue_t queue);
void dispatch_retain(dispatch_semaphore_t semaphore);
void dispatch_release(dispatch_queue_t queue);
void dispatch_release(dispatch_semaphore_t semaphore);
#endif
