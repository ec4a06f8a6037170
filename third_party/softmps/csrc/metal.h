// The Metal half of softmps as its PyTorch half sees it. Implemented in the .mm files, which
// include no PyTorch header; a `void*` here is an Objective-C object.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace softmps::metal {

// Buffers (device.mm). All are MTLStorageModeShared, as PyTorch allocates them since 2.12.
void* new_buffer(size_t length);   // id<MTLBuffer>, retained; nullptr when Metal has no memory left
void* own_contents(void* buffer);  // for operators that run on the CPU: always accessible
void* contents(void* buffer);      // for the host: -[MTLBuffer contents]
uint64_t gpu_address(void* buffer);
size_t length(void* buffer);
void retain(void* buffer);
void release(void* buffer);
std::string device_name();
size_t recommended_max_working_set();
size_t max_buffer_length();
void trim();  // gives the memory of released buffers back to the system

// The one stream (stream.mm): a current command buffer, made on demand.
enum class Reason {
  kUser,      // synchronize(), commit(), an event, a copy between host and device
  kFallback,  // an operation that a Mac runs on the GPU and that runs on the CPU here
};
void* command_buffer();  // id<MTLCommandBuffer>, owned by the stream
void* dispatch_queue();  // dispatch_queue_t
void commit(Reason reason);
void wait(Reason reason);  // commits, waits for everything, throws what the kernels raised
bool pending();            // encoded or committed work that nobody has waited for

// Work for the device is numbered, so that a wait can tell what it covers. A host access to the
// contents of a buffer that is too early for what touched it is told at the next wait.
uint64_t next_ticket();
void touched(void* buffer, bool written, const char* by, uint64_t ticket);

// A point in the stream: complete when all work that was encoded before it is.
class Marker {
 public:
  static std::shared_ptr<Marker> record();  // commits, as recording an event does on a Mac
  Marker(void* command_buffer, uint64_t ticket)
      : command_buffer_(command_buffer), ticket_(ticket) {}
  ~Marker();
  Marker(const Marker&) = delete;
  Marker& operator=(const Marker&) = delete;
  bool complete() const;
  void wait() const;            // throws what the kernels before it raised
  double gpu_end_time() const;  // seconds
 private:
  void* command_buffer_;
  uint64_t ticket_;
};

// torch.mps.compile_shader (shader_library.mm).
using Bytes = std::vector<char>;
struct BufferArgument {
  void* buffer;
  size_t offset;
};
using Argument = std::variant<BufferArgument, Bytes>;
using Size = std::vector<uint64_t>;  // one to three dimensions

class Kernel {
 public:
  explicit Kernel(void* pipeline) : pipeline_(pipeline) {}
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  uint64_t max_threads_per_threadgroup() const;
  uint64_t thread_execution_width() const;
  uint64_t static_threadgroup_memory_length() const;
  void dispatch(const std::vector<Argument>& arguments, const Size& threads,
                const Size& group_size) const;

 private:
  void* pipeline_;
};

class ShaderLibrary {
 public:
  explicit ShaderLibrary(const std::string& source);  // throws with the compiler's text
  ~ShaderLibrary();
  ShaderLibrary(const ShaderLibrary&) = delete;
  ShaderLibrary& operator=(const ShaderLibrary&) = delete;
  std::vector<std::string> function_names() const;
  std::shared_ptr<Kernel> kernel(const std::string& name) const;  // throws if there is none

 private:
  void* library_;
};

}  // namespace softmps::metal

namespace softmps {

// Of the PyTorch half (unfinished_copies.cpp), for the Metal half: the program has waited for all
// up to `ticket`. Returns what it did wrong meanwhile, or "".
std::string finish_copies(uint64_t ticket);

}  // namespace softmps
