// Errors as values. A file, a flag or a request can never crash the program: every function that meets one
// returns Result<T>, holding either the value or an Error with one sentence and a hint.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace weir {

enum class Code {
  kInvalidArgument,  // a flag or a request asks for something impossible
  kTooLong,          // a prompt that does not fit the context
  kNotFound,         // a file, model or tensor is missing
  kCorrupt,          // a file is not what its format promises
  kUnsupported,      // well-formed, but weir does not do it
  kOutOfMemory,
  kDevice,     // the CPU lacks a feature, or a GPU call failed
  kBusy,       // no room for another job right now; asking again later may help
  kCancelled,  // the caller asked to stop
  kInternal,   // a third-party library failed in a way that no input explains
};

// `message` is one sentence: what, where, found and expected. `hint` says what to do about it; may be empty.
struct Error {
  Code code = Code::kInternal;
  std::string message;
  std::string hint;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit by design
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit by design

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Only valid when ok().
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }

  // Only valid when not ok().
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

struct Ok {};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Ok) {}                                                  // NOLINT: implicit by design
  Result(Error error) : error_(std::move(error)), ok_(false) {}  // NOLINT: implicit by design

  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  const Error& error() const& { return error_; }
  Error&& error() && { return std::move(error_); }

 private:
  Error error_;
  bool ok_ = true;
};

using Status = Result<void>;

}  // namespace weir

#define WEIR_CONCAT_INNER(a, b) a##b
#define WEIR_CONCAT(a, b) WEIR_CONCAT_INNER(a, b)

// WEIR_TRY(auto x, f()): x = the value of f(), or return its error from this function.
#define WEIR_TRY(declaration, expression) \
  WEIR_TRY_IMPL(WEIR_CONCAT(weir_result_, __LINE__), declaration, expression)
#define WEIR_TRY_IMPL(result, declaration, expression) \
  auto result = (expression);                          \
  if (!result.ok()) return std::move(result).error();  \
  declaration = *std::move(result)

// WEIR_RETURN_IF_ERROR(status): the same for an expression without a value.
#define WEIR_RETURN_IF_ERROR(expression)                                                           \
  do {                                                                                             \
    if (auto weir_status = (expression); !weir_status.ok()) return std::move(weir_status).error(); \
  } while (0)
