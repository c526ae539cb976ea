#include "trainer/options.hpp"

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <memory>
#include <reprieve/error.hpp>
#include <reprieve/version.hpp>

#include "trainer/json_section.hpp"

namespace trainer {
namespace {

constexpr const char* kDescription =
    "Trains a neural network to read digits, on any number of MPI ranks, and survives preemption: a SIGTERM or\n"
    "SIGUSR1 to any rank makes all ranks save one checkpoint and leave with exit code 42; the same command then goes\n"
    "on where it stopped.";

constexpr const char* kExamples = R"(Examples:
  Train on 4 ranks, with checkpoints in ./checkpoints, and again to see that there is nothing left to do:
    mpirun -n 4 reprieve-trainer
  Steps slow enough to watch, a preemption from another terminal (one rank is enough), and the same command to resume:
    mpirun -n 4 reprieve-trainer --step-delay-ms 50 --checkpoint-dir run1
    kill -TERM $(pgrep -n reprieve-train)
    mpirun -n 4 reprieve-trainer --step-delay-ms 50 --checkpoint-dir run1
  A checkpoint every 100 steps against deaths without notice, and 20 seconds of grace after a notice:
    mpirun -n 4 reprieve-trainer --checkpoint-every 100 --grace-period 20
  Everything from a file, one value overridden, the result as JSON:
    mpirun -n 4 reprieve-trainer --config configs/trainer.json --epochs 5 --summary summary.json
Exit codes: 0 finished, 42 preempted and saved (start me again), 2 wrong options, 1 any other error.
Settings of the library come from the file's other sections and from REPRIEVE_... variables as well.)";

/// A range that is not repeated in the help, where the text says what matters.
template <class T>
CLI::Validator between(T least, T greatest) {
  return CLI::Range(least, greatest).description("");
}

using Overrides = std::vector<std::function<void(reprieve::Settings&)>>;

/// An option that belongs to the library: not part of the "trainer" section, and applied after file and environment.
template <class T, class Apply>
CLI::Option* add_library_option(CLI::App& app, Overrides& overrides, const std::string& name, Apply apply,
                                const std::string& help) {
  const auto remember = [&overrides, apply](const T& value) {
    overrides.emplace_back([apply, value](reprieve::Settings& settings) { apply(settings, value); });
  };
  return app.add_option_function<T>(name, remember, help)->configurable(false)->group("Checkpoints");
}

void add_library_options(CLI::App& app, Overrides& overrides) {
  using reprieve::Settings;
  add_library_option<std::string>(
      app, overrides, "--checkpoint-dir", [](Settings& s, const std::string& v) { s.directory = v; },
      "directory of the checkpoints (default: checkpoints)");
  add_library_option<std::uint64_t>(
      app, overrides, "--checkpoint-every", [](Settings& s, std::uint64_t v) { s.termination.save_every_steps = v; },
      "save every so many steps, too; 0: only when preempted and at the end")
      ->type_name("STEPS");
  add_library_option<std::uint64_t>(
      app, overrides, "--max-to-keep", [](Settings& s, std::uint64_t v) { s.manager.max_to_keep = v; },
      "newest checkpoints to keep; 0: all");
  add_library_option<double>(
      app, overrides, "--grace-period",
      [](Settings& s, double v) {
        s.termination.grace_period = std::chrono::milliseconds(static_cast<std::int64_t>(v * 1000));
      },
      "time from a notice to the kill: saves at once, trains on, and saves again before its end")
      ->type_name("SECONDS")
      ->check(between(0.0, 1e6));
  add_library_option<std::string>(
      app, overrides, "--writer",
      [](Settings& s, const std::string& v) {
        s.manager.writer = v == "mpio" ? reprieve::WriterKind::mpio : reprieve::WriterKind::direct;
      },
      "how checkpoints are written")
      ->check(CLI::IsMember({"direct", "mpio"}));
  add_library_option<std::string>(
      app, overrides, "--log-level", [](Settings& s, const std::string& v) { s.log.level = v; },
      "how much the library logs on the chief: off, error, warning, info or debug");
}

void add_training_options(CLI::App& app, Options& options) {
  const std::map<std::string, OptimizerKind> optimizers{{"sgd", OptimizerKind::sgd}, {"adam", OptimizerKind::adam}};
  const auto at_least_1 = between(std::uint64_t{1}, std::uint64_t{1'000'000'000});
  app.add_option("--data", options.data,
                 "data set: gzip-compressed lines of 64 pixels and the digit (default: digits)");
  app.add_option("--epochs", options.epochs, "when to stop")->capture_default_str()->check(at_least_1);
  app.add_option("--steps-per-epoch", options.steps_per_epoch, "0: as many as the training set has batches")
      ->capture_default_str();
  app.add_option("--batch-size", options.batch_size, "samples per step, over all ranks")
      ->capture_default_str()
      ->check(at_least_1);
  app.add_option("--hidden", options.hidden, "sizes of the hidden layers, as in 64,32")
      ->capture_default_str()
      ->delimiter(',')
      ->check(between(std::uint64_t{1}, std::uint64_t{100'000}));
  app.add_option("--optimizer", options.optimizer, "sgd (with momentum) or adam")
      ->transform(CLI::CheckedTransformer(optimizers).description(""))
      ->default_str("adam")
      ->type_name("sgd|adam");
  app.add_option("--learning-rate", options.learning_rate, "default: 0.003 for adam, 0.1 for sgd")
      ->check(CLI::PositiveNumber);
  app.add_option("--noise", options.noise, "standard deviation of the noise on training pixels, which are 0 to 1")
      ->capture_default_str()
      ->check(between(0.0, 10.0));
  app.add_option("--seed", options.seed, "of everything random")->capture_default_str();
  app.add_option("--summary", options.summary, "write the result to this JSON file, finished or preempted")
      ->type_name("FILE");
}

void add_watching_options(CLI::App& app, Options& options, std::int64_t& step_delay_ms) {
  const std::map<std::string, FailPoint> points{{"begin", FailPoint::begin}, {"end", FailPoint::end}};
  const std::string group = "For tests and demonstrations";
  app.add_option("--step-delay-ms", step_delay_ms, "sleep in every step; changes nothing else")
      ->check(between(std::int64_t{0}, std::int64_t{3'600'000}))
      ->group(group);
  app.add_option("--fail-rank", options.fail_rank, "this rank throws in step --fail-step")->group(group);
  app.add_option("--fail-step", options.fail_step, "counted from 0, over all restarts")
      ->capture_default_str()
      ->group(group);
  app.add_option("--fail-point", options.fail_point,
                 "begin: before the exchange of gradients, where the other ranks wait in vain; end: after it")
      ->transform(CLI::CheckedTransformer(points).description(""))
      ->default_str("end")
      ->type_name("begin|end")
      ->group(group);
}

/// Settings of the library: defaults, then the file, then the environment, then the command line.
reprieve::Settings read_settings(const std::string& config, const Overrides& overrides) {
  reprieve::Settings settings =
      config.empty() ? reprieve::Settings{} : reprieve::settings_from_file(config, {"trainer"});
  reprieve::apply_environment(settings);
  for (const auto& override_setting : overrides) {
    override_setting(settings);
  }
  if (settings.directory.empty()) {
    settings.directory = "checkpoints";
  }
  return settings;
}

}  // namespace

Options parse_options(int argc, const char* const* argv) {
  Options options;
  Overrides overrides;
  std::int64_t step_delay_ms = 0;
  std::string config;
  CLI::App app(kDescription, "reprieve-trainer");
  app.footer(kExamples);
  app.set_version_flag("--version", REPRIEVE_VERSION);
  app.set_config("--config", "", "JSON file: the library's settings, and these options in its section \"trainer\"")
      ->type_name("FILE")
      ->check(CLI::ExistingFile);
  app.config_formatter(std::make_shared<JsonSection>(app, "trainer"));
  add_training_options(app, options);
  add_library_options(app, overrides);
  add_watching_options(app, options, step_delay_ms);
  try {
    app.parse(argc, argv);
    if (const CLI::Option* file = app.get_config_ptr(); file->count() > 0) {
      config = file->as<std::string>();
    }
  } catch (const CLI::CallForHelp&) {
    options.answer = app.help();
    return options;
  } catch (const CLI::CallForVersion&) {
    options.answer = "reprieve-trainer " REPRIEVE_VERSION "\n";
    return options;
  } catch (const CLI::ParseError& error) {
    throw reprieve::ConfigError(std::string(error.what()) + " (see reprieve-trainer --help)");
  }
  options.step_delay = std::chrono::milliseconds(step_delay_ms);
  options.settings = read_settings(config, overrides);
  return options;
}

}  // namespace trainer
