// Files and helpers that the tests of src/text share. Paths are relative to the project's root.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace weir::testing {

inline const std::string kPocketQwen = "models/pocket-qwen/tokenizer.json";
inline const std::string kPocketGemma = "models/pocket-gemma/tokenizer.json";

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

inline nlohmann::json read_json(const std::string& path) {
  return nlohmann::json::parse(read_file(path));
}

inline std::vector<nlohmann::json> read_rows(const std::string& path) {
  std::vector<nlohmann::json> rows;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));
  EXPECT_FALSE(rows.empty()) << path;
  return rows;
}

inline Result<Tokenizer> tokenizer_from_text(std::string_view json) {
  return Tokenizer::from_bytes(std::as_bytes(std::span(json)), "test.json");
}

inline Result<Tokenizer> tokenizer_from(const nlohmann::json& json) {
  return tokenizer_from_text(json.dump());
}

// Fails the test where loading fails.
inline Tokenizer must_load(Result<Tokenizer> tokenizer) {
  if (!tokenizer.ok()) throw std::runtime_error(tokenizer.error().message);
  return *std::move(tokenizer);
}

inline std::vector<int32_t> must_encode(const Tokenizer& tokenizer, std::string_view text,
                                        AddedTokens added = AddedTokens::kRecognise) {
  auto ids = tokenizer.encode(text, added);
  if (!ids.ok()) throw std::runtime_error(ids.error().message);
  return *std::move(ids);
}

// A small file of Qwen's kind: the 256 bytes and no merges.
inline nlohmann::json bytes_only() {
  nlohmann::json json = read_json(kPocketQwen);
  nlohmann::json vocab = nlohmann::json::object();
  for (const auto& [spelling, id] : json["model"]["vocab"].items()) {
    if (id < 256) vocab[spelling] = id;
  }
  json["model"]["vocab"] = vocab;
  json["model"]["merges"] = nlohmann::json::array();
  json["added_tokens"] = nlohmann::json::array();
  return json;
}

}  // namespace weir::testing
