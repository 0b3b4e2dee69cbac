// weir: the command line. Parses flags, then hands over to one verb.
#include <fmt/core.h>
#include <langinfo.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <clocale>
#include <csignal>
#include <exception>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/environment.h"
#include "cli/exit_code.h"
#include "cli/suggest.h"
#include "cli/terminal.h"
#include "cli/verbs.h"

namespace weir::cli {
namespace {

constexpr const char* kAbout =
    "weir runs Qwen3.6-35B-A3B, DiffusionGemma-26B-A4B and models of their architectures on this machine.\n"
    "The answer goes to stdout, everything else to stderr.";
constexpr const char* kFooter =
    "Exit codes: 0 done, 1 failed, 2 usage, 3 model or file, 4 device, 130 interrupted.\n"
    "`weir VERB --help` lists a verb's flags.";

std::vector<std::string> verb_names(const std::vector<Verb>& verbs) {
  std::vector<std::string> names;
  names.reserve(verbs.size());
  for (const Verb& verb : verbs) names.push_back(verb.command->get_name());
  return names;
}

std::vector<std::string> flag_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

int usage_error(const std::string& message, const std::string& hint) {
  return report({Code::kInvalidArgument, message, hint});
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known,
                         const std::string& otherwise) {
  const std::string near = nearest(word, known);
  return near.empty() ? otherwise : fmt::format("did you mean {}?", near);
}

int unknown_verb(const std::string& word, const std::vector<Verb>& verbs) {
  return usage_error(fmt::format("unknown verb '{}'", word),
                     did_you_mean(word, verb_names(verbs), "`weir --help` lists the verbs"));
}

// Something after the verb that it does not take.
int unexpected(const std::string& word, const CLI::App& command) {
  const std::string& verb = command.get_name();
  if (word.size() < 2 || word[0] != '-') {
    return usage_error(fmt::format("'{}' is one argument too many for weir {}", word, verb),
                       "put text with spaces in quotes");
  }
  const std::string flag = word.substr(0, word.find('='));
  return usage_error(
      fmt::format("weir {} has no flag '{}'", verb, flag),
      did_you_mean(flag, flag_names(command),
                   fmt::format("`weir {} --help` lists them; text that begins with a dash goes "
                               "behind --",
                               verb)));
}

// An empty value is what an unset variable of a script leaves: it must not pass for a flag that was not
// given, such as --out or --api-key. A system message may be empty.
void refuse_empty_values(CLI::App& command) {
  const auto is_given = [](const std::string& text) {
    return text.empty() ? std::string("the value is empty") : std::string();
  };
  for (CLI::Option* option : command.get_options()) {
    if (!option->nonpositional() || option->check_lname("system")) continue;
    option->check(CLI::Validator(is_given, ""));
  }
}

// Where the flag that a message is about may have come from.
std::string parse_hint(const std::vector<Verb>& verbs, const std::string& message) {
  for (const Verb& verb : verbs) {
    if (!verb.command->parsed()) continue;
    for (const CLI::Option* option : verb.command->get_options()) {
      const std::string& variable = option->get_envname();
      if (variable.empty() || environment(variable.c_str()).empty()) continue;
      if (message.find("--" + option->get_lnames().front()) != std::string::npos) {
        return fmt::format("{} is '{}' in the environment", variable, environment(variable.c_str()));
      }
    }
  }
  return "`weir --help` and `weir VERB --help` list what there is";
}

int run_verb(CLI::App& app, const std::vector<Verb>& verbs) {
  const std::vector<std::string> stray = app.remaining();
  for (const Verb& verb : verbs) {
    if (!verb.command->parsed()) continue;
    if (!stray.empty()) return unknown_verb(stray.front(), verbs);
    std::vector<std::string> extra = verb.command->remaining();
    std::erase(extra, "--");  // CLI11 lists the mark before text among what is left over
    return extra.empty() ? verb.run() : unexpected(extra.front(), *verb.command);
  }
  if (!stray.empty()) return unknown_verb(stray.front(), verbs);
  tell(fmt::format("{}", app.help()));
  return kUsage;
}

// Line editing reads characters by the locale; text is UTF-8 whatever the locale says.
void use_utf8() {
  const char* chosen = std::setlocale(LC_CTYPE, "");
  if (chosen == nullptr || std::string_view(::nl_langinfo(CODESET)) != "UTF-8") {
    std::setlocale(LC_CTYPE, "C.UTF-8");
  }
}

int main_of_weir(int argc, char** argv) {
  // A closed pipe ends the program quietly, as it does for other tools, even where a parent ignores the
  // signal.
  std::signal(SIGPIPE, SIG_DFL);
  occupy_closed_streams();
  use_utf8();

  CLI::App app(kAbout, "weir");
  app.set_version_flag("--version", "weir " WEIR_VERSION);
  app.get_formatter()->label("SUBCOMMAND", "VERB");
  app.allow_extras();
  app.require_subcommand(0, 1);  // a later word that is also a verb's name is text
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  const std::vector<Verb> verbs = {add_run(app),      add_chat(app),      add_serve(app),
                                   add_inspect(app),  add_tokenize(app),  add_doctor(app),
                                   add_eval(app),     add_bench(app),     add_synthesize(app),
                                   add_quantize(app), add_perplexity(app)};
  app.footer(kFooter);  // after the verbs, which would inherit it
  // With a callback of its own, a verb reads the variables of its flags only when it is the one that runs.
  for (const Verb& verb : verbs) {
    verb.command->parse_complete_callback([] {});
    refuse_empty_values(*verb.command);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help and --version
    std::ostringstream text;
    app.exit(success, text, text);
    return print_answer(text.str());
  } catch (const CLI::ParseError& error) {
    return usage_error(error.what(), parse_hint(verbs, error.what()));
  }
  return run_verb(app, verbs);
}

}  // namespace
}  // namespace weir::cli

int main(int argc, char** argv) {
  try {
    return weir::cli::main_of_weir(argc, argv);
  } catch (const std::bad_alloc&) {
    return weir::cli::report({weir::Code::kOutOfMemory, "out of memory", ""});
  } catch (const std::exception& error) {  // of a library, and a fault of weir not to have met it earlier
    return weir::cli::report({weir::Code::kInternal, error.what(), "please report this"});
  }
}
