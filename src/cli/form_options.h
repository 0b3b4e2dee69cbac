// Flags about the form of an answer: JSON of a schema, and how long the model may think.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/answer.h"
#include "cli/engine.h"

namespace CLI {
class App;
}  // namespace CLI

namespace weir::cli {

class FormOptions {
 public:
  void add(CLI::App& command);

  // Puts what was given into the turn. `think` is what --think or --no-think said. Errors: kInvalidArgument
  // for flags that contradict each other and for a diffusion model, which neither reaches; those of
  // MappedFile::open, parse_json and answer_grammar.
  Status over(const Engine& engine, std::optional<bool> think, TurnOptions& turn) const;

 private:
  std::string schema_;
  int64_t think_budget_ = -1;  // -1: no limit
};

}  // namespace weir::cli
