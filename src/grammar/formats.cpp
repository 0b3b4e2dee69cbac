#include "grammar/formats.h"

#include <array>
#include <utility>

namespace weir::grammar {
namespace {

// Years of four digits, and the 29th of February in leap years only.
#define WEIR_DATE                                                                                           \
  "(?:[1-9]\\d{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-"   \
  "(?:0[1-9]|1\\d|2[0-8]))|(?:[1-9]\\d(?:0[48]|[2468][048]|[13579][26])|(?:[2468][048]|[13579][26])00)-02-" \
  "29)"
#define WEIR_TIME "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define WEIR_LABEL "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
#define WEIR_HOST WEIR_LABEL "(?:\\." WEIR_LABEL "){0,2}"
#define WEIR_URI "[A-Za-z0-9_.~!$&'()*+,;=:@/?-]*"
#define WEIR_OCTET "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"

constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kFormats = {{
    {"date", "^" WEIR_DATE "$"},
    {"time", "^" WEIR_TIME "$"},
    {"date-time", "^" WEIR_DATE "T" WEIR_TIME "$"},
    {"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
    {"email", "^[A-Za-z0-9_+-]+(?:\\.[A-Za-z0-9_+-]+){0,4}@" WEIR_LABEL "(?:\\." WEIR_LABEL "){1,2}$"},
    {"hostname", "^" WEIR_HOST "$"},
    {"ipv4", "^" WEIR_OCTET "(?:\\." WEIR_OCTET "){3}$"},
    {"ipv6", "^[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){7}$"},
    {"uri", "^https?://" WEIR_HOST "(?::[1-9]\\d{0,3})?(?:[/?]" WEIR_URI ")?(?:#" WEIR_URI ")?$"},
}};

}  // namespace

std::string_view format_pattern(std::string_view format) {
  for (const auto& [name, pattern] : kFormats) {
    if (name == format) return pattern;
  }
  return {};
}

}  // namespace weir::grammar
