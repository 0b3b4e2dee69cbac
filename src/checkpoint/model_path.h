// From what a user calls a model to the folder that holds it. Nothing is downloaded.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace weir {

struct ModelSearch {
  std::string pocket_folder;  // holds pocket-qwen and pocket-gemma; empty: pocket names are not known
  std::string hub_cache;      // Hugging Face's "hub" folder; empty: no cache to look into
};

// Value of a variable, null when it is not set; std::getenv has this shape.
using VariableLookup = std::function<const char*(const char*)>;

// Where the hub client keeps its cache: HF_HUB_CACHE, else HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub,
// else HOME/.cache/huggingface/hub. Empty values count as not set, and a leading "~/" is HOME. Nothing when
// none is set.
std::string hub_cache_from(const VariableLookup& variable);

// `reference` is, in this order:
//   a folder                      "models/mine", "/data/qwen", "."
//   a pocket model                "pocket-qwen", "pocket-gemma"
//   a repository in the hub cache "org/name" or "org/name@revision" (branch, tag or commit; "main" if not
//   given)
// Returns the folder; whether it holds a model is for Checkpoint::open to say. Errors: kInvalidArgument for a
// file or for what cannot be a name; kNotFound, listing where it looked.
Result<std::string> find_model(std::string_view reference, const ModelSearch& search);

}  // namespace weir
