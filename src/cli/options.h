// Flags that several verbs share. A flag that is not given takes its value from the environment (WEIR_MODEL
// for --model, and so on), and otherwise its default.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cpu_features.h"
#include "base/result.h"
#include "generate/sampling.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace weir::cli {

struct ModelOptions {
  std::string model = "pocket-qwen";

  void add(CLI::App& command);
};

struct BackendOptions {
  std::string device = "cpu";
  std::string isa;      // empty: the best that the CPU has
  int64_t threads = 0;  // 0: as many as this process may run on
  int64_t chunk = 512;  // most rows of one pass

  void add(CLI::App& command);

  Result<Isa> chosen_isa() const;
  int chosen_threads() const;
};

struct SamplingOptions {
  std::optional<float> temperature;
  std::optional<int> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> presence_penalty;
  std::optional<float> frequency_penalty;
  std::optional<float> repetition_penalty;
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  std::vector<std::string> logit_bias;  // "ID=B"
  int64_t max_tokens = 0;               // 0: until the context is full

  void add(CLI::App& command);

  // `defaults` with the given flags put over them. Without --seed the seed is drawn from the system, so that
  // answers differ. Errors: kInvalidArgument.
  Result<Sampling> over(Sampling defaults) const;
};

// Error: kInvalidArgument for what is no whole number of 64 bits.
Result<uint64_t> parse_seed(std::string_view text);

// --think and --no-think; `think` stays unset when neither is given.
CLI::Option* add_think(CLI::App& command, std::optional<bool>& think, const std::string& help);

// A flag that takes a count such as 4096 or 32k (cli/quantity.h), in [least, most].
CLI::Option* add_count(CLI::App& command, const std::string& name, int64_t& value, int64_t least,
                       const std::string& help, int64_t most = std::numeric_limits<int64_t>::max());

}  // namespace weir::cli
