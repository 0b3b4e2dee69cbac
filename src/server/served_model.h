// The model that a server offers, as the translations of requests see it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "chat/layout.h"
#include "generate/defaults.h"
#include "grammar/token_trie.h"
#include "text/tokenizer.h"

namespace weir::server {

struct ServedModel {
  std::string id;                    // as /v1/models lists it
  std::vector<std::string> aliases;  // further names that clients may use
  ChatLayout layout = ChatLayout::kQwen;
  const Tokenizer* tokenizer = nullptr;  // outlives the server
  // The tokenizer's, for grammars; Server::start makes it if it is null.
  std::shared_ptr<const grammar::TokenTrie> vocabulary;
  GenerationDefaults defaults;
  bool is_diffusion = false;
  bool think = true;  // where a request does not say
  int64_t context = 0;
  int64_t loaded_at = 0;  // seconds since 1970
};

}  // namespace weir::server
