// The markers of the Gemma 4 chat layout. Each is an added token of its own.
#pragma once

#include <string_view>

namespace weir::gemma {

inline constexpr std::string_view kBegin = "<bos>";
inline constexpr std::string_view kEnd = "<eos>";
inline constexpr std::string_view kTurn = "<|turn>";
inline constexpr std::string_view kTurnEnd = "<turn|>";
inline constexpr std::string_view kThink = "<|think|>";
inline constexpr std::string_view kChannel = "<|channel>";
inline constexpr std::string_view kChannelEnd = "<channel|>";
inline constexpr std::string_view kTool = "<|tool>";
inline constexpr std::string_view kToolEnd = "<tool|>";
inline constexpr std::string_view kCall = "<|tool_call>";
inline constexpr std::string_view kCallEnd = "<tool_call|>";
inline constexpr std::string_view kResponse = "<|tool_response>";
inline constexpr std::string_view kResponseEnd = "<tool_response|>";
inline constexpr std::string_view kQuote = "<|\"|>";  // at both ends of a text

// The channel of the thinking is called so; a newline follows.
inline constexpr std::string_view kThought = "thought";

}  // namespace weir::gemma
