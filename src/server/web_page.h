// The chat page: one document, made from web/ by web/inline.py when weir is built.
#pragma once

#include <string>
#include <string_view>

namespace weir::server {

struct WebPage {
  std::string_view html;
  std::string policy;  // Content-Security-Policy: its own styles and script, requests to its own origin only
  std::string tag;     // ETag, with its quotes
};

const WebPage& web_page();

}  // namespace weir::server
