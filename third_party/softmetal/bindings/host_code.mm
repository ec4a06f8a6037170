// Small pieces of Objective-C++ host code that tests/softmetal/test_host_code.py calls: what such
// code relies on (exceptions of both languages, blocks as objects, dispatch queues, @available).
#include "wrappers.h"

#include <dispatch/dispatch.h>

#include <memory>
#include <vector>

namespace softmetal::bindings {
namespace {

void throw_ns() {
  [[NSArray array] objectAtIndex:3];
}
void throw_cxx() {
  throw std::out_of_range("thrown in C++");
}

struct Cleanup {
  std::vector<std::string>& log;
  ~Cleanup() { log.push_back("destructor"); }
};

// Who catches what in nested handlers of both languages. Returns the order of events.
std::vector<std::string> nested_handlers(bool cxx) {
  std::vector<std::string> log;
  try {
    Cleanup outer{log};
    @try {
      Cleanup inner{log};
      if (cxx) {
        throw_cxx();
      } else {
        throw_ns();
      }
    } @catch (NSException* e) {
      log.push_back("@catch " + std::string([[e name] UTF8String]));
      throw std::runtime_error("rethrown as C++");
    } @finally {
      log.push_back("@finally");
    }
  } catch (const std::exception& e) {
    log.push_back(std::string("catch ") + e.what());
  }
  return log;
}

// C++ handlers in Objective-C++: the first that matches is taken.
std::string cxx_handlers(const std::string& what) {
  try {
    if (what == "int") throw 3;
    if (what == "pointer") throw "text";
    if (what == "derived") throw std::out_of_range("derived");
    if (what == "rethrown") {
      try {
        throw std::out_of_range("rethrown");
      } catch (...) {
        std::rethrow_exception(std::current_exception());
      }
    }
    throw std::make_unique<int>(5);
  } catch (int i) {
    return "int " + std::to_string(i);
  } catch (const char* text) {
    return std::string("pointer ") + text;
  } catch (const std::logic_error& e) {
    return std::string("logic_error ") + e.what();
  } catch (...) {
    return "other";
  }
}

// An NSException passes frames with C++ handlers that do not concern it, and their cleanups.
std::vector<std::string> past_cxx_handlers() {
  std::vector<std::string> log;
  @try {
    try {
      Cleanup cleanup{log};
      throw_ns();
    } catch (const std::exception&) {
      log.push_back("std::exception");
    } catch (int) {
      log.push_back("int");
    }
  } @catch (NSString*) {
    log.push_back("@catch NSString");
  } @catch (id object) {
    log.push_back("@catch id " + std::string([[object name] UTF8String]));
  }
  return log;
}

std::string through_a_method() {
  // An exception of C++ passes the frames of Foundation's enumeration.
  NSArray* array = [NSArray arrayWithObjects:@"b", @"a", nil];
  try {
    for (NSString* item in array) {
      if ([item isEqualToString:@"a"]) throw std::runtime_error([item UTF8String]);
    }
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "";
}

[[gnu::noinline]] void must_not_throw() noexcept {
  throw_cxx();
}

// Blocks are objects: copied, kept in collections, autoreleased.
int blocks_as_objects() {
  __block int calls = 0;
  int step = 2;
  void (^block)(void) = ^{
    calls += step;
  };
  NSMutableArray* kept = [NSMutableArray array];
  [kept addObject:[[block copy] autorelease]];
  for (int i = 0; i < 3; ++i) [kept addObject:[kept objectAtIndex:0]];
  for (void (^each)(void) in kept) each();
  void (^copy)(void) = [block copy];
  copy();
  [copy release];
  return calls;
}

std::vector<int> queue_order() {
  dispatch_queue_t queue = dispatch_queue_create("order", DISPATCH_QUEUE_SERIAL);
  std::vector<int> order;
  std::vector<int>* out = &order;
  for (int i = 0; i < 8; ++i) {
    dispatch_async(queue, ^{
      out->push_back(i);
    });
  }
  dispatch_sync(queue, ^{
    out->push_back(8);
  });
  dispatch_release(queue);
  return order;
}

void nested_sync() {
  dispatch_queue_t queue = dispatch_queue_create("nested", DISPATCH_QUEUE_SERIAL);
  std::exception_ptr error;
  std::exception_ptr* out = &error;
  dispatch_sync(queue, ^{
    try {
      dispatch_sync(queue, ^{
                    });
    } catch (...) {
      *out = std::current_exception();
    }
  });
  dispatch_release(queue);
  if (error) std::rethrow_exception(error);
}

void leave_block(bool cxx) {
  dispatch_queue_t queue = dispatch_queue_create("gpu stream", DISPATCH_QUEUE_SERIAL);
  dispatch_sync(queue, ^{
    if (cxx) {
      throw_cxx();
    } else {
      throw_ns();
    }
  });
}

// A completed handler signals a semaphore that the host waits for.
bool wait_with_semaphore() {
  id<MTLDevice> device = MTLCreateSystemDefaultDevice();
  id<MTLCommandQueue> queue = [device newCommandQueue];
  dispatch_semaphore_t done = dispatch_semaphore_create(0);
  id<MTLCommandBuffer> buffer = [queue commandBuffer];
  [buffer addCompletedHandler:^(id<MTLCommandBuffer>) {
    dispatch_semaphore_signal(done);
  }];
  [buffer commit];
  const bool signalled =
      dispatch_semaphore_wait(done, dispatch_time(DISPATCH_TIME_NOW, 60 * NSEC_PER_SEC)) == 0;
  [buffer waitUntilCompleted];  // the handler has returned
  dispatch_release(done);
  [queue release];
  [device release];
  return signalled;
}

bool macos_15_is_available() {
  if (@available(macOS 15.0, *)) return true;
  return false;
}

}  // namespace

void bind_host_code(py::module_& m) {
  m.def("nested_handlers", [](bool cxx) { return pooled([&] { return nested_handlers(cxx); }); });
  m.def("cxx_handlers", &cxx_handlers);
  m.def("past_cxx_handlers", [] { return pooled([] { return past_cxx_handlers(); }); });
  m.def("through_a_method", [] { return pooled([] { return through_a_method(); }); });
  m.def("must_not_throw", &must_not_throw);
  m.def("throw_ns", [] { pooled([] { throw_ns(); }); });
  m.def("blocks_as_objects", [] { return pooled([] { return blocks_as_objects(); }); });
  m.def("queue_order", [] { return pooled([] { return queue_order(); }); });
  m.def("nested_sync", [] { pooled([] { nested_sync(); }); });
  m.def("leave_block", [](bool cxx) { pooled([&] { leave_block(cxx); }); });
  m.def("wait_with_semaphore", [] { return pooled([] { return wait_with_semaphore(); }); });
  m.def("macos_15_is_available", &macos_15_is_available);
}

}  // namespace softmetal::bindings
