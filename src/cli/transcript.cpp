#include "cli/transcript.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <span>
#include <string_view>

#include "base/mapped_file.h"
#include "chat/json_text.h"

namespace weir::cli {
namespace {

const char* role_name(Role role) {
  switch (role) {
    case Role::kSystem:
      return "system";
    case Role::kUser:
      return "user";
    case Role::kAssistant:
      return "assistant";
    case Role::kTool:
      return "tool";
  }
  return "user";
}

Error not_a_transcript(const std::string& path, const std::string& what) {
  return {Code::kCorrupt, path + " is not a saved conversation: " + what,
          "expected {\"messages\": [...]} as /save writes it"};
}

}  // namespace

Status save_transcript(const Conversation& conversation, const std::string& path) {
  Json messages = Json::array();
  for (const Message& message : conversation.messages) {
    Json out{{"role", role_name(message.role)}, {"content", message.content.text()}};
    if (message.reasoning) out["reasoning_content"] = *message.reasoning;
    messages.push_back(std::move(out));
  }
  const std::string unfinished = path + ".tmp";
  std::ofstream file(unfinished, std::ios::binary);
  file << Json{{"messages", std::move(messages)}}.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
  file.close();
  if (file && std::rename(unfinished.c_str(), path.c_str()) == 0) return Ok{};
  const Error error{Code::kNotFound, "cannot write " + path + ": " + std::strerror(errno),
                    "name another file"};
  std::remove(unfinished.c_str());
  return error;
}

Result<Conversation> load_transcript(const std::string& path) {
  WEIR_TRY(const MappedFile file, MappedFile::open(path));
  const std::span<const std::byte> bytes = file.bytes();
  const auto json = parse_json(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  if (!json.ok()) return not_a_transcript(path, json.error().message);
  if (!json->is_object() || !json->contains("messages")) return not_a_transcript(path, "no \"messages\"");
  auto conversation = parse_messages((*json)["messages"]);
  if (!conversation.ok()) return not_a_transcript(path, conversation.error().message);
  return conversation;
}

}  // namespace weir::cli
