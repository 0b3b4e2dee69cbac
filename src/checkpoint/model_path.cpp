#include "checkpoint/model_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <vector>

#include "checkpoint/quote.h"

namespace weir {
namespace {

constexpr const char* kHowToName =
    "give a folder, pocket-qwen, pocket-gemma, or the org/name[@revision] of a repository in the Hugging "
    "Face cache";

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
         c == '.';
}

// Also keeps "..", and with it any way out of the cache, out of the paths built from it.
bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 128 && std::all_of(text.begin(), text.end(), is_name_character) &&
         text.front() != '.' && text.find("..") == std::string_view::npos;
}

// A branch may have slashes, as in "refs/pr/3".
bool is_revision(std::string_view text) {
  while (true) {
    const size_t slash = text.find('/');
    if (!is_name(text.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    text.remove_prefix(slash + 1);
  }
}

struct Repository {
  std::string_view organisation;
  std::string_view name;
  std::string_view revision = "main";
};

std::optional<Repository> parse_repository(std::string_view reference) {
  Repository repository;
  const size_t at = reference.find('@');
  if (at != std::string_view::npos) {
    repository.revision = reference.substr(at + 1);
    reference = reference.substr(0, at);
  }
  const size_t slash = reference.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  repository.organisation = reference.substr(0, slash);
  repository.name = reference.substr(slash + 1);
  const bool valid =
      is_name(repository.organisation) && is_name(repository.name) && is_revision(repository.revision);
  return valid ? std::optional(repository) : std::nullopt;
}

// The commit that the cache has recorded for a branch or tag.
std::optional<std::string> read_ref(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  std::ifstream file(path);
  std::string commit;
  file >> std::setw(64) >> commit;
  return is_name(commit) ? std::optional(commit) : std::nullopt;
}

// Appends every place it looks into to `looked`.
std::optional<std::string> find_in_cache(const Repository& repository, const std::string& hub_cache,
                                         std::vector<std::string>& looked) {
  const std::string folder =
      fmt::format("{}/models--{}--{}", hub_cache, repository.organisation, repository.name);
  if (!is_folder(folder)) {
    looked.push_back(folder);
    return std::nullopt;
  }
  const std::string ref = fmt::format("{}/refs/{}", folder, repository.revision);
  const auto commit = read_ref(ref);
  if (!commit) looked.push_back(ref);
  const std::string snapshot = fmt::format("{}/snapshots/{}", folder, commit ? *commit : repository.revision);
  if (is_folder(snapshot)) return snapshot;
  looked.push_back(snapshot);
  return std::nullopt;
}

}  // namespace

std::string hub_cache_from(const VariableLookup& variable) {
  const auto value = [&](const char* name) {
    const char* text = variable(name);
    return std::string(text == nullptr ? "" : text);
  };
  const std::string home = value("HOME");
  const auto folder = [&](const char* name) {
    const std::string path = value(name);
    return path.starts_with("~/") ? home + path.substr(1) : path;
  };
  if (std::string cache = folder("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string hub_home = folder("HF_HOME"); !hub_home.empty()) return hub_home + "/hub";
  if (const std::string caches = folder("XDG_CACHE_HOME"); !caches.empty())
    return caches + "/huggingface/hub";
  return home.empty() ? "" : home + "/.cache/huggingface/hub";
}

Result<std::string> find_model(std::string_view reference, const ModelSearch& search) {
  const std::string path(reference);
  if (path.empty() || path.find('\0') != std::string::npos) {
    return Error{Code::kInvalidArgument, "no model is named", kHowToName};
  }
  if (is_folder(path)) return path;
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) {
    return Error{Code::kInvalidArgument, quote(path) + " is a file, expected a model folder",
                 "name the folder that holds config.json and the safetensors files"};
  }
  std::vector<std::string> looked = {path};
  if ((path == "pocket-qwen" || path == "pocket-gemma") && !search.pocket_folder.empty()) {
    const std::string pocket = search.pocket_folder + "/" + path;
    if (is_folder(pocket)) return pocket;
    looked.push_back(pocket);
  }
  const auto repository = parse_repository(reference);
  if (repository && !search.hub_cache.empty()) {
    if (const auto snapshot = find_in_cache(*repository, search.hub_cache, looked)) return *snapshot;
  }
  return Error{Code::kNotFound,
               fmt::format("found no model {}; looked for {}", quote(path), fmt::join(looked, ", ")),
               kHowToName};
}

}  // namespace weir
