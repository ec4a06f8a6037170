#import <Foundation/Foundation.h>
#import <Metal/Metal.h>

#include "stream.h"

#include <cstring>
#include <stdexcept>

#include "counters.h"
#include "device.h"
#include "fork_guard.h"

namespace softmps {

Counters& counters() {
  static Counters counters;
  return counters;
}

namespace metal {
namespace {
using StateLock = std::lock_guard<std::recursive_mutex>;
}

Stream& Stream::get() {
  require_not_forked();
  static Stream* stream = new Stream;  // leaked: destructors at exit still use it
  return *stream;
}

Stream::Stream()
    : command_queue_([device() newCommandQueue]),
      queue_(dispatch_queue_create("metal gpu stream", DISPATCH_QUEUE_SERIAL)) {}

id<MTLCommandBuffer> Stream::command_buffer() {
  StateLock lock(state_mutex_);
  end_coalescing();
  return current();
}

void Stream::encode(const std::function<void(id<MTLComputeCommandEncoder>)>& body) {
  StateLock lock(state_mutex_);
  if (!encoder_) encoder_ = [[current() computeCommandEncoder] retain];
  body(encoder_);
}

id<MTLCommandBuffer> Stream::commit(Reason reason, bool make_one) {
  StateLock lock(state_mutex_);
  end_coalescing();
  if (!current_ && !make_one) return nil;
  id<MTLCommandBuffer> buffer = current();
  current_ = nil;  // also when the commit throws: the next user gets a fresh one
  try {
    [buffer commit];
  } catch (...) {
    [buffer release];
    pending_ = !committed_.empty();
    throw;
  }
  if (reason == Reason::kFallback) ++counters().fallback_commits;
  committed_.push_back({buffer, std::move(owners_)});
  owners_.clear();
  return [buffer retain];
}

void Stream::wait(Reason reason) {
  if (reason == Reason::kUser) ++counters().waits;
  if (!pending()) return;
  if (reason == Reason::kFallback) ++counters().fallback_waits;
  Finished finished;
  {
    std::lock_guard<std::mutex> lock(wait_mutex_);
    [commit(reason) release];
    finished = wait_for_committed(nil);
  }
  finished.report();
}

void Stream::wait_for(id<MTLCommandBuffer> last) {
  Finished finished;
  {
    std::lock_guard<std::mutex> lock(wait_mutex_);
    if (!is_committed(last)) return;
    finished = wait_for_committed(last);
  }
  finished.report();
}

void Stream::Finished::report() const {
  if (!error.empty()) throw std::runtime_error("MPS command buffer failed: " + error);
}

bool Stream::is_committed(id<MTLCommandBuffer> buffer) {
  StateLock lock(state_mutex_);
  for (const Committed& committed : committed_) {
    if (committed.buffer == buffer) return true;
  }
  return false;
}

Stream::Finished Stream::wait_for_committed(id<MTLCommandBuffer> last) {
  Finished finished;
  for (bool done = false; !done;) {
    id<MTLCommandBuffer> buffer = nil;
    {
      StateLock lock(state_mutex_);
      if (committed_.empty()) break;
      buffer = committed_.front().buffer;  // stays in the list: pending() must see it while it runs
    }
    [buffer waitUntilCompleted];
    if ([buffer status] != MTLCommandBufferStatusCompleted && finished.error.empty()) {
      finished.error = [[[buffer error] localizedDescription] UTF8String];
    }
    done = buffer == last;
    StateLock lock(state_mutex_);
    for (auto& owner : committed_.front().owners) finished.owners.push_back(std::move(owner));
    committed_.pop_front();
    pending_ = current_ || !committed_.empty();
    [buffer release];
  }
  return finished;
}

void Stream::commit_then(MTLCommandBufferHandler handler, std::shared_ptr<void> owner) {
  StateLock lock(state_mutex_);
  end_coalescing();
  [current() addCompletedHandler:handler];
  owners_.push_back(std::move(owner));
  [commit(Reason::kUser) release];
}

id<MTLCommandBuffer> Stream::current() {
  if (!current_) {
    current_ = [[command_queue_ commandBuffer] retain];
    pending_ = true;
  }
  return current_;
}

void Stream::end_coalescing() {
  if (!encoder_) return;
  [encoder_ endEncoding];
  [encoder_ release];
  encoder_ = nil;
}

void* command_buffer() {
  @autoreleasepool {
    return (void*)Stream::get().command_buffer();
  }
}

void* dispatch_queue() {
  return (void*)Stream::get().queue();
}

void commit(Reason reason) {
  @autoreleasepool {
    [Stream::get().commit(reason) release];
  }
}

void wait(Reason reason) {
  @autoreleasepool {
    Stream::get().wait(reason);
  }
}

bool pending() {
  return Stream::get().pending();
}

std::shared_ptr<Marker> Marker::record() {
  @autoreleasepool {
    return std::make_shared<Marker>((void*)Stream::get().commit(Reason::kUser, /*make_one=*/true));
  }
}

Marker::~Marker() {
  release(command_buffer_);
}

bool Marker::complete() const {
  return [(id<MTLCommandBuffer>)command_buffer_ status] >= MTLCommandBufferStatusCompleted;
}

void Marker::wait() const {
  @autoreleasepool {
    ++counters().waits;
    Stream::get().wait_for((id<MTLCommandBuffer>)command_buffer_);
  }
}

double Marker::gpu_end_time() const {
  return [(id<MTLCommandBuffer>)command_buffer_ GPUEndTime];
}

void copy_to_host_later(void* buffer, size_t offset, void* host, size_t length,
                        std::shared_ptr<void> owner) {
  @autoreleasepool {
    retain(buffer);
    auto copy = ^(id<MTLCommandBuffer>) {
      std::memcpy(host, static_cast<char*>(contents(buffer)) + offset, length);
      release(buffer);
    };
    Stream::get().commit_then(copy, std::move(owner));
  }
}

}  // namespace metal
}  // namespace softmps
