// A process that used MPS and then forks leaves a child in which MPS is unusable: Metal's threads
// and its connection to the GPU do not survive a fork. On a Mac the child hangs; here it gets an
// error.
#pragma once

namespace softmps {

void watch_for_fork();      // called once, when the device is first used
bool in_forked_child();     // the device was used before this process was forked
void require_not_forked();  // throws if so

}  // namespace softmps
