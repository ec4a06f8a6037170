// Runs a program and collects what it prints.
#pragma once
#include <string>
#include <vector>

namespace softmetal {

struct ProcessResult {
  int status = -1;     // exit status; -1: could not be started, or killed
  std::string output;  // stdout and stderr
};

ProcessResult run_process(const std::vector<std::string>& command);

}  // namespace softmetal
