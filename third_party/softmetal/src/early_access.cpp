#include "early_access.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <vector>

#include "arena.h"
#include "faults.h"
#include "memory.h"
#include "process.h"
#include "softmetal/softmetal.h"

namespace softmetal {
namespace {

constexpr int kAll = PROT_READ | PROT_WRITE;
// Each costs up to two of the 65,530 memory maps that Linux allows.
constexpr size_t kMaxGuarded = 8192;

// Taken after the lock of memory.cpp. A signal handler may take it: no code that holds it touches
// the cpu view.
std::mutex g_lock;
std::atomic<Ticket> g_last{0};
Ticket g_waited = 0;
auto& g_guarded = *new std::vector<Memory*>;

struct Freed {
  size_t block, bytes, length;
};
auto& g_freed = *new std::vector<Freed>;

struct Found {
  const char* by;  // nullptr: the buffer was released
  bool by_writes;
  bool write;
  size_t offset, length;
  const void* instruction;
};
std::array<Found, 8> g_found;  // a handler should not allocate; later ones say nothing new
size_t g_found_count = 0;

// initial-exec: reading them in a signal handler never allocates.
__attribute__((tls_model("initial-exec"))) thread_local int t_in_handler = 0;
__attribute__((tls_model("initial-exec"))) thread_local int t_quiet = 0;

int wanted(const HostAccess& host) {
  if (host.written > g_waited) return PROT_NONE;
  return host.read > g_waited ? PROT_READ : kAll;
}

// "memcpy (libc.so.6)"
std::string function_at(const void* instruction) {
  Dl_info info;
  if (!dladdr(instruction, &info)) return "";
  std::string file = info.dli_fname ? info.dli_fname : "";
  file = file.substr(file.rfind('/') + 1);
  return info.dli_sname ? std::string(info.dli_sname) + " (" + file + ")" : file;
}

std::string describe(const Found& found) {
  std::string text = std::string("the host ") + (found.write ? "wrote to" : "read") +
                     " byte offset " + std::to_string(found.offset) + " of the contents of a ";
  if (!found.by) {
    text += "released buffer (" + std::to_string(found.length) + " bytes)";
  } else {
    text += "buffer (" + std::to_string(found.length) + " bytes) before the program waited for '" +
            found.by + "', which " + (found.by_writes ? "writes to it" : "reads it");
  }
  const std::string function = function_at(found.instruction);
  return function.empty() ? text : text + ", in " + function;
}

void say(const char* text) {
  ssize_t ignored = write(STDERR_FILENO, text, std::char_traits<char>::length(text));
  (void)ignored;
}

}  // namespace

// What needs the private members of Memory.
struct EarlyAccess::Guard {
  static char* begin(const Memory& m) { return Arena::get().cpu() + m.block_; }
  static size_t bytes(const Memory& m) { return m.block_pages_ * page_size(); }

  static void protect(Memory& m, int protection) {
    HostAccess& host = m.host_;
    if (host.protection == protection) return;
    if (protection != kAll) claim_signals();               // somebody may have taken them since
    if (mprotect(begin(m), bytes(m), protection)) return;  // no memory maps left: unguarded
    host.protection = protection;
  }

  static void apply(Memory& m) {
    HostAccess& host = m.host_;
    const int protection = wanted(host);
    if (protection == kAll) {
      remove(m);
    } else if (host.guarded || add(m)) {
      protect(m, protection);
    }
  }

  static bool add(Memory& m) {
    if (g_guarded.size() >= kMaxGuarded) return false;
    m.host_.guarded = true;
    m.host_.guarded_at = g_guarded.size();
    g_guarded.push_back(&m);
    return true;
  }

  static void remove(Memory& m) {
    HostAccess& host = m.host_;
    if (!host.guarded) return;
    protect(m, kAll);
    host.guarded = false;
    g_guarded[host.guarded_at] = g_guarded.back();
    g_guarded[host.guarded_at]->host_.guarded_at = host.guarded_at;
    g_guarded.pop_back();
  }

