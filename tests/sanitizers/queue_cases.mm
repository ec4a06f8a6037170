// Several threads of the host, several queues, and several processes with one cache.
#include <dispatch/dispatch.h>
#include <softmetal/softmetal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "exercise.h"

extern char** environ;

namespace {

void on_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      @autoreleasepool {
        body(i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void encode_add_one(Host& host, id<MTLCommandBuffer> commands, id<MTLComputePipelineState> pipeline,
                    id<MTLBuffer> x, size_t n) {
  (void)host;
  id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
  [encoder setComputePipelineState:pipeline];
  [encoder setBuffer:x offset:0 atIndex:0];
  [encoder dispatchThreads:MTLSizeMake(n, 1, 1) threadsPerThreadgroup:MTLSizeMake(32, 1, 1)];
  [encoder endEncoding];
}

// Each thread has a queue, all share the device, the library, the pipelines and the workers.
void a_queue_for_each_thread() {
  Host host;
  Owned<id<MTLComputePipelineState>> pipeline(host.pipeline("add_one"));
  on_threads(4, [&](int) {
    Owned<id<MTLCommandQueue>> queue([host.device.get() newCommandQueue]);
    Owned<id<MTLBuffer>> x(host.floats(1000, 0));
    id<MTLCommandBuffer> last = nil;
    for (int i = 0; i < 30; ++i) {
      last = [queue.get() commandBuffer];
      encode_add_one(host, last, pipeline, x, 1000);
      [last commit];
    }
    [last waitUntilCompleted];
    require(floats_of(x)[999] == 30, "dispatches were lost or ran out of order");
  });
}

// One queue, from which all threads take command buffers; more than it has at a time.
void threads_share_a_queue() {
  Host host;
  Owned<id<MTLCommandQueue>> queue([host.device.get() newCommandQueueWithMaxCommandBufferCount:8]);
  Owned<id<MTLComputePipelineState>> pipeline(host.pipeline("add_one"));
  on_threads(4, [&](int) {
    Owned<id<MTLBuffer>> x(host.floats(300, 0));
    for (int i = 0; i < 20; ++i) {
      @autoreleasepool {
        id<MTLCommandBuffer> commands = [queue.get() commandBuffer];
        encode_add_one(host, commands, pipeline, x, 300);
        [commands commit];
        [commands waitUntilCompleted];
        require([commands status] == MTLCommandBufferStatusCompleted, "not completed");
      }
    }
    require(floats_of(x)[0] == 20, "dispatches were lost");
  });
}

// Handlers run on the queue's thread, before whoever waits goes on.
void handlers() {
  Host host;
  Owned<id<MTLComputePipelineState>> pipeline(host.pipeline("add_one"));
  Owned<id<MTLBuffer>> x(host.floats(100, 0));
  std::atomic<int> scheduled{0}, completed{0};
  std::atomic<int>*scheduled_here = &scheduled, *completed_here = &completed;
  int plain = 0, *plain_here = &plain;  // ordered by the wait alone
  for (int i = 0; i < 30; ++i) {
    @autoreleasepool {
      id<MTLCommandBuffer> commands = [host.queue.get() commandBuffer];
      [commands addScheduledHandler:^(id<MTLCommandBuffer>) {
        ++*scheduled_here;
      }];
      [commands addCompletedHandler:^(id<MTLCommandBuffer> done) {
        if ([done error] == nil) ++*completed_here;
        ++*plain_here;
      }];
      encode_add_one(host, commands, pipeline, x, 100);
      [commands commit];
      if (i % 3 == 0) {
        [commands waitUntilCompleted];
        require(plain == i + 1, "the wait ended before the handlers");
      }
    }
  }
  id<MTLCommandBuffer> last = [host.queue.get() commandBuffer];
  [last commit];
  [last waitUntilCompleted];
  require(scheduled == 30 && completed == 30 && plain == 30, "a handler did not run");
}

// Buffers, labels and queues go while work that uses them is pending.
void owners_let_go() {
  Host host;
  Owned<id<MTLComputePipelineState>> pipeline(host.pipeline("add_one"));
  on_threads(3, [&](int) {
    for (int i = 0; i < 20; ++i) {
      @autoreleasepool {
        Owned<id<MTLCommandQueue>> queue([host.device.get() newCommandQueue]);
        id<MTLCommandBuffer> commands = [queue.get() commandBuffer];
        [commands setLabel:[NSString stringWithFormat:@"round %d", i]];
        {
          Owned<id<MTLBuffer>> x(host.floats(500, 0));
          encode_add_one(host, commands, pipeline, x, 500);
        }
        [commands commit];
        if (i % 2) [commands waitUntilCompleted];
      }
    }
  });
}

// Counters and settings are asked for while work runs.
void counters_and_settings() {
  Host host;
  Owned<id<MTLComputePipelineState>> pipeline(host.pipeline("add_one"));
  softmetal::reset_counters();
  std::atomic<bool> stop{false};
  std::thread watcher([&] {
    while (!stop) {
      (void)softmetal::counters();
      softmetal::set_settings(softmetal::settings());
      softmetal::trim();
    }
  });
  on_threads(2, [&](int) {
    Owned<id<MTLCommandQueue>> queue([host.device.get() newCommandQueue]);
    Owned<id<MTLBuffer>> x(host.floats(200, 0));
    for (int i = 0; i < 40; ++i) {
      @autoreleasepool {
        id<MTLCommandBuffer> commands = [queue.get() commandBuffer];
        encode_add_one(host, commands, pipeline, x, 200);
        [commands commit];
        [commands waitUntilCompleted];
      }
    }
  });
  stop = true;
  watcher.join();
  require(softmetal::counters().dispatches == 80, "dispatches were not counted");
}

void dispatch_queues() {
  dispatch_queue_t queue = dispatch_queue_create("a queue", nullptr);
  int sum = 0, *sum_here = &sum;
  on_threads(4, [&](int) {
    for (int i = 0; i < 50; ++i) {
      dispatch_sync(queue, ^{
        ++*sum_here;
      });
      if (i % 10 == 0) {
        dispatch_async(queue, ^{
          ++*sum_here;
        });
      }
    }
  });
  dispatch_sync(queue, ^{
    ++*sum_here;
  });
  require(sum == 4 * 55 + 1, "a block did not run");
  dispatch_release(queue);
}

// Four processes that start with an empty cache and compile the same source at once.
void processes_share_a_cache() {
  char folder[] = "/tmp/softmetal-cache-XXXXXX";
  require(mkdtemp(folder) != nullptr, "no folder");
  setenv("SOFTMETAL_CACHE", folder, 1);
  char program[4096];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  require(length > 0, "/proc/self/exe");
  program[length] = 0;
  char case_name[] = "arithmetic";
  std::vector<pid_t> children(4);
  for (pid_t& child : children) {
    char* arguments[] = {program, case_name, nullptr};
    require(posix_spawn(&child, program, nullptr, nullptr, arguments, environ) == 0, "spawn");
  }
  int failed = 0;
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    failed += status != 0;
  }
  [[NSFileManager defaultManager] removeItemAtPath:[NSString stringWithUTF8String:folder]
                                             error:nullptr];
  require(failed == 0, std::to_string(failed) + " processes failed");
}

}  // namespace

void add_queue_cases(Cases& cases) {
  cases["a_queue_for_each_thread"] = a_queue_for_each_thread;
  cases["threads_share_a_queue"] = threads_share_a_queue;
  cases["handlers"] = handlers;
  cases["owners_let_go"] = owners_let_go;
  cases["counters_and_settings"] = counters_and_settings;
  cases["dispatch_queues"] = dispatch_queues;
  cases["processes_share_a_cache"] = processes_share_a_cache;
}
