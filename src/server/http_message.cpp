#include "server/http_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <ctime>
#include <random>
#include <utility>

namespace weir::server {
namespace {

const char* reason_of(int status) {
  constexpr std::array<std::pair<int, const char*>, 18> kReasons = {{{200, "OK"},
                                                                     {204, "No Content"},
                                                                     {304, "Not Modified"},
                                                                     {400, "Bad Request"},
                                                                     {401, "Unauthorized"},
                                                                     {403, "Forbidden"},
                                                                     {404, "Not Found"},
                                                                     {405, "Method Not Allowed"},
                                                                     {408, "Request Timeout"},
                                                                     {413, "Content Too Large"},
                                                                     {414, "URI Too Long"},
                                                                     {415, "Unsupported Media Type"},
                                                                     {417, "Expectation Failed"},
                                                                     {429, "Too Many Requests"},
                                                                     {431, "Request Header Fields Too Large"},
                                                                     {500, "Internal Server Error"},
                                                                     {501, "Not Implemented"},
                                                                     {503, "Service Unavailable"}}};
  for (const auto& [known, reason] : kReasons) {
    if (status == known) return reason;
  }
  return "Status";
}

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 40> text{};
  std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &utc);
  return text.data();
}

bool fit_for_id(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.' || c == ':';
}

}  // namespace

std::string response_head(int status, const Headers& headers) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\nDate: {}\r\n", status, reason_of(status), http_date());
  for (const auto& [name, value] : headers) {
    std::string line = name + ": " + value;
    std::replace_if(
        line.begin(), line.end(), [](unsigned char c) { return c < ' ' || c == 127; }, ' ');
    head += line + "\r\n";
  }
  return head + "\r\n";
}

std::string chunk(std::string_view bytes) {
  return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

std::string request_id_or_new(std::string_view id) {
  if (!id.empty() && id.size() <= 128 && std::all_of(id.begin(), id.end(), fit_for_id)) {
    return std::string(id);
  }
  thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("{:016x}{:08x}", random(), static_cast<uint32_t>(random()));
}

std::optional<AbsoluteTarget> absolute_target(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (target.size() < scheme.size()) continue;
    const bool same = std::equal(scheme.begin(), scheme.end(), target.begin(), [](char a, char b) {
      return a == static_cast<char>(std::tolower(static_cast<unsigned char>(b)));
    });
    if (!same) continue;
    const std::string_view rest = target.substr(scheme.size());
    const std::string_view host = rest.substr(0, rest.find_first_of("/?#"));
    if (host.empty()) return std::nullopt;
    std::string path(rest.substr(host.size()));
    if (!path.starts_with('/')) path.insert(path.begin(), '/');
    return AbsoluteTarget{std::string(host), std::move(path)};
  }
  return std::nullopt;
}

}  // namespace weir::server
