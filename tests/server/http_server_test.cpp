#include "server/http_server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

namespace weir::server {
namespace {

using namespace std::chrono_literals;

// Answers every request with its body, or with whom it asks for what where it has none.
class Echo : public HttpHandler {
 public:
  std::optional<HttpAnswer> at_once(const HttpRequest&) override { return std::nullopt; }
  void handle(HttpRequest request, std::shared_ptr<Reply> reply) override {
    const std::string asked = std::string(request.header("host")) + ' ' + request.target;
    reply->send({200, request.body.empty() ? asked : request.body, "text/plain"});
  }
  HttpAnswer refusal(const HttpRequest&, int status, const std::string& message) override {
    return {status, message, "text/plain"};
  }
  Headers common_headers(const HttpRequest&) override { return {}; }
  void record(const AccessRecord&) override {}
};

class HttpServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.unix_path =
        std::filesystem::path(::testing::TempDir()) / ("weir_http_" + std::to_string(getpid()));
    options_.limits.read_time = 300ms;
    auto server = HttpServer::start(options_, echo_);
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = *std::move(server);
  }

  // All that comes back on a connection that sends this and then waits.
  std::string answer_to(const std::string& sent) const {
    const int client = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, options_.unix_path.c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(::connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::send(client, sent.data(), sent.size(), 0), static_cast<ssize_t>(sent.size()));
    std::string answer;
    char buffer[4096];
    for (ssize_t n; (n = ::recv(client, buffer, sizeof(buffer), 0)) > 0;) {
      answer.append(buffer, static_cast<size_t>(n));
    }
    ::close(client);
    return answer;
  }

 private:
  HttpOptions options_;
  Echo echo_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, a_whole_request_is_answered) {
  const std::string answer =
      answer_to("POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\nabc")) << answer;
}

TEST_F(HttpServerTest, a_request_that_does_not_come_to_its_end_in_time_is_told_so) {
  for (const char* part :
       {"P", "POST / HTTP/1.1\r\nHost: x\r\n", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nab",
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"}) {
    const std::string answer = answer_to(part);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 408 ")) << part << '\n' << answer;
    EXPECT_NE(answer.find("Connection: close\r\n"), std::string::npos) << answer;
  }
}

TEST_F(HttpServerTest, only_old_clients_may_leave_out_whom_they_ask) {
  EXPECT_TRUE(answer_to("GET / HTTP/1.1\r\nConnection: close\r\n\r\n").starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(answer_to("GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 200 "));
}

// RFC 9112, 3.2.2: the host of a whole URI counts, not the header's.
TEST_F(HttpServerTest, a_target_may_be_a_whole_uri) {
  const std::pair<const char*, const char*> cases[] = {
      {"http://box.example:81/a?b=c", "box.example:81 /a?b=c"},
      {"HTTPS://box.example/", "box.example /"},
      {"http://box.example", "box.example /"},
      {"http://box.example?b", "box.example /?b"},
      {"http:///a", "x http:///a"},
      {"ftp://box.example/a", "x ftp://box.example/a"},
      {"/a?u=http://box.example/", "x /a?u=http://box.example/"},
  };
  for (const auto& [target, asked] : cases) {
    const std::string answer =
        answer_to(std::string("GET ") + target + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    EXPECT_TRUE(answer.ends_with("\r\n\r\n" + std::string(asked))) << target << '\n' << answer;
  }
}

}  // namespace
}  // namespace weir::server
