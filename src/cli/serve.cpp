// weir serve: the model over HTTP, until a signal ends it.
#include <fmt/core.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/engine.h"
#include "cli/exit_code.h"
#include "cli/model_identity.h"
#include "cli/options.h"
#include "cli/stop_signal.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "server/server.h"
#include "sessions/scheduler.h"

namespace weir::cli {
namespace {

struct Options {
  ModelOptions model;
  BackendOptions backend;
  server::ServerOptions server;
  std::vector<std::string> keys, aliases;
  std::string key_file, state_folder;
  int64_t port = 8080;
  int64_t most_running = 8, most_waiting = 64;
  int64_t cache_bytes = int64_t{1} << 30;
  int64_t body_bytes = int64_t{16} << 20;
  int64_t connections = 512;
  int64_t drain_seconds = 30;
  std::optional<bool> think;
};

// One key a line; empty lines and those that begin with # are none.
Result<std::vector<std::string>> read_keys(const std::string& path) {
  constexpr std::streamsize kLongest = 1 << 20;
  std::ifstream file(path);
  if (!file) return Error{Code::kNotFound, fmt::format("cannot read {}", path), "--api-key-file names it"};
  std::string text(kLongest + 1, '\0');
  file.read(text.data(), kLongest + 1);
  if (file.bad()) {
    return Error{Code::kInvalidArgument, fmt::format("cannot read {}: it is no file", path),
                 "--api-key-file names a file with one key a line"};
  }
  if (file.gcount() > kLongest) {
    return Error{Code::kInvalidArgument, fmt::format("{} is longer than {} bytes", path, kLongest),
                 "a file of keys has one a line"};
  }
  text.resize(static_cast<size_t>(file.gcount()));
  std::istringstream lines(text);
  std::vector<std::string> keys;
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    keys.push_back(line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin));
  }
  if (keys.empty()) return Error{Code::kInvalidArgument, fmt::format("{} holds no key", path), "one a line"};
  return keys;
}

// A key that no header brings would lock everybody out: headers lose blanks at their ends, and clients differ
// in what they make of other than visible ASCII characters. The message does not show the key.
Status check_keys(const std::vector<std::string>& keys) {
  constexpr size_t kLongest = 1024;
  const auto is_visible = [](char c) { return c > ' ' && c <= '~'; };
  for (const std::string& key : keys) {
    if (key.size() <= kLongest && std::all_of(key.begin(), key.end(), is_visible)) continue;
    return Error{Code::kInvalidArgument, "one of the API keys is none that a request can bring",
                 fmt::format("keys are visible ASCII characters, without blanks, at most {}", kLongest)};
  }
  return {};
}

// What clients call the model: the name it was asked for by, or that of its folder.
std::string model_id(const std::string& model) {
  if (!std::filesystem::is_directory(model)) return model;
  const std::filesystem::path path = std::filesystem::path(model).lexically_normal();
  const std::string name = (path.has_filename() ? path : path.parent_path()).filename().string();
  return name.empty() || name == "." || name == ".." ? "weir" : name;
}

server::ServedModel served_model(const Engine& engine, const Options& options) {
  server::ServedModel model;
  model.id = model_id(options.model.model);
  model.aliases = options.aliases;
  model.layout = engine.layout;
  model.tokenizer = engine.tokenizer.get();
  model.defaults = engine.defaults;
  model.is_diffusion = engine.generator->is_diffusion();
  model.think = options.think.value_or(thinks_by_default(engine.layout));
  model.context = engine.generator->context();
  model.loaded_at = std::time(nullptr);
  return model;
}

Result<server::ServerOptions> server_options(const Options& options) {
  server::ServerOptions server = options.server;
  server.http.port = static_cast<uint16_t>(options.port);
  server.http.limits.body_bytes = static_cast<uint64_t>(options.body_bytes);
  server.http.limits.connections = static_cast<size_t>(options.connections);
  server.access.keys = options.keys;
  if (!options.key_file.empty()) {
    WEIR_TRY(const std::vector<std::string> keys, read_keys(options.key_file));
    server.access.keys.insert(server.access.keys.end(), keys.begin(), keys.end());
  }
  WEIR_RETURN_IF_ERROR(check_keys(server.access.keys));
  return server;
}

Result<SchedulerOptions> scheduler_options(const Options& options, const std::string& model_folder) {
  SchedulerOptions scheduling;
  scheduling.most_running = options.most_running;
  scheduling.most_waiting = options.most_waiting;
  scheduling.cache_bytes = static_cast<uint64_t>(options.cache_bytes);
  scheduling.state_folder = options.state_folder;
  scheduling.notice = [](const std::string& sentence) { tell(fmt::format("weir: {}\n", sentence)); };
  if (!options.state_folder.empty()) {
    WEIR_TRY(scheduling.model_identity, model_identity(model_folder));
  }
  return scheduling;
}

