// weir doctor: the machine, the kernels chosen and why, and the settings in force.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <array>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/cpu_features.h"
#include "cli/bandwidth.h"
#include "cli/engine.h"
#include "cli/environment.h"
#include "cli/exit_code.h"
#include "cli/json_report.h"
#include "cli/model_folder.h"
#include "cli/options.h"
#include "cli/quantity.h"
#include "cli/verbs.h"
#include "kernels/cuda/gpu_report.h"
#include "models/kernel_use.h"

namespace weir::cli {
namespace {

constexpr int kPasses = 7;

struct Options {
  ModelOptions model;
  BackendOptions backend;
  SamplingOptions sampling;
  int64_t buffer = 0;  // bytes; 0: as measure_bandwidth chooses
  bool json = false;
};

Report machine_json(const BackendOptions& backend, const Bandwidth& bandwidth) {
  const CpuFeatures& cpu = cpu_features();
  return {{"cpu", cpu.model},
          {"avx2", cpu.avx2},
          {"avx512", cpu.avx512},
          {"avx512_vnni", cpu.avx512_vnni},
          {"avx512_amx", cpu.avx512_amx},
          {"hardware_threads", cpu.hardware_threads},
          {"threads", backend.chosen_threads()},
          {"last_level_cache_bytes", last_level_cache_bytes()},
          {"memory_bytes", total_memory_bytes()},
          {"available_memory_bytes", available_memory_bytes()},
          {"read_gigabytes_per_second",
           {{"median", bandwidth.gigabytes_per_second},
            {"slowest", bandwidth.slowest},
            {"fastest", bandwidth.fastest},
            {"passes", bandwidth.passes},
            {"buffer_bytes", bandwidth.buffer_bytes}}}};
}

// Why each instruction set is used or not.
Report instruction_sets_json(const BackendOptions& backend, Isa chosen) {
  Report out = Report::array();
  for (const Isa isa : all_isas()) {
    std::string why = fmt::format("not used: {} is faster", isa_name(chosen));
    if (!cpu_features().supports(isa)) {
      why = "not used: this CPU does not have it";
    } else if (isa == chosen) {
      why = backend.isa.empty() ? "used: the best that this CPU has" : "used: --isa asks for it";
    } else if (isa > chosen) {
      why = fmt::format("not used: --isa {} asks for less", backend.isa);
    }
    out.push_back({{"name", isa_name(isa)}, {"used", isa == chosen}, {"why", why}});
  }
  return out;
}

// The kernel that reads each kind of weight, with the number of matrices.
Report kernels_json(const std::vector<KernelUse>& uses) {
  Report out = Report::array();
  for (const KernelUse& use : uses) {
    out.push_back({{"weights", use.weights}, {"kernel", use.kernel}, {"matrices", use.matrices}});
  }
  return out;
}

// Each shared flag's value, and whether the command line, the environment or nobody set it.
Report settings_json(const CLI::App& command) {
  Report out = Report::array();
  for (const CLI::Option* option : command.get_options()) {
    const std::string variable = option->get_envname();
    if (variable.empty()) continue;
    const bool from_environment = !environment(variable.c_str()).empty();
    const bool set = option->count() > 0;
    const std::string value = set ? option->results().back() : option->get_default_str();
    out.push_back({{"flag", "--" + option->get_lnames().front()},
                   {"value", value},
                   {"from", !set                                                         ? "default"
                            : from_environment && value == environment(variable.c_str()) ? variable
                                                                                         : "flag"}});
  }
  return out;
}

Report model_json(const Engine& engine) {
  const Sampling& s = engine.defaults.sampling;
  return {{"folder", engine.folder},
          {"kernels", engine.generator->steps().name()},
          {"bytes", engine.checkpoint_bytes},
          {"bytes_per_step", engine.generator->bytes_per_step()},
          {"step", engine.generator->is_diffusion() ? "denoising pass" : "token"},
          {"context", engine.generator->context()},
          {"sampling",
           {{"temperature", s.temperature}, {"top_k", s.top_k}, {"top_p", s.top_p}, {"min_p", s.min_p}}}};
}

Report gpu_json(const GpuReport& gpu) {
  Report steps = Report::array();
  for (const StepKernels& k : gpu.kernels) {
    steps.push_back({{"step", k.step}, {"few_rows", k.few}, {"many_rows", k.many}});
  }
  return {{"name", gpu.name},
          {"multiprocessors", gpu.multiprocessors},
          {"memory_bytes", gpu.memory_bytes},
          {"free_bytes", gpu.free_bytes},
          {"copied_gigabytes_per_second", gpu.copied_bytes_per_second * 1e-9},
          {"steps", steps}};
}

std::string size_field(const Report& value) {
  return size_text(value.get<uint64_t>());
}

std::string machine_text(const Report& machine) {
  const Report& read = machine["read_gigabytes_per_second"];
  return fmt::format(
      "cpu         {}\n"
      "threads     {} of {}\n"
      "memory      {} of {} available, last-level cache {}\n"
      "bandwidth   {:.1f} GB/s read with all threads ({:.1f} to {:.1f} in {} passes over {})\n",
      machine["cpu"].get<std::string>(), machine["threads"].get<int>(),
      machine["hardware_threads"].get<int>(), size_field(machine["available_memory_bytes"]),
      size_field(machine["memory_bytes"]), size_field(machine["last_level_cache_bytes"]),
      read["median"].get<double>(), read["slowest"].get<double>(), read["fastest"].get<double>(),
      read["passes"].get<int>(), size_field(read["buffer_bytes"]));
}

std::string gpu_text(const Report& gpu) {
  return fmt::format(
      "gpu         {}, {} multiprocessors, {} of {} free with the model loaded\n"
      "gpu copies  {:.0f} GB/s, read and written\n",
      gpu["name"].get<std::string>(), gpu["multiprocessors"].get<int>(), size_field(gpu["free_bytes"]),
      size_field(gpu["memory_bytes"]), gpu["copied_gigabytes_per_second"].get<double>());
}

// By the rows of a pass: up to 8, or more.
std::string gpu_steps_text(const Report& gpu) {
  std::string out = "\nkernels of the GPU's steps, for up to 8 rows | for more\n";
  for (const Report& step : gpu["steps"]) {
    fmt::format_to(std::back_inserter(out), "  {:<22} {} | {}\n", step["step"].get<std::string>(),
                   step["few_rows"].get<std::string>(), step["many_rows"].get<std::string>());
  }
  return out;
}

std::string text_of(const Report& r) {
  std::string out = machine_text(r["machine"]);
  if (r.contains("gpu")) out += gpu_text(r["gpu"]);
  const Report& model = r["model"];
  fmt::format_to(
      std::back_inserter(out), "model       {}, {}, {} read per {}, context {}\n\ninstruction sets\n",
      model["folder"].get<std::string>(), size_field(model["bytes"]), size_field(model["bytes_per_step"]),
      model["step"].get<std::string>(), model["context"].get<int64_t>());
  const auto row = [&](const Report& name, const Report& value) {
    fmt::format_to(std::back_inserter(out), "  {:<22} {}\n", name.get<std::string>(),
                   value.get<std::string>());
  };
  for (const Report& isa : r["instruction_sets"]) row(isa["name"], isa["why"]);
  out += "\nkernels\n";
  for (const Report& kernel : r["kernels"]) row(kernel["weights"], kernel["kernel"]);
  if (r.contains("gpu")) out += gpu_steps_text(r["gpu"]);
  out += "\nsettings\n";
  for (const Report& setting : r["settings"]) {
    if (setting["from"] == "default" && setting["value"] == "") continue;
    row(setting["flag"],
        fmt::format("{} ({})", setting["value"].get<std::string>(), setting["from"].get<std::string>()));
  }
  return out;
}

Result<int> doctor(const Options& options, const CLI::App& command) {
  WEIR_TRY(const Engine engine, load_engine(options.model, options.backend));
  WEIR_TRY(const Isa isa, options.backend.chosen_isa());
  std::optional<uint64_t> buffer;
  if (options.buffer > 0) buffer = static_cast<uint64_t>(options.buffer);
  WEIR_TRY(const Bandwidth bandwidth, measure_bandwidth(*engine.pool, kPasses, buffer));
  Report out{{"version", WEIR_VERSION},
             {"machine", machine_json(options.backend, bandwidth)},
             {"model", model_json(engine)},
             {"instruction_sets", instruction_sets_json(options.backend, isa)},
             {"kernels", kernels_json(engine.generator->kernels())},
             {"settings", settings_json(command)},
             {"folders",
              {{"pocket_models", pocket_folder()}, {"hub_cache", hub_cache()}, {"state", state_folder()}}}};
  if (options.backend.device == "cuda") {
    WEIR_TRY(const GpuReport gpu, report_gpu(0));
    out["gpu"] = gpu_json(gpu);
  }
  return options.json ? print_json(out) : print_answer(text_of(out));
}

}  // namespace

Verb add_doctor(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("doctor", "Report the machine, its memory bandwidth, kernels and settings");
  command->add_flag("--json", options->json, "Report as JSON");
  add_count(*command, "--buffer", options->buffer, int64_t{1} << 20,
            "Bytes to measure reading with, such as 16GiB; default: above the last-level cache");
  options->model.add(*command);
  options->sampling.add(*command);
  options->backend.add(*command);
  return {command, [options, command] {
            const auto code = doctor(*options, *command);
            return code.ok() ? *code : report(code.error());
          }};
}

}  // namespace weir::cli
