// Requests of any bytes to every endpoint: the translation never crashes, and what it refuses has a sentence.
// The first byte chooses the endpoint and the model; the rest is the body.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "chat/json_text.h"
#include "server/access.h"
#include "server/endpoints.h"
#include "server/http_message.h"

namespace weir::server {
namespace {

constexpr std::array kPaths = {"/v1/chat/completions", "/v1/completions",           "/v1/responses",
                               "/v1/messages",         "/v1/messages/count_tokens", "/v1/canvas"};

const Tokenizer& tokenizer(bool gemma) {
  static const auto qwen_tokenizer = Tokenizer::load("models/pocket-qwen/tokenizer.json");
  static const auto gemma_tokenizer = Tokenizer::load("models/pocket-gemma/tokenizer.json");
  const auto& loaded = gemma ? gemma_tokenizer : qwen_tokenizer;
  if (!loaded.ok()) std::abort();  // run it in the project's root
  return *loaded;
}

ServedModel served(bool gemma) {
  ServedModel model;
  model.id = "m";
  model.layout = gemma ? ChatLayout::kGemma : ChatLayout::kQwen;
  static const auto vocabulary = std::make_shared<const grammar::TokenTrie>(tokenizer(false));
  model.tokenizer = &tokenizer(gemma);
  model.vocabulary = vocabulary;
  model.is_diffusion = gemma;
  return model;
}

void send_body(uint8_t choice, std::string_view bytes) {
  const auto body = parse_json(bytes);
  if (!body.ok()) return;
  const ServedModel model = served(choice % 2 == 1);
  const Endpoint* endpoint = find_endpoint(kPaths[choice / 2 % kPaths.size()]);
  const auto request = endpoint->parse(*body, model);
  if (!request.ok()) {
    const Failure failure = failure_of(request.error());
    if (failure.status >= 500 || failure.message.empty()) std::abort();
    (void)failure_body(endpoint->protocol, failure, "id");
  } else if (request->prompts.empty()) {
    std::abort();
  }
}

// A target and headers of any bytes.
void send_head(std::string_view bytes) {
  HttpRequest request;
  request.target = std::string(bytes);
  for (const char* name : {"origin", "host", "authorization", "x-api-key"}) {
    request.headers[name] = std::string(bytes);
  }
  const AccessRules rules{{"secret"}, {"https://a.example"}, {}}, open{{}, rules.origins, {"b.example"}};
  (void)has_key(request, rules);
  (void)origin_allowed(request, rules);
  (void)host_allowed(request, open);
  (void)find_endpoint(request.path());
  const std::string head =
      response_head(200, {{"x-request-id", request_id_or_new(bytes)}, {"x", request.target}});
  if (head.find("\r\n\r\n") != head.size() - 4) std::abort();
}

}  // namespace
}  // namespace weir::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] == 255) {
    weir::server::send_head(rest);
  } else {
    weir::server::send_body(data[0], rest);
  }
  return 0;
}
