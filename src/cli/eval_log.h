// The results file of an evaluation: its settings in the first line, then one line for each problem done. An
// interrupted evaluation goes on where it stopped.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <string>

#include "base/file_lock.h"
#include "base/result.h"
#include "cli/json_report.h"
#include "generate/generation.h"

namespace weir::cli {

struct EvalResult {
  int64_t index = 0;  // of the problem in its file, from 0
  std::string expected;
  std::string found;  // empty: no number in the answer
  std::string answer;
  std::string finish_reason;
  int64_t prompt_tokens = 0;
  int64_t generated_tokens = 0;
  double prefill_seconds = 0;
  double decode_seconds = 0;
  int64_t denoising_passes = 0, canvases = 0, canvas_rows = 0;  // block diffusion

  bool correct() const { return found == expected; }
};

class EvalLog {
 public:
  // Without a path nothing is kept. Otherwise reads what the file holds; a line that was cut off at its end
  // by a crash is dropped. Errors: kInvalidArgument when the file's settings differ, naming the first that
  // does; kCorrupt; kNotFound when it cannot be written; kBusy when another evaluation is writing it.
  static Result<EvalLog> open(const std::string& path, const Report& settings);

  const std::map<int64_t, EvalResult>& results() const { return results_; }

  // Error: kInternal when the file cannot be written.
  Status add(EvalResult result);

 private:
  Status read(std::ifstream& file, const Report& settings, uintmax_t& good_bytes);

  FileLock lock_;
  std::string path_;
  std::ofstream file_;
  std::map<int64_t, EvalResult> results_;  // by index
};

}  // namespace weir::cli