  static bool holds(const Memory& m, size_t offset) {
    return offset >= m.block_ && offset < m.block_ + bytes(m);
  }
};

Ticket EarlyAccess::last() {
  return g_last;
}

Ticket EarlyAccess::next() {
  return ++g_last;
}

void EarlyAccess::touch(Memory& memory, bool written, const char* by, Ticket ticket) {
  if (!memory.block_pages_) return;  // newBufferWithBytesNoCopy: has one view
  std::lock_guard<std::mutex> lock(g_lock);
  HostAccess& host = memory.host_;
  (written ? host.written : host.read) = ticket;
  (written ? host.writer : host.reader) = by;
  if (host.exposed) Guard::apply(memory);
}

void EarlyAccess::waited_for(Ticket ticket) {
  std::lock_guard<std::mutex> lock(g_lock);
  if (ticket <= g_waited) return;
  g_waited = ticket;
  for (size_t i = g_guarded.size(); i-- > 0;) Guard::apply(*g_guarded[i]);
}

void EarlyAccess::expose(Memory& memory) {
  if (!memory.block_pages_) return;
  const bool guarding = settings().early_access != EarlyAccesses::allow;
  std::lock_guard<std::mutex> lock(g_lock);
  HostAccess& host = memory.host_;
  if (host.exposed || !guarding) return;
  host.exposed = true;
  host.protection = kAll;
  Guard::apply(memory);
}

void EarlyAccess::release(Memory& memory) {
  std::lock_guard<std::mutex> lock(g_lock);
  if (!memory.host_.exposed) return;
  Guard::remove(memory);
  Guard::protect(memory, PROT_NONE);
  memory.host_.exposed = false;
  g_freed.push_back({memory.block_, Guard::bytes(memory), memory.length_});
}

void EarlyAccess::forget(size_t block) {
  std::lock_guard<std::mutex> lock(g_lock);
  auto freed = std::find_if(g_freed.begin(), g_freed.end(),
                            [&](const Freed& f) { return f.block == block; });
  if (freed == g_freed.end()) return;
  mprotect(Arena::get().cpu() + block, freed->bytes, kAll);
  *freed = g_freed.back();
  g_freed.pop_back();
}

void EarlyAccess::protect_again() {
  std::lock_guard<std::mutex> lock(g_lock);
  for (Memory* m : g_guarded) {
    m->host_.protection = kAll;
    Guard::apply(*m);
  }
  for (const Freed& f : g_freed) mprotect(Arena::get().cpu() + f.block, f.bytes, PROT_NONE);
}

bool EarlyAccess::admit(const void* address, bool write, const void* instruction) {
  Arena& arena = Arena::get();
  if (!arena.in_cpu(address)) return false;
  if (settings().early_access == EarlyAccesses::stop && !t_in_handler) return false;
  const size_t offset = static_cast<const char*>(address) - arena.cpu();
  Found found{nullptr, false, write, 0, 0, instruction};
  bool guilty = false;
  std::lock_guard<std::mutex> lock(g_lock);
  for (Memory* m : g_guarded) {
    if (!Guard::holds(*m, offset)) continue;
    found.by_writes = m->host_.written > g_waited;
    found.by = found.by_writes ? m->host_.writer : m->host_.reader;
    found.offset = static_cast<const char*>(address) - m->cpu_;
    found.length = m->length_;
    guilty = !t_in_handler;
    Guard::remove(*m);
    break;
  }
  for (const Freed& freed : g_freed) {
    if (offset < freed.block || offset >= freed.block + freed.bytes) continue;
    found.offset = offset - freed.block;
    found.length = freed.length;
    guilty = true;
    mprotect(arena.cpu() + freed.block, freed.bytes, kAll);
    break;
  }
  if (guilty && g_found_count < g_found.size()) {
    g_found[g_found_count++] = found;
    say("softmetal: the host used the contents of a buffer that it may not use yet, or any more; "
        "the next wait says which\n");
  }
  // Neither: another thread has made it accessible since the fault.
  return true;
}

InHandler::InHandler() {
  ++t_in_handler;
}
InHandler::~InHandler() {
  --t_in_handler;
}

bool waits_quietly() {
  return t_quiet > 0;
}

QuietWait::QuietWait() {
  ++t_quiet;
}
QuietWait::~QuietWait() {
  --t_quiet;
}

std::vector<std::string> take_early_accesses() {
  std::array<Found, 8> found;
  size_t count = 0;
  {
    std::lock_guard<std::mutex> lock(g_lock);
    found = g_found;
    std::swap(count, g_found_count);
  }
  std::vector<std::string> texts;
  for (size_t i = 0; i < count; ++i) texts.push_back(describe(found[i]));
  return texts;
}

uint64_t last_ticket() {
  return EarlyAccess::last();
}

uint64_t next_ticket() {
  return EarlyAccess::next();
}

void waited_for(uint64_t ticket) {
  if (!forked()) EarlyAccess::waited_for(ticket);
}

}  // namespace softmetal
