// Who may ask: keys, and pages of other sites.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/http.h"

namespace weir::server {

struct AccessRules {
  std::vector<std::string> keys;     // none: everybody may ask
  std::vector<std::string> origins;  // of pages that may, such as "https://chat.example", or "*"
};

// Takes the same time wherever the texts differ; the length of `given` shows.
bool same_secret(std::string_view given, std::string_view secret);

// Whether the request brings one of the keys, as `Authorization: Bearer` or `x-api-key`.
bool has_key(const HttpRequest& request, const AccessRules& rules);

// Whether the page that sends the request, if a page does, may: its origin is listed, or it is the server's
// own. Without keys, a page's own origin must be a name of this machine, so that a foreign name that resolves
// to it gains nothing.
bool origin_allowed(const HttpRequest& request, const AccessRules& rules);

// The headers that let a page of a listed origin read the response; none for other requests.
Headers cors_headers(const HttpRequest& request, const AccessRules& rules);

}  // namespace weir::server
