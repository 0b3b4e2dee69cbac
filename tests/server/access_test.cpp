#include "server/access.h"

#include <gtest/gtest.h>

#include "server/failure.h"
#include "server/http_message.h"
#include "server_testing.h"

namespace weir::server {
namespace {

HttpRequest with(std::map<std::string, std::string> headers) {
  HttpRequest request;
  request.headers = std::move(headers);
  return request;
}

TEST(Access, a_key_is_taken_from_either_header) {
  const AccessRules rules{{"first", "second"}, {}, {}};
  EXPECT_TRUE(has_key(with({{"authorization", "Bearer first"}}), rules));
  EXPECT_TRUE(has_key(with({{"authorization", "bearer second"}}), rules));
  EXPECT_TRUE(has_key(with({{"x-api-key", "second"}}), rules));
  for (const char* wrong : {"", "firs", "firstfirst", "First", "firsu"}) {
    EXPECT_FALSE(has_key(with({{"x-api-key", wrong}}), rules)) << wrong;
  }
  EXPECT_FALSE(has_key(with({}), rules));
  EXPECT_TRUE(has_key(with({}), {}));
}

TEST(Access, an_empty_secret_fits_nothing) {
  EXPECT_FALSE(same_secret("", ""));
  EXPECT_FALSE(same_secret("a", ""));
}

TEST(Access, pages_of_other_sites_are_refused_unless_listed) {
  const AccessRules open, listed{{}, {"https://chat.example"}, {}};
  const HttpRequest foreign = with({{"origin", "https://chat.example"}, {"host", "127.0.0.1:8080"}});
  EXPECT_FALSE(origin_allowed(foreign, open));
  EXPECT_TRUE(origin_allowed(foreign, listed));
  EXPECT_TRUE(origin_allowed(with({}), open));
  EXPECT_TRUE(origin_allowed(with({{"origin", "http://localhost:8080"}, {"host", "localhost:8080"}}), open));
  EXPECT_FALSE(origin_allowed(with({{"origin", "null"}, {"host", "localhost:8080"}}), open));
}

TEST(Access, a_foreign_name_for_this_machine_is_no_origin_of_its_own) {
  const HttpRequest rebound = with({{"origin", "http://evil.example:8080"}, {"host", "evil.example:8080"}});
  EXPECT_FALSE(origin_allowed(rebound, {}));
  EXPECT_TRUE(origin_allowed(rebound, {{"key"}, {}, {}}));
}

TEST(Access, a_foreign_name_for_this_machine_is_refused_without_an_origin_too) {
  for (const char* own :
       {"localhost", "localhost:8080", "127.0.0.1", "127.0.0.2:80", "[::1]", "[::1]:8080", "1", ""}) {
    EXPECT_TRUE(host_allowed(with({{"host", own}}), {})) << own;
  }
  EXPECT_TRUE(host_allowed(with({}), {}));
  for (const char* foreign :
       {"evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.1.",
        "evil:80:80", "[::1]evil.example", "xlocalhost", "."}) {
    EXPECT_FALSE(host_allowed(with({{"host", foreign}}), {})) << foreign;
    EXPECT_TRUE(host_allowed(with({{"host", foreign}}), {{"key"}, {}, {}})) << foreign;
    EXPECT_TRUE(host_allowed(with({{"host", foreign}}), {{}, {}, {"*"}})) << foreign;
    EXPECT_TRUE(host_allowed(with({{"host", foreign}}), {{}, {"*"}, {}})) << foreign;
  }
}

TEST(Access, a_name_can_be_allowed_by_itself_or_with_the_origin_of_its_pages) {
  const HttpRequest named = with({{"host", "chat.example:444"}});
  EXPECT_TRUE(host_allowed(named, {{}, {}, {"chat.example"}}));
  EXPECT_TRUE(host_allowed(named, {{}, {"https://chat.example:444"}, {}}));
  EXPECT_FALSE(host_allowed(named, {{}, {"https://chat.example"}, {"example"}}));
}

TEST(Access, cors_headers_come_only_for_listed_origins) {
  const HttpRequest request = with({{"origin", "https://a.example"}});
  EXPECT_TRUE(cors_headers(request, {}).empty());
  EXPECT_TRUE(cors_headers(request, {{}, {"https://b.example"}, {}}).empty());
  EXPECT_EQ(cors_headers(request, {{}, {"*"}, {}}).at(0).second, "https://a.example");
}

TEST(HttpMessage, no_value_can_add_a_header) {
  const std::string head = response_head(200, {{"x", "a\r\nSet-Cookie: b"}});
  EXPECT_NE(head.find("x: a  Set-Cookie: b\r\n"), std::string::npos);
  EXPECT_TRUE(head.starts_with("HTTP/1.1 200 OK\r\nDate: "));
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
}

TEST(HttpMessage, a_chunk_says_its_length_in_hexadecimal) {
  EXPECT_EQ(chunk(std::string(26, 'x')), "1a\r\n" + std::string(26, 'x') + "\r\n");
}

TEST(HttpMessage, a_clients_request_id_is_kept_only_if_it_is_fit) {
  EXPECT_EQ(request_id_or_new("job-7.a:b_c"), "job-7.a:b_c");
  for (const std::string& unfit :
       {std::string(), std::string("a b"), std::string("a\nb"), std::string(129, 'a')}) {
    const std::string id = request_id_or_new(unfit);
    EXPECT_EQ(id.size(), 24u);
    EXPECT_NE(id, request_id_or_new(unfit));
  }
}

TEST(Failure, has_the_shape_of_its_protocol) {
  const Failure failure = failure_of({Code::kInvalidArgument, "n is 0", "try 1"});
  EXPECT_EQ(json(failure_body(Protocol::kOpenAi, failure, "id")), json(R"j({
    "error": {"message": "n is 0 (try 1)", "type": "invalid_request_error", "param": null, "code": null}})j"));
  EXPECT_EQ(json(failure_body(Protocol::kAnthropic, failure, "id")), json(R"j({
    "type": "error", "error": {"type": "invalid_request_error", "message": "n is 0 (try 1)"},
    "request_id": "id"})j"));
  EXPECT_EQ(failure_of({Code::kBusy, "", ""}).status, 429);
  EXPECT_EQ(failure_of({Code::kInternal, "", ""}).status, 500);
}

}  // namespace
}  // namespace weir::server
