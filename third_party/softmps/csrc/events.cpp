#include "events.h"

#include <c10/util/Exception.h>

#include <map>
#include <memory>
#include <mutex>

#include "metal.h"

namespace softmps::events {
namespace {

struct Event {
  bool enable_timing = false;
  std::shared_ptr<metal::Marker> marker;  // nullptr until recorded
};

std::mutex mutex;
uint32_t last_id = 0;

std::map<uint32_t, Event>& table() {
  static auto* events = new std::map<uint32_t, Event>;  // leaked: events are released at exit
  return *events;
}

Event& locked_event(uint32_t id) {
  auto found = table().find(id);
  TORCH_CHECK(found != table().end(), "Invalid Event ID: ", id);
  return found->second;
}

Event event(uint32_t id) {
  std::lock_guard<std::mutex> lock(mutex);
  return locked_event(id);
}

}  // namespace

uint32_t acquire(bool enable_timing) {
  std::lock_guard<std::mutex> lock(mutex);
  table()[++last_id].enable_timing = enable_timing;
  return last_id;
}

void release(uint32_t id) {
  std::lock_guard<std::mutex> lock(mutex);
  locked_event(id);
  table().erase(id);
}

void record(uint32_t id) {
  event(id);
  auto marker = metal::Marker::record();
  std::lock_guard<std::mutex> lock(mutex);
  locked_event(id).marker = std::move(marker);
}

void wait(uint32_t id) {
  event(id);
  metal::commit(metal::Reason::kUser);
}

void synchronize(uint32_t id) {
  if (auto marker = event(id).marker) marker->wait();
}

bool query(uint32_t id) {
  auto marker = event(id).marker;
  return marker && marker->complete();
}

double elapsed_milliseconds(uint32_t start_id, uint32_t end_id) {
  metal::wait(metal::Reason::kUser);
  const Event start = event(start_id), end = event(end_id);
  TORCH_CHECK(start.enable_timing && end.enable_timing && start.marker && end.marker,
              "Events were not created with argument 'enable_timing=True'");
  const double seconds = end.marker->gpu_end_time() - start.marker->gpu_end_time();
  TORCH_CHECK(seconds > 0, "End event ", end_id, " was not recorded after start event ", start_id);
  return seconds * 1e3;
}

}  // namespace softmps::events
