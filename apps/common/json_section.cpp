// SPDX-License-Identifier: BSD-3-Clause
#include "common/json_section.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <reprieve/error.hpp>

namespace apps {
namespace {

using PlainJson = nlohmann::json;  // the summaries are in order

std::string option_name(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return key;
}

std::string key_name(std::string option) {
  std::replace(option.begin(), option.end(), '-', '_');
  return option;
}

bool is_number_option(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.starts_with("INT") || type.starts_with("UINT") || type.starts_with("FLOAT");
}

bool fits(const CLI::Option& option, const PlainJson& value) {
  if (value.is_array()) {
    const bool takes_many = option.get_items_expected_max() > 1;
    return takes_many && std::all_of(value.begin(), value.end(),
                                     [&](const PlainJson& item) { return !item.is_array() && fits(option, item); });
  }
  return is_number_option(option) ? value.is_number() : value.is_string();
}

std::string expected_type(const CLI::Option& option) {
  const std::string type = is_number_option(option) ? "a number" : "a string";
  return option.get_items_expected_max() > 1 ? type + " or an array of them" : type;
}

std::string as_text(const PlainJson& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

std::vector<std::string> as_inputs(const PlainJson& value) {
  std::vector<std::string> inputs;
  if (value.is_array()) {
    std::transform(value.begin(), value.end(), std::back_inserter(inputs), as_text);
  } else {
    inputs.push_back(as_text(value));
  }
  return inputs;
}

std::string configurable_keys(const CLI::App& app) {
  std::string keys;
  for (const CLI::Option* option : app.get_options([](const CLI::Option* o) { return o->get_configurable(); })) {
    keys += (keys.empty() ? "" : ", ") + key_name(option->get_single_name());
  }
  return keys;
}

}  // namespace

std::string JsonSection::to_config(const CLI::App* app, bool, bool, std::string) const {
  PlainJson section = PlainJson::object();
  for (const CLI::Option* option : app->get_options([](const CLI::Option* o) { return o->get_configurable(); })) {
    section[key_name(option->get_single_name())] = option->results();
  }
  return PlainJson{{name_, section}}.dump(2);
}

const CLI::Option& JsonSection::find_option(const std::string& key) const {
  const CLI::Option* const option = app_->get_option_no_throw("--" + option_name(key));
  if (option == nullptr || !option->get_configurable() || key != key_name(key)) {
    throw reprieve::ConfigError("unknown key \"" + key + "\" in section \"" + name_ +
                                "\"; allowed are: " + configurable_keys(*app_));
  }
  return *option;
}

std::vector<CLI::ConfigItem> JsonSection::from_config(std::istream& input) const {
  const PlainJson document = PlainJson::parse(input, nullptr, /*allow_exceptions=*/false, /*ignore_comments=*/false);
  // A document that is no JSON object is reported by whoever reads the other sections.
  const auto section = document.is_object() ? document.find(name_) : document.end();
  if (!document.is_object() || section == document.end()) {
    return {};
  }
  if (!section->is_object()) {
    throw reprieve::ConfigError("\"" + name_ + "\" must be an object");
  }
  std::vector<CLI::ConfigItem> result;
  for (const auto& [key, value] : section->items()) {
    const CLI::Option& option = find_option(key);
    if (!fits(option, value)) {
      throw reprieve::ConfigError("\"" + name_ + "." + key + "\" must be " + expected_type(option) + ", not " +
                                  value.dump());
    }
    CLI::ConfigItem item;
    item.name = option_name(key);
    item.inputs = as_inputs(value);
    result.push_back(std::move(item));
  }
  return result;
}

}  // namespace apps
