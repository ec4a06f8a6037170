// torch.mps.Event: a table of markers in the stream.
#pragma once

#include <cstdint>

namespace softmps::events {

uint32_t acquire(bool enable_timing);
void release(uint32_t id);
void record(uint32_t id);
void wait(uint32_t id);         // the stream waits: with one stream, order does that
void synchronize(uint32_t id);  // the program waits
bool query(uint32_t id);
double elapsed_milliseconds(uint32_t start_id, uint32_t end_id);

}  // namespace softmps::events
