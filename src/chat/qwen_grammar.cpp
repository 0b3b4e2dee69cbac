#include "chat/qwen_grammar.h"

#include <algorithm>
#include <utility>

#include "chat/tool_schema.h"
#include "grammar/nfa.h"
#include "grammar/schema.h"
#include "grammar/schema_parts.h"

namespace weir {
namespace {

using grammar::Automaton;
using grammar::GrammarBuilder;
using grammar::Nfa;

constexpr const char* kThinkEnd = "</think>";
constexpr const char* kCall = "<tool_call>";
constexpr const char* kCallEnd = "</tool_call>";

// What the parser takes for the end of an argument: the last two at the start of a line only.
const std::vector<std::string>& value_ends() {
  static const std::vector<std::string> ends = {"</parameter>", kCallEnd, "\n<parameter=", "\n</function>"};
  return ends;
}

const Json& parameters_of(const Tool& tool) {
  static const Json none = Json::object();
  const Json* function = grammar::keyword(tool.definition, "function");
  const Json* parameters = function == nullptr ? nullptr : grammar::keyword(*function, "parameters");
  return parameters == nullptr || parameters->is_null() ? none : *parameters;
}

bool is_tag_name(const std::string& name) {
  return !name.empty() && name.find_first_of("<>\n") == std::string::npos;
}

class Writer {
 public:
  Writer(const AnswerForm& form, std::vector<std::string>& notes)
      : form_(form), notes_(notes), builder_(work_) {}

  Result<grammar::Grammar> run(bool thinking_open) {
    Nfa nfa(work_);
    int32_t at = Nfa::kStart;
    if (thinking_open) {
      at = nfa.insert(at, grammar::avoiding({kThinkEnd, kCall}, "", work_));
      at = nfa.literal(nfa.marker(at, builder_.marker(kThinkEnd)), "\n\n");
    }
    const int32_t end = nfa.add();
    if (form_.calls != AnswerForm::Calls::kRequired) WEIR_RETURN_IF_ERROR(add_content(nfa, at, end));
    if (form_.calls != AnswerForm::Calls::kNone) WEIR_RETURN_IF_ERROR(add_calls(nfa, at, end));
    return builder_.finish(builder_.add(nfa.determinize(end)));
  }

 private:
  // JSON, or free text that may go over into calls.
  Status add_content(Nfa& nfa, int32_t at, int32_t end) {
    if (form_.schema) {
      grammar::SchemaCompiler compiler(builder_, *form_.schema, form_.schema_name);
      WEIR_TRY(const int32_t rule, compiler.root_rule());
      nfa.link(nfa.call(at, rule), end);
      return Ok{};
    }
    const int32_t text_end = nfa.insert(at, grammar::avoiding({kCall}, "", work_));
    nfa.link(text_end, end);
    return form_.calls == AnswerForm::Calls::kNone ? Status() : add_calls(nfa, text_end, end);
  }

  Status add_calls(Nfa& nfa, int32_t at, int32_t end) {
    if (call_ < 0) {
      WEIR_TRY(call_, call_rule());
    }
    const int32_t first_end = nfa.call(at, call_);
    nfa.link(first_end, end);
    if (!form_.one_call) nfa.link(nfa.call(nfa.literal(first_end, "\n"), call_), first_end);
    return Ok{};
  }

  Result<int32_t> call_rule() {
    Nfa nfa(work_);
    const int32_t begin = nfa.literal(nfa.marker(Nfa::kStart, builder_.marker(kCall)), "\n");
    const int32_t behind = nfa.add();
    for (size_t i = 0; i < form_.tools.size(); ++i) {
      const auto same = [&](const Tool& other) { return other.name == form_.tools[i].name; };
      if (std::any_of(form_.tools.begin(), form_.tools.begin() + static_cast<ptrdiff_t>(i), same)) continue;
      WEIR_TRY(const int32_t rule,
               function_rule(form_.tools[i], "tools[" + std::to_string(i) + "].parameters"));
      nfa.link(nfa.call(begin, rule), behind);
    }
    const int32_t end = nfa.marker(nfa.literal(behind, "\n"), builder_.marker(kCallEnd));
    return builder_.add(nfa.determinize(end));
  }

  // <function=NAME>, a line for each part of the arguments, </function>.
  Result<int32_t> function_rule(const Tool& tool, const std::string& where) {
    if (!is_tag_name(tool.name)) return unwritable(where, tool.name);
    std::vector<std::string> relaxed;
    grammar::SchemaCompiler compiler(builder_, parameters_of(tool), where,
                                     {is_strict(tool) ? nullptr : &relaxed, value_ends()});
    for (const char* name : {"anyOf", "oneOf", "enum", "const"}) {
      if (grammar::keyword(parameters_of(tool), name) == nullptr) continue;
      WEIR_RETURN_IF_ERROR(compiler.cannot(where, name + std::string(" is not supported there")));
    }
    WEIR_TRY(const auto members, compiler.members(parameters_of(tool), where));
    Nfa nfa(work_);
    int32_t at = nfa.literal(Nfa::kStart, "<function=" + tool.name + ">\n");
    for (const grammar::Member& member : members) {
      if (!is_tag_name(member.name)) return unwritable(where, member.name);
      const int32_t value = nfa.literal(at, "<parameter=" + member.name + ">\n");
      const int32_t value_end = nfa.add(), next = nfa.add();
      WEIR_RETURN_IF_ERROR(add_value(compiler, tool, member, nfa, value, value_end, where));
      nfa.link(nfa.literal(value_end, "\n</parameter>\n"), next);
      if (!member.required) nfa.link(at, next);
      at = next;
    }
    WEIR_RETURN_IF_ERROR(compiler.finish_references());
    for (std::string& note : relaxed) {
      if (std::find(notes_.begin(), notes_.end(), note) == notes_.end()) notes_.push_back(std::move(note));
    }
    return builder_.add(nfa.determinize(nfa.literal(at, "</function>")));
  }

  // As convert_argument() reads it: text where text is admitted or nothing is said, JSON otherwise.
  Status add_value(grammar::SchemaCompiler& compiler, const Tool& tool, const grammar::Member& member,
                   Nfa& nfa, int32_t from, int32_t to, const std::string& where) {
    const ArgumentTypes types = argument_types({tool}, tool.name, member.name);
    const std::string place = where + ".properties." + member.name;
    if (types.text || !types.known()) return compiler.add_raw_text(member.schema, nfa, from, to, place);
    return compiler.add_json(member.schema, nfa, from, to, place);
  }

  static Error unwritable(const std::string& where, const std::string& name) {
    return {Code::kUnsupported, where + ": the name " + shown(Json(name)) + " cannot be written in a call",
            "names without < > and line breaks"};
  }

  const AnswerForm& form_;
  std::vector<std::string>& notes_;
  grammar::Work work_;
  GrammarBuilder builder_;
  int32_t call_ = -1;
};

}  // namespace

Result<grammar::Grammar> qwen_grammar(const AnswerForm& form, bool thinking_open,
                                      std::vector<std::string>& notes) {
  return Writer(form, notes).run(thinking_open);
}

}  // namespace weir
