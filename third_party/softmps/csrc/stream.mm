#import <Foundation/Foundation.h>
#import <Metal/Metal.h>

#include <softmetal/softmetal.h>

#include "stream.h"

#include <algorithm>
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

// The program has waited for all up to `ticket`. Returns what it did too early, or "".
std::string end_of_wait(uint64_t ticket) {
  softmetal::waited_for(ticket);
  const std::string copies = finish_copies(ticket);
  for (const std::string& access : softmetal::take_early_accesses()) {
    return "MPS: " + access + ". Wait first: torch.mps.synchronize(), an event, .item(), .cpu()";
  }
  return copies.empty() ? "" : "MPS: " + copies;
}

void report(const std::string& failure, const std::string& misuse) {
  if (!failure.empty()) throw std::runtime_error("MPS command buffer failed: " + failure);
  if (!misuse.empty()) throw std::runtime_error(misuse);
}

}  // namespace

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
  softmetal::touched_by_kernels((void*)buffer, softmetal::next_ticket());
  try {
    [buffer commit];
  } catch (...) {
    [buffer release];
    pending_ = !committed_.empty();
    throw;
  }
  if (reason == Reason::kFallback) ++counters().fallback_commits;
  committed_.push_back(buffer);
  return [buffer retain];
}

void Stream::wait(Reason reason) {
  uint64_t ticket = softmetal::last_ticket();
  if (reason == Reason::kUser) count_wait();
  std::string error;
  if (pending()) {
    if (reason == Reason::kFallback) ++counters().fallback_waits;
    std::lock_guard<std::mutex> lock(wait_mutex_);
    [commit(reason) release];
    ticket = softmetal::last_ticket();  // the kernels have theirs from the commit
    error = wait_for_committed(nil);
  }
  report(error, reason == Reason::kUser ? end_of_wait(ticket) : "");
}

void Stream::wait_for(id<MTLCommandBuffer> last, uint64_t ticket) {
  std::string error;
  {
    std::lock_guard<std::mutex> lock(wait_mutex_);
    if (is_committed(last)) error = wait_for_committed(last);
  }
  report(error, end_of_wait(ticket));
}

bool Stream::is_committed(id<MTLCommandBuffer> buffer) {
  StateLock lock(state_mutex_);
  return std::find(committed_.begin(), committed_.end(), buffer) != committed_.end();
}

std::string Stream::wait_for_committed(id<MTLCommandBuffer> last) {
  softmetal::QuietWait not_the_programs;
  std::string error;
  for (bool done = false; !done;) {
    id<MTLCommandBuffer> buffer = nil;
    {
      StateLock lock(state_mutex_);
      if (committed_.empty()) break;
      buffer = committed_.front();  // stays in the list: pending() must see it while it runs
    }
    [buffer waitUntilCompleted];
    if ([buffer status] != MTLCommandBufferStatusCompleted && error.empty()) {
      error = [[[buffer error] localizedDescription] UTF8String];
    }
    done = buffer == last;
    StateLock lock(state_mutex_);
    committed_.pop_front();
    pending_ = current_ || !committed_.empty();
    [buffer release];
  }
  return error;
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
    id<MTLCommandBuffer> buffer = Stream::get().commit(Reason::kUser, /*make_one=*/true);
    return std::make_shared<Marker>((void*)buffer, softmetal::last_ticket());
  }
}

Marker::~Marker() {
  release(command_buffer_);
}

bool Marker::complete() const {
  if ([(id<MTLCommandBuffer>)command_buffer_ status] < MTLCommandBufferStatusCompleted)
    return false;
  report("", end_of_wait(ticket_));  // a program that has seen this need not wait
  return true;
}

void Marker::wait() const {
  @autoreleasepool {
    count_wait();
    Stream::get().wait_for((id<MTLCommandBuffer>)command_buffer_, ticket_);
  }
}

double Marker::gpu_end_time() const {
  return [(id<MTLCommandBuffer>)command_buffer_ GPUEndTime];
}

}  // namespace metal
}  // namespace softmps
