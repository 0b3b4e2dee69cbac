#include "cli/form_options.h"

#include <CLI/App.hpp>
#include <limits>
#include <string_view>
#include <utility>

#include "base/mapped_file.h"
#include "cli/options.h"

namespace weir::cli {
namespace {

constexpr const char* kGroup = "Form of the answer";
constexpr int64_t kMostTokens = std::numeric_limits<int32_t>::max();

Result<Json> parse_schema(std::string_view text, const std::string& where) {
  auto schema = parse_json(text);
  if (schema.ok()) return schema;
  return Error{Code::kInvalidArgument, where + " is no JSON: " + schema.error().message, schema.error().hint};
}

// The schema itself, which begins with a brace, or the name of its file.
Result<Json> read_schema(const std::string& given) {
  if (given.starts_with('{')) return parse_schema(given, "the schema of --json-schema");
  WEIR_TRY(const MappedFile file, MappedFile::open(given));
  const auto bytes = file.bytes();
  return parse_schema({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, given);
}

Error no_diffusion(const std::string& flag) {
  return {Code::kInvalidArgument, flag + " is not supported for a diffusion model",
          "it settles many tokens at once, which no grammar or limit reaches; ask for it in the prompt"};
}

}  // namespace

void FormOptions::add(CLI::App& command) {
  command
      .add_option("--json-schema", schema_,
                  "Have the answer be JSON of this schema: FILE, or the schema itself in braces")
      ->type_name("FILE")
      ->group(kGroup);
  add_count(command, "--think-budget", think_budget_, 0,
            "Most tokens of thinking; 0: none; default: no limit", kMostTokens)
      ->group(kGroup);
}

Status FormOptions::over(const Engine& engine, std::optional<bool> think, TurnOptions& turn) const {
  const bool diffusion = engine.generator->is_diffusion();
  if (think_budget_ >= 0) {
    if (diffusion) return no_diffusion("--think-budget");
    if (think && *think != (think_budget_ > 0)) {
      return Error{Code::kInvalidArgument,
                   std::string(*think ? "--think" : "--no-think") + " contradicts --think-budget " +
                       std::to_string(think_budget_),
                   "a budget of 0 is no thinking, a larger one is some"};
    }
    turn.think = turn.think && think_budget_ > 0;
    if (think_budget_ > 0) turn.think_budget = think_budget_;
  }
  if (schema_.empty()) return Ok{};
  if (diffusion) return no_diffusion("--json-schema");
  WEIR_TRY(turn.schema, read_schema(schema_));
  return compile_form(engine, turn);
}

}  // namespace weir::cli
