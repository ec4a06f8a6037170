// Accesses of the host to the contents of a buffer which work that nobody has waited for uses.
//
// On a GPU they race. Here that work may be over already, because it ran on the CPU at once or the
// device was quick, so nothing would show. Therefore the cpu view of such a buffer is inaccessible
// (the work writes to it) or read-only (it reads from it) until the program has waited. That costs
// nothing for buffers whose contents nobody asked for.
//
// The contents of a released buffer stay inaccessible while its block rests.
#pragma once
#include <cstddef>
#include <cstdint>

namespace softmetal {

class Memory;

using Ticket = uint64_t;  // counts what was handed to the device; 0: nothing

// What a Memory knows about it. Guarded by a lock of early_access.cpp.
struct HostAccess {
  bool exposed = false;     // the host was given the address of the contents
  Ticket written = 0;       // the last work that writes to it,
  Ticket read = 0;          // and that reads from it,
  const char* writer = "";  // and their names
  const char* reader = "";
  int protection = 0;  // of the cpu view: PROT_...
  bool guarded = false;
  size_t guarded_at = 0;  // place in the list of those that are
};

class EarlyAccess {
 public:
  static Ticket last();
  static Ticket next();
  static void touch(Memory& memory, bool written, const char* by, Ticket ticket);
  static void waited_for(Ticket ticket);
  static void expose(Memory& memory);

  // For memory.cpp: the buffer was released; its block may be used again.
  static void release(Memory& memory);
  static void forget(size_t block);
  static void protect_again();  // HiddenContents has made all of the view accessible

  // In a signal handler: true when the access is to be tried again.
  static bool admit(const void* address, bool write, const void* instruction);

 private:
  struct Guard;
};

// While it lives, this thread may access everything: handlers of a command buffer run when the work
// before it is done.
class InHandler {
 public:
  InHandler();
  ~InHandler();
};

// In a QuietWait, nothing that this thread waits for counts.
bool waits_quietly();

}  // namespace softmetal
