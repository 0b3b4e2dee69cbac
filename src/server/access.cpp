#include "server/access.h"

#include <algorithm>

namespace weir::server {
namespace {

constexpr std::string_view kBearer = "bearer ";

bool starts_with_bearer(std::string_view header) {
  if (header.size() < kBearer.size()) return false;
  return std::equal(kBearer.begin(), kBearer.end(), header.begin(),
                    [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b + 'a' - 'A' : b); });
}

std::string_view given_key(const HttpRequest& request) {
  const std::string_view header = request.header("authorization");
  return starts_with_bearer(header) ? header.substr(kBearer.size()) : request.header("x-api-key");
}

bool listed(std::string_view origin, const AccessRules& rules) {
  return std::any_of(rules.origins.begin(), rules.origins.end(),
                     [&](const std::string& known) { return known == "*" || known == origin; });
}

// "localhost:8080" to "localhost", "[::1]:8080" to "[::1]".
std::string_view without_port(std::string_view host) {
  const size_t bracket = host.rfind(']');
  const size_t colon = host.rfind(':');
  if (colon == std::string_view::npos || (bracket != std::string_view::npos && colon < bracket)) return host;
  return host.substr(0, colon);
}

// What no name server is asked for, and so nobody else can make resolve to this machine: localhost, and
// addresses, since the last label of no name is a number.
bool is_beyond_doubt(std::string_view name) {
  const std::string_view last = name.substr(name.rfind('.') + 1);
  const bool is_number = !last.empty() && last.find_first_not_of("0123456789") == std::string_view::npos;
  return name == "localhost" || (name.starts_with('[') && name.ends_with(']')) || is_number;
}

// "https://chat.example:444" to "chat.example:444"; empty when there is no scheme.
std::string_view host_of(std::string_view origin) {
  const size_t scheme = origin.find("://");
  return scheme == std::string_view::npos ? std::string_view() : origin.substr(scheme + 3);
}

bool is_host_of(std::string_view host, const std::vector<std::string>& origins) {
  return std::any_of(origins.begin(), origins.end(),
                     [&](const std::string& origin) { return origin == "*" || host_of(origin) == host; });
}

}  // namespace

bool same_secret(std::string_view given, std::string_view secret) {
  // One pass over `given`, whatever `secret` is; an empty secret never fits.
  unsigned difference = given.size() == secret.size() && !secret.empty() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    const char expected = secret.empty() ? '\0' : secret[i % secret.size()];
    difference |= static_cast<unsigned char>(given[i] ^ expected);
  }
  return difference == 0;
}

bool has_key(const HttpRequest& request, const AccessRules& rules) {
  if (rules.keys.empty()) return true;
  const std::string_view given = given_key(request);
  bool found = false;
  for (const std::string& key : rules.keys) found |= same_secret(given, key);
  return found;
}

bool origin_allowed(const HttpRequest& request, const AccessRules& rules) {
  const std::string_view origin = request.header("origin");
  if (origin.empty() || listed(origin, rules)) return true;
  const std::string_view host = request.header("host");
  return !host.empty() && host_of(origin) == host && host_allowed(request, rules);
}

bool host_allowed(const HttpRequest& request, const AccessRules& rules) {
  const std::string_view host = request.header("host");
  if (host.empty() || !rules.keys.empty()) return true;  // every browser names a host
  const std::string_view name = without_port(host);
  const auto is_listed = [&](const std::string& known) { return known == "*" || known == name; };
  return is_beyond_doubt(name) || std::any_of(rules.hosts.begin(), rules.hosts.end(), is_listed) ||
         is_host_of(host, rules.origins);
}

Headers cors_headers(const HttpRequest& request, const AccessRules& rules) {
  const std::string_view origin = request.header("origin");
  if (origin.empty() || !listed(origin, rules)) return {};
  Headers headers = {{"Access-Control-Allow-Origin", std::string(origin)},
                     {"Vary", "Origin"},
                     {"Access-Control-Expose-Headers", "x-request-id, x-weir-warning, retry-after"}};
  if (request.method == "OPTIONS") {
    headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    headers.emplace_back(
        "Access-Control-Allow-Headers",
        "authorization, content-type, x-api-key, x-request-id, anthropic-version, anthropic-beta");
    headers.emplace_back("Access-Control-Max-Age", "600");
  }
  return headers;
}

}  // namespace weir::server
