// The verbs of the command line, each in a file of its own.
#pragma once

#include <functional>

namespace CLI {
class App;
}  // namespace CLI

namespace weir::cli {

// A verb and what it does once its flags are parsed; `run` returns the exit code.
struct Verb {
  CLI::App* command = nullptr;
  std::function<int()> run;
};

Verb add_run(CLI::App& app);
Verb add_chat(CLI::App& app);
Verb add_serve(CLI::App& app);
Verb add_inspect(CLI::App& app);
Verb add_tokenize(CLI::App& app);
Verb add_doctor(CLI::App& app);
Verb add_eval(CLI::App& app);
Verb add_bench(CLI::App& app);
Verb add_quantize(CLI::App& app);
Verb add_perplexity(CLI::App& app);
Verb add_synthesize(CLI::App& app);

}  // namespace weir::cli
