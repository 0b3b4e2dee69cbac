// JSON schemas as grammars of the values that they admit.
//
// Values are written compactly or with the usual space: one space, or a line break and indentation, behind
// brackets, commas and colons. Properties come in the order of the schema, and others only where
// additionalProperties is given. Integers are written without a point. All this makes the language smaller
// than the schema's, never larger.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "grammar/grammar.h"
#include "grammar/json.h"
#include "grammar/nfa.h"
#include "grammar/text_shape.h"

namespace weir::grammar {

struct SchemaOptions {
  // Null: a keyword that cannot be enforced is an error. Else it is left out of account and named here.
  std::vector<std::string>* relaxed = nullptr;
  // Words that no text contains, because the layout around it would read them as its own.
  std::vector<std::string> avoided = {};
};

// A property of an object schema.
struct Member {
  std::string name;
  Json schema;
  bool required = false;
};

// Errors of all functions: kUnsupported with the keyword and where it stands, kInvalidArgument for what is no
// schema or too large. Those that only show in the whole come from GrammarBuilder::finish().
class SchemaCompiler {
 public:
  // `root` is what references point into; it and `builder` must outlive the compiler. `name` stands before
  // the places in errors.
  SchemaCompiler(GrammarBuilder& builder, const Json& root, std::string name, SchemaOptions options = {});

  // A rule of the JSON texts of the values that the root admits.
  Result<int32_t> root_rule();

  // The properties of an object schema, in order; what else it says is checked. Those that are only required
  // count as listed.
  Result<std::vector<Member>> members(const Json& schema, const std::string& where);

  // Adds the JSON texts of the values that `schema` admits to an automaton.
  Status add_json(const Json& schema, Nfa& nfa, int32_t from, int32_t to, const std::string& where);

  // Adds the strings that `schema` admits as they are, without quotes, and "null" where it admits null.
  // Other values do not count.
  Status add_raw_text(const Json& schema, Nfa& nfa, int32_t from, int32_t to, const std::string& where);

  // Defines the rules of all references that have been met. Call it last.
  Status finish_references();

  // What to do about something that cannot be enforced, as the options have it.
  Status cannot(const std::string& where, const std::string& what);

  int32_t any_value();  // rules of any JSON value and any object
  int32_t any_object();

 private:
  struct Place {  // in the automaton that is being built
    Nfa& nfa;
    int32_t from, to;
  };
  enum class Form { kJson, kRawText };

  Status add(const Json& schema, Form form, Place place, const std::string& where);
  Status add_alternatives(const char* keyword, const Json& schema, Form form, Place place,
                          const std::string& where);
  Status add_constants(const Json& schema, Form form, Place place, const std::string& where);
  Status add_types(const Json& schema, Form form, Place place, const std::string& where);
  Status add_type(const std::string& type, const Json& schema, Form form, Place place,
                  const std::string& where);
  Status add_reference(const std::string& reference, Place place);
  Status add_string(const Json& schema, Form form, Place place, const std::string& where);
  Status add_number(const Json& schema, bool whole, Place place, const std::string& where);
  Status add_array(const Json& schema, Place place, const std::string& where);
  Status add_object(const Json& schema, Place place, const std::string& where);

  Status check_keywords(const Json& schema, const std::string& where);
  Result<Json> flattened(const Json& schema, const std::string& where);
  Result<const Json*> target(const Json& reference, const std::string& where) const;
  Result<int64_t> count(const Json& schema, const char* name, int64_t otherwise, const std::string& where);
  Result<TextShape> text_shape(const Json& schema, Form form, const std::string& where);
  Result<int32_t> string_rule(const TextShape& shape);
  Result<int32_t> json_rule(const Json& schema, const std::string& where);
  Result<int32_t> further_members(const std::vector<Member>& listed, const Json& schema,
                                  const std::string& where);
  int32_t space();

  GrammarBuilder& builder_;
  const Json& root_;
  std::string name_;
  SchemaOptions options_;
  std::string words_;  // the avoided ones, as a part of the keys of rules
  int depth_ = 0;
  std::map<std::string, int32_t> references_;
  std::vector<std::string> undefined_;  // references whose rules are not defined yet
};

// The grammar of a schema's values alone.
Result<Grammar> schema_grammar(const Json& schema, const std::string& name);

}  // namespace weir::grammar
