#include "cli/model_identity.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>
#include <system_error>

namespace weir::cli {
namespace {

namespace fs = std::filesystem;

bool shapes_states(const fs::path& file) {
  return file.extension() == ".safetensors" || file.filename() == "config.json" ||
         file.filename() == "tokenizer.json";
}

}  // namespace

Result<std::string> model_identity(const std::string& folder) {
  std::set<std::string> files;  // in the order of their names
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const fs::path& file = at->path();
    if (!shapes_states(file)) continue;
    const auto size = fs::file_size(file, error);
    if (error) break;
    const auto changed = fs::last_write_time(file, error);
    if (error) break;
    files.insert(fmt::format("{} {} {}", file.filename().string(), size, changed.time_since_epoch().count()));
  }
  if (error) return Error{Code::kNotFound, fmt::format("cannot read {}: {}", folder, error.message()), ""};
  return fmt::format("{}", fmt::join(files, ", "));
}

}  // namespace weir::cli
