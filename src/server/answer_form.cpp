#include "server/answer_form.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace weir::server {
namespace {

constexpr int64_t kMostTokens = std::numeric_limits<int32_t>::max();
constexpr size_t kMostNotes = 5, kLongestNote = 160;

// Tokens of thinking; 0: no limit.
struct Effort {
  const char* name;
  int64_t budget;
};
constexpr Effort kEfforts[] = {{"minimal", 512}, {"low", 2048}, {"medium", 8192},
                               {"high", 0},      {"xhigh", 0},  {"max", 0}};

void set_schema(const Json* schema, const std::string& where, Fields& fields, AnswerRequest& request) {
  if (schema == nullptr) return fields.fail({Code::kInvalidArgument, where + " is missing", ""});
  request.form.schema = *schema;
  request.form.schema_name = where;
}

void warn_of_notes(const std::vector<std::string>& notes, AnswerRequest& request) {
  for (size_t i = 0; i < std::min(notes.size(), kMostNotes); ++i) {
    request.warnings.push_back("not enforced: " + notes[i].substr(0, kLongestNote));
  }
  if (notes.size() > kMostNotes) {
    request.warnings.push_back("not enforced: " + std::to_string(notes.size() - kMostNotes) + " more");
  }
}

}  // namespace

void read_format(Fields& fields, const char* name, AnswerRequest& request) {
  const Json* given = fields.value(name);
  if (given == nullptr) return;
  Fields format(*given, fields.path(name));
  const std::string type = format.text("type").value_or("");
  format.ignore({"name", "description", "strict"});
  const Json* schema = format.value("schema");
  const Json* nested = format.value("json_schema");
  if (type == "json_schema" && nested != nullptr) {
    Fields inner(*nested, format.path("json_schema"));
    inner.ignore({"name", "description", "strict"});
    set_schema(inner.value("schema"), inner.path("schema"), inner, request);
    if (auto status = inner.finish(); !status.ok()) format.fail(std::move(status).error());
  } else if (type == "json_schema" || (type == "json_object" && schema != nullptr)) {
    set_schema(schema, format.path("schema"), format, request);
  } else if (type == "json_object") {
    const Json any_object = {{"type", "object"}};
    set_schema(&any_object, format.path("type"), format, request);
  } else if (type != "text") {
    format.fail("type", "is " + shown(Json(type)) + ": expected text, json_object or json_schema");
  }
  if (type != "text") request.form_field = fields.path(name);
  if (auto status = format.finish(); !status.ok()) fields.fail(std::move(status).error());
}

ToolChoice read_tool_choice(Fields& fields) {
  using Kind = ToolChoice::Kind;
  const Json* given = fields.value("tool_choice");
  if (given == nullptr || *given == "auto") return {};
  if (*given == "none") return {Kind::kNone, ""};
  if (*given == "required") return {Kind::kRequired, ""};
  if (!given->is_object()) {
    fields.fail("tool_choice", "is " + shown(*given) + ": expected auto, none, required or a function");
    return {};
  }
  Fields choice(*given, "tool_choice");
  choice.only("type", "function", "only functions can be chosen by name");
  std::string name = choice.text("name").value_or("");
  if (const Json* nested = choice.value("function")) {
    Fields function(*nested, "tool_choice.function");
    name = function.text("name").value_or("");
    if (auto status = function.finish(); !status.ok()) choice.fail(std::move(status).error());
  }
  if (name.empty()) choice.fail("function", "names no tool");
  if (auto status = choice.finish(); !status.ok()) fields.fail(std::move(status).error());
  return {Kind::kRequired, std::move(name)};
}

Status choose_tools(const ToolChoice& choice, AnswerRequest& request) {
  using Kind = ToolChoice::Kind;
  std::vector<Tool>& tools = request.conversation.tools;
  AnswerForm& form = request.form;
  if (choice.kind == Kind::kNone) tools.clear();
  if (choice.kind != Kind::kRequired) {
    const auto strict = std::find_if(tools.begin(), tools.end(), is_strict);
    if (strict == tools.end() && (!form.schema || tools.empty())) return Ok{};
    form.calls = AnswerForm::Calls::kAllowed;
    form.tools = tools;
    form.one_call = request.one_call;
    if (request.form_field.empty()) {
      request.form_field = "tools[" + std::to_string(strict - tools.begin()) + "].strict";
    }
    return Ok{};
  }
  request.form_field = "tool_choice";
  form.calls = AnswerForm::Calls::kRequired;
  form.tools = tools;
  form.one_call = request.one_call || !choice.name.empty();
  if (!choice.name.empty()) {
    std::erase_if(form.tools, [&](const Tool& tool) { return tool.name != choice.name; });
  }
  if (!form.tools.empty()) return Ok{};
  return Error{Code::kInvalidArgument,
               tools.empty()
                   ? "tool_choice asks for a call, but there are no tools"
                   : "tool_choice names " + shown(Json(choice.name)) + ", which is none of the tools",
               ""};
}

void read_effort(Fields& fields, const char* name, const ServedModel& model, AnswerRequest& request) {
  const auto effort = fields.text(name);
  if (!effort) return;
  request.prompt_options.enable_thinking = *effort != "none";
  if (*effort == "none") return;
  const auto known = std::find_if(std::begin(kEfforts), std::end(kEfforts),
                                  [&](const Effort& e) { return *effort == e.name; });
  if (known == std::end(kEfforts)) {
    return fields.fail(name,
                       "is " + shown(*effort) + ": expected none, minimal, low, medium, high, xhigh or max");
  }
  if (!model.is_diffusion) {
    if (known->budget > 0 && !request.thinking_budget) request.thinking_budget = known->budget;
  } else if (*effort == "minimal" || *effort == "low") {
    fields.fail(
        {Code::kUnsupported,
         fields.path(name) + " is " + *effort + ": the thinking of a diffusion model cannot be limited",
         "it is either on (medium, high) or off (none)"});
  }
}

void read_thinking_budget(Fields& fields, const char* name, AnswerRequest& request) {
  const auto budget = fields.integer(name, 0, kMostTokens);
  if (!budget) return;
  request.thinking_budget = *budget;
  if (*budget == 0) request.prompt_options.enable_thinking = false;
}

Status add_form(AnswerRequest& request, const ServedModel& model) {
  const bool think = request.prompt_options.enable_thinking;
  const bool formed = !request.form_field.empty();
  if (model.is_diffusion && (formed || (think && request.thinking_budget))) {
    return Error{
        Code::kUnsupported,
        (formed ? request.form_field : "thinking_budget") + " is not supported for a diffusion model",
        "it settles many tokens at once, which no grammar or limit reaches; ask for it in the prompt"};
  }
  if (formed) {
    std::vector<std::string> notes;
    WEIR_TRY(grammar::Grammar grammar, answer_grammar(model.layout, request.form, think, notes));
    warn_of_notes(notes, request);
    WEIR_TRY(request.generation.grammar, grammar::TokenGrammar::make(std::move(grammar), model.vocabulary));
  }
  if (think && request.thinking_budget) {
    WEIR_TRY(ThinkingEnd end, thinking_end(model.layout, *model.tokenizer));
    request.generation.thinking =
        ThinkingLimit{*request.thinking_budget, std::move(end.text), std::move(end.tokens)};
  }
  return Ok{};
}

}  // namespace weir::server
