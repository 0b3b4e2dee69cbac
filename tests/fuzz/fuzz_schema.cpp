// Schemas of any bytes: what is taken has a beginning that can always be completed, within bounded work, and
// what is refused has a sentence. The first byte seeds the choices.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "chat/json_text.h"
#include "grammar/configurations.h"
#include "grammar/schema.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weir;  // NOLINT: this file is about nothing else
  if (size == 0) return 0;
  const auto schema = parse_json({reinterpret_cast<const char*>(data + 1), size - 1});
  if (!schema.ok()) return 0;
  const auto grammar = grammar::schema_grammar(*schema, "schema");
  if (!grammar.ok()) {
    if (grammar.error().message.empty() || grammar.error().code == Code::kInternal) std::abort();
    return 0;
  }
  grammar::Configurations configurations(*grammar);
  int32_t at = configurations.start();
  unsigned choice = data[0];
  for (int step = 0; step < 200; ++step) {
    choice = choice * 1103515245u + 12345u;
    int32_t next = grammar::Configurations::kNone;
    for (unsigned i = 0; i < 256 && next == grammar::Configurations::kNone; ++i) {
      next = configurations.after(at, static_cast<grammar::Symbol>((i + (choice >> 16)) % 256));
    }
    if (next == grammar::Configurations::kNone) {
      if (!configurations.complete(at)) std::abort();
      break;
    }
    at = next;
    if (configurations.size() > 1000) at = configurations.keep_only(at);
  }
  return 0;
}
