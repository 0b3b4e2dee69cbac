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
  std::vector<std::string> hosts;    // further names of the server, such as "chat.example", or "*"
};

// Takes the same time wherever the texts differ; the length of `given` shows.
bool same_secret(std::string_view given, std::string_view secret);

// Whether the request brings one of the keys, as `Authorization: Bearer` or `x-api-key`.
bool has_key(const HttpRequest& request, const AccessRules& rules);

// Whether the page that sends the request, if a page does, may: its origin is listed, or it is the server's
// own and host_allowed.
bool origin_allowed(const HttpRequest& request, const AccessRules& rules);

// Whether the name that the request calls the server by is one of its own. A page whose name was made to
// resolve to this machine is, to its browser, a page of the server, and need not send an origin; the name
// gives it away. With keys any name will do, since such a page knows none.
bool host_allowed(const HttpRequest& request, const AccessRules& rules);

// The headers that let a page of a listed origin read the response; none for other requests.
Headers cors_headers(const HttpRequest& request, const AccessRules& rules);

}  // namespace weir::server
