#include "cli/gsm8k.h"

#include <fmt/core.h>

#include <cctype>
#include <span>

#include "base/mapped_file.h"
#include "chat/json_text.h"

namespace weir::cli {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// End of the number that starts at `at`: digits, commas followed by three digits, and one fraction.
size_t end_of_number(std::string_view text, size_t at) {
  const auto digits_from = [&](size_t from) {
    size_t end = from;
    while (end < text.size() && is_digit(text[end])) ++end;
    return end - from;
  };
  at += digits_from(at);
  while (at < text.size() && text[at] == ',' && digits_from(at + 1) == 3) at += 4;
  if (at < text.size() && text[at] == '.') {
    if (const size_t fraction = digits_from(at + 1); fraction > 0) at += 1 + fraction;
  }
  return at;
}

// A minus is a sign unless it stands between two operands, as in "12-5".
bool is_signed(std::string_view text, size_t at) {
  if (at == 0 || text[at - 1] != '-') return false;
  return at == 1 || (std::isalnum(static_cast<unsigned char>(text[at - 2])) == 0 && text[at - 2] != ')');
}

Result<Problem> read_problem(std::string_view line) {
  WEIR_TRY(const Json json, parse_json(line));
  const auto text = [&](const char* field) -> std::optional<std::string> {
    if (!json.is_object() || !json.contains(field) || !json[field].is_string()) return std::nullopt;
    return json[field].get<std::string>();
  };
  const auto question = text("question"), answer = text("answer");
  if (!question || !answer) return Error{Code::kCorrupt, "expected text in \"question\" and \"answer\"", ""};
  const auto expected = answer->find("####") == std::string::npos ? std::nullopt : final_number(*answer);
  if (!expected) return Error{Code::kCorrupt, "\"answer\" does not end with \"#### NUMBER\"", ""};
  return Problem{*question, *expected, *answer};
}

}  // namespace

std::string normal_number(std::string_view digits) {
  std::string out;
  for (const char c : digits) {
    if (c != ',' && c != '-') out += c;
  }
  if (out.find('.') != std::string::npos) {
    out.erase(out.find_last_not_of('0') + 1);
    if (out.back() == '.') out.pop_back();
  }
  while (out.size() > 1 && out[0] == '0' && is_digit(out[1])) out.erase(0, 1);
  return digits.starts_with('-') && out != "0" ? "-" + out : out;
}

std::optional<std::string> final_number(std::string_view answer) {
  const size_t mark = answer.rfind("####");
  std::string_view text = mark == std::string_view::npos ? answer : answer.substr(mark + 4);
  std::optional<std::string> found;
  for (size_t at = 0; at < text.size();) {
    if (!is_digit(text[at])) {
      ++at;
      continue;
    }
    const size_t begin = is_signed(text, at) ? at - 1 : at;
    at = end_of_number(text, at);
    found = normal_number(text.substr(begin, at - begin));
    if (mark != std::string_view::npos) break;
  }
  return found;
}

Result<ProblemSet> read_problems(const std::string& path) {
  WEIR_TRY(const MappedFile file, MappedFile::open(path));
  const std::span<const std::byte> bytes = file.bytes();
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  ProblemSet set;
  set.hash = fnv1a(rest);
  for (int number = 1; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    auto problem = read_problem(line);
    if (!problem.ok()) {
      return Error{Code::kCorrupt, fmt::format("{}, line {}: {}", path, number, problem.error().message),
                   "each line is {\"question\": ..., \"answer\": \"... #### NUMBER\"}"};
    }
    set.problems.push_back(*std::move(problem));
  }
  if (set.problems.empty()) return Error{Code::kCorrupt, path + " holds no problems", ""};
  return set;
}

}  // namespace weir::cli
