#include "cli/transcript.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>

#include "base/mapped_file.h"
#include "chat/json_text.h"

namespace weir::cli {
namespace {

namespace fs = std::filesystem;

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

Json to_json(const MessageContent& content) {
  if (!content.is_list) return content.text();
  Json items = Json::array();
  for (const std::string& text : content.items) items.push_back({{"type", "text"}, {"text", text}});
  return items;
}

Json to_json(const Message& message) {
  Json out{{"role", role_name(message.role)}, {"content", to_json(message.content)}};
  if (message.reasoning) out["reasoning_content"] = *message.reasoning;
  if (!message.tool_call_id.empty()) out["tool_call_id"] = message.tool_call_id;
  for (const ToolCall& call : message.tool_calls) {
    out["tool_calls"].push_back({{"id", call.id},
                                 {"type", "function"},
                                 {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return out;
}

Error not_a_transcript(const std::string& path, const std::string& what) {
  return {Code::kCorrupt, path + " is not a saved conversation: " + what,
          "expected {\"messages\": [...]} as /save writes it"};
}

Error cannot_write(const std::string& path, const std::string& why) {
  return {Code::kInternal, "cannot write " + path + ": " + why, "name another file"};
}

bool write_and_close(int descriptor, const std::string& text) {
  std::FILE* file = ::fdopen(descriptor, "wb");
  if (file == nullptr) return ::close(descriptor) != 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  return std::fclose(file) == 0 && written;
}

// The file at `path`, or where its link leads, holds either its old content or all of `text`. An existing
// file keeps its permissions; a new one is the owner's alone.
Status replace_file(const std::string& path, const std::string& text) {
  if (path.find('\0') != std::string::npos) return cannot_write(path, "the name contains a zero byte");
  std::error_code failed;
  const bool exists = fs::exists(path, failed);
  const fs::path target = exists ? fs::canonical(path, failed) : fs::path(path);
  if (failed) return cannot_write(path, failed.message());
  if (exists && !fs::is_regular_file(target, failed)) return cannot_write(path, "it is not a regular file");

  std::string unfinished = target.string() + ".XXXXXX";
  const int descriptor = ::mkstemp(unfinished.data());
  if (descriptor < 0) return cannot_write(path, std::strerror(errno));
  if (exists) fs::permissions(unfinished, fs::status(target, failed).permissions(), failed);
  if (write_and_close(descriptor, text) && std::rename(unfinished.c_str(), target.c_str()) == 0) return Ok{};
  const Error error = cannot_write(path, std::strerror(errno));
  std::remove(unfinished.c_str());
  return error;
}

}  // namespace

Status save_transcript(const Conversation& conversation, const std::string& path) {
  Json messages = Json::array();
  for (const Message& message : conversation.messages) messages.push_back(to_json(message));
  return replace_file(
      path,
      Json{{"messages", std::move(messages)}}.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
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
