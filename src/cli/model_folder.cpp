#include "cli/model_folder.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "checkpoint/model_path.h"
#include "checkpoint/synthetic.h"

namespace weir::cli {

std::string pocket_folder() {
  std::error_code failed;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (!failed) {
    const std::filesystem::path installed = program.parent_path().parent_path() / "share" / "weir" / "models";
    if (std::filesystem::is_directory(installed, failed)) return installed.string();
  }
  return WEIR_SOURCE_MODELS;
}

std::string hub_cache() {
  return hub_cache_from([](const char* name) -> const char* { return std::getenv(name); });
}

Result<std::string> model_folder(const std::string& model) {
  ModelSearch search;
  search.pocket_folder = pocket_folder();
  search.hub_cache = hub_cache();
  return find_model(model, search);
}

Result<Checkpoint> open_checkpoint(const std::string& model) {
  if (model.starts_with(kSyntheticPrefix)) return synthetic_checkpoint(model);
  WEIR_TRY(const std::string folder, model_folder(model));
  return Checkpoint::open(folder);
}

}  // namespace weir::cli
