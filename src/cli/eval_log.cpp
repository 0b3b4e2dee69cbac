#include "cli/eval_log.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "chat/json_text.h"

namespace weir::cli {
namespace {

std::string line_of(const Report& json) {
  return json.dump(-1, ' ', false, Report::error_handler_t::replace) + "\n";
}

Report to_json(const EvalResult& r) {
  return {{"index", r.index},
          {"correct", r.correct()},
          {"expected", r.expected},
          {"found", r.found},
          {"finish_reason", r.finish_reason},
          {"prompt_tokens", r.prompt_tokens},
          {"generated_tokens", r.generated_tokens},
          {"prefill_seconds", r.prefill_seconds},
          {"decode_seconds", r.decode_seconds},
          {"denoising_passes", r.denoising_passes},
          {"canvases", r.canvases},
          {"canvas_rows", r.canvas_rows},
          {"answer", r.answer}};
}

std::optional<EvalResult> from_json(const Report& json) {
  EvalResult r;
  const auto read = [&](const char* name, auto& field, bool (Report::*is_type)() const noexcept) {
    if (!json.is_object() || !json.contains(name) || !(json[name].*is_type)()) return false;
    json[name].get_to(field);
    return true;
  };
  const bool ok = read("index", r.index, &Report::is_number_unsigned) &&
                  read("expected", r.expected, &Report::is_string) &&
                  read("found", r.found, &Report::is_string) &&
                  read("answer", r.answer, &Report::is_string) &&
                  read("finish_reason", r.finish_reason, &Report::is_string) &&
                  read("prompt_tokens", r.prompt_tokens, &Report::is_number_integer) &&
                  read("generated_tokens", r.generated_tokens, &Report::is_number_integer) &&
                  read("prefill_seconds", r.prefill_seconds, &Report::is_number) &&
                  read("decode_seconds", r.decode_seconds, &Report::is_number) &&
                  read("denoising_passes", r.denoising_passes, &Report::is_number_integer) &&
                  read("canvases", r.canvases, &Report::is_number_integer) &&
                  read("canvas_rows", r.canvas_rows, &Report::is_number_integer);
  return ok ? std::optional(r) : std::nullopt;
}

Error not_a_log(const std::string& path, int line) {
  return {Code::kCorrupt, fmt::format("{}, line {} is not a result of weir eval", path, line),
          "name another --out"};
}

Status same_settings(const std::string& path, const Report& found, const Report& settings) {
  for (const auto& [name, value] : settings.items()) {
    const Report before = found.contains(name) ? found[name] : Report();
    if (before == value) continue;
    return Error{
        Code::kInvalidArgument,
        fmt::format("{} was made with {} {}, and this is {}", path, name, before.dump(), value.dump()),
        "give the same flags to go on with it, or another --out"};
  }
  return Ok{};
}

}  // namespace

Status EvalLog::read(std::ifstream& file, const Report& settings, uintmax_t& good_bytes) {
  std::string line;
  for (int number = 1; std::getline(file, line) && !file.eof(); ++number) {
    const auto json = parse_json(line);
    const Error corrupt = not_a_log(path_, number);
    if (!json.ok() || !json->is_object()) return corrupt;
    if (number == 1) {
      if (!json->contains("settings") || !(*json)["settings"].is_object()) return corrupt;
      WEIR_RETURN_IF_ERROR(same_settings(path_, (*json)["settings"], settings));
    } else {
      auto result = from_json(*json);
      if (!result) return corrupt;
      const auto index = result->index;
      results_.insert_or_assign(index, *std::move(result));
    }
    good_bytes += line.size() + 1;
  }
  if (good_bytes == 0 && !line.empty()) return not_a_log(path_, 1);
  return Ok{};
}

Result<EvalLog> EvalLog::open(const std::string& path, const Report& settings) {
  EvalLog log;
  log.path_ = path;
  if (path.empty()) return log;
  uintmax_t good_bytes = 0;
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) {
    return Error{Code::kCorrupt, path + " is not a regular file", "name another --out"};
  }
  WEIR_TRY(log.lock_, FileLock::take(path));
  if (std::ifstream old(path, std::ios::binary); old) {
    WEIR_RETURN_IF_ERROR(log.read(old, settings, good_bytes));
    std::error_code failed;
    std::filesystem::resize_file(path, good_bytes, failed);
  }
  log.file_.open(path, std::ios::binary | std::ios::app);
  if (good_bytes == 0) log.file_ << line_of({{"settings", settings}}) << std::flush;
  if (log.file_) return log;
  return Error{Code::kNotFound, fmt::format("cannot write {}: {}", path, std::strerror(errno)),
               "name another --out"};
}

Status EvalLog::add(EvalResult result) {
  if (!path_.empty()) {
    file_ << line_of(to_json(result)) << std::flush;
    if (!file_) {
      return Error{Code::kInternal, fmt::format("cannot write {}: {}", path_, std::strerror(errno)),
                   "is the disk full?"};
    }
  }
  results_.insert_or_assign(result.index, std::move(result));
  return Ok{};
}

}  // namespace weir::cli
