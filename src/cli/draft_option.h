// --draft, for the verbs that generate.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "generate/draft.h"

namespace weir::cli {

inline CLI::Option* add_draft(CLI::App& command, Draft& draft) {
  const auto set = [&draft](const std::string& name) {
    draft = name == "lookup" ? Draft::kLookup : name == "head" ? Draft::kHead : Draft::kOff;
  };
  return command
      .add_option_function<std::string>("--draft", set,
                                        "Guess further tokens, which one pass checks: lookup (what the text "
                                        "repeats), head (the checkpoint's multi-token prediction) or off; "
                                        "default: off")
      ->check(CLI::IsMember({"off", "lookup", "head"}))
      ->type_name("NAME");
}

}  // namespace weir::cli