Result<int> serve(const Options& options) {
  WEIR_TRY(const server::ServerOptions server_flags, server_options(options));
  WEIR_TRY(Engine engine, load_engine(options.model, options.backend, {.parallel = options.most_running}));
  WEIR_TRY(const SchedulerOptions scheduling, scheduler_options(options, engine.folder));
  StopSignal stop;
  WEIR_TRY(const auto scheduler, Scheduler::start(*engine.generator, *engine.tokenizer, scheduling));
  server::ServedModel model = served_model(engine, options);
  const std::string id = model.id;
  WEIR_TRY(const auto server, server::Server::start(std::move(model), *scheduler, server_flags));
  tell(fmt::format("weir: {} is ready on {}\n", id, server->address()));
  stop.wait();
  tell(fmt::format("weir: no new requests; answers may take {} s to end\n", options.drain_seconds));
  server->drain(static_cast<double>(options.drain_seconds));
  return kDone;
}

// A flag that may be given several times, each time with one value.
CLI::Option* add_list(CLI::App& command, const std::string& name, std::vector<std::string>& values,
                      const std::string& help) {
  return command.add_option(name, values, help)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
}

// "https://chat.example:444", as browsers write it, or "*". Pages without an origin of their own say "null",
// and anybody can make one.
std::string check_origin(const std::string& origin) {
  const size_t scheme = origin.find("://");
  const bool sound = scheme != std::string::npos && scheme > 0 && scheme + 3 < origin.size() &&
                     origin.find_first_of("/?#@ ", scheme + 3) == std::string::npos;
  return sound || origin == "*" ? "" : "'" + origin + "' is no origin such as https://chat.example";
}

std::string check_host_name(const std::string& name) {
  const bool sound = !name.empty() && name.find_first_of(":/?#@[] ") == std::string::npos;
  return sound ? "" : "'" + name + "' is no name such as chat.example: no scheme, no port";
}

void add_network_flags(CLI::App& command, Options& options) {
  constexpr const char* kGroup = "Network";
  constexpr int64_t kMostPort = 65535;
  server::HttpOptions& http = options.server.http;
  command.add_option("--host", http.host, "Address to listen on; other machines need an API key")
      ->capture_default_str()
      ->type_name("ADDRESS")
      ->group(kGroup);
  add_count(command, "--port", options.port, 0, "Port; 0 takes a free one; default: 8080", kMostPort)
      ->group(kGroup);
  command.add_option("--unix", http.unix_path, "Listen on this UNIX socket instead")
      ->type_name("PATH")
      ->group(kGroup);
  add_list(command, "--api-key", options.keys, "Key that requests must bring; may be repeated")
      ->envname("WEIR_API_KEY")
      ->type_name("KEY")
      ->group(kGroup);
  command.add_option("--api-key-file", options.key_file, "File with one key a line")
      ->type_name("FILE")
      ->group(kGroup);
  add_list(command, "--cors-origin", options.server.access.origins,
           "Let web pages of this origin ask; * lets all; may be repeated")
      ->check(check_origin)
      ->type_name("ORIGIN")
      ->group(kGroup);
  add_list(command, "--allow-host", options.server.access.hosts,
           "Another name to ask the server by without a key; * lets all; may be repeated")
      ->check(check_host_name)
      ->type_name("NAME")
      ->group(kGroup);
  add_count(command, "--max-connections", options.connections, 1, "Connections at a time; default: 512")
      ->group(kGroup);
  add_count(command, "--max-body", options.body_bytes, 1, "Longest request in bytes; default: 16Mi")
      ->group(kGroup);
  add_count(command, "--drain-seconds", options.drain_seconds, 0,
            "Time for answers to end after SIGTERM, SIGHUP or Ctrl-C; default: 30")
      ->group(kGroup);
  command
      .add_flag("--log,!--no-log", options.server.log, "A line on stderr for each request (default), or not")
      ->group(kGroup);
}

void add_queue_flags(CLI::App& command, Options& options) {
  constexpr const char* kGroup = "Answers";
  add_list(command, "--alias", options.aliases,
           "Another name that requests may call the model; may be repeated")
      ->type_name("NAME")
      ->group(kGroup);
  add_think(command, options.think, "Let the model think first where a request does not say, or not")
      ->group(kGroup);
  constexpr int64_t kMostRunning = 4096;  // each takes memory from the start
  add_count(command, "--max-running", options.most_running, 1, "Answers that take turns; default: 8",
            kMostRunning)
      ->group(kGroup);
  add_count(command, "--max-waiting", options.most_waiting, 1, "Answers in the queue; default: 64")
      ->group(kGroup);
  add_count(command, "--cache-bytes", options.cache_bytes, 0, "Memory for prefixes of prompts; default: 1Gi")
      ->group(kGroup);
  command.add_option("--state-dir", options.state_folder, "Folder where prefixes survive a restart")
      ->type_name("FOLDER")
      ->group(kGroup);
}

}  // namespace

Verb add_serve(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("serve", "Offer OpenAI's and Anthropic's APIs over HTTP");
  add_network_flags(*command, *options);
  add_queue_flags(*command, *options);
  options->model.add(*command);
  options->backend.add(*command);
  return {command, [options] {
            const auto code = serve(*options);
            return code.ok() ? *code : report(code.error());
          }};
}

}  // namespace weir::cli
