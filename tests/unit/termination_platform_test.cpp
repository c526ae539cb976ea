// SPDX-License-Identifier: BSD-3-Clause
// Where a process runs, and what fits there.

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

#include "reprieve/error.hpp"
#include "reprieve/termination_config.hpp"
#include "support/environment_lookup.hpp"
#include "support/error_text.hpp"
#include "support/metadata_server.hpp"
#include "support/temporary_directory.hpp"
#include "termination/platform.hpp"

namespace reprieve::termination {
namespace {

using namespace std::chrono_literals;
using test::MetadataServerDouble;
using test::ServedReply;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using test::lookup_in;
using Variables = std::map<std::string, std::string>;

Platform named_by(const Variables& variables) {
  return platform_in_environment(lookup_in(variables)).value_or(PlatformInfo{}).platform;
}

TEST(Platform, NamesAreReadBack) {
  for (int i = 0; i <= static_cast<int>(Platform::other); ++i) {
    const auto platform = static_cast<Platform>(i);
    EXPECT_EQ(platform_named(to_string(platform)), platform);
  }
  EXPECT_EQ(device_named("gpu"), Device::gpu);
  EXPECT_EQ(platform_named("GCE"), std::nullopt);
  EXPECT_EQ(device_named(""), std::nullopt);
}

TEST(Platform, EachHasASignInTheEnvironmentAndTheOverrideWins) {
  EXPECT_EQ(platform_in_environment(lookup_in({})).has_value(), false);
  EXPECT_EQ(named_by({{"SLURM_JOB_ID", "7"}}), Platform::slurm);
  EXPECT_EQ(named_by({{"PBS_JOBID", "7.server"}}), Platform::pbs);
  EXPECT_EQ(named_by({{"LSB_JOBID", "7"}}), Platform::lsf);
  EXPECT_EQ(named_by({{"SGE_O_HOST", "login"}}), Platform::sge);
  EXPECT_EQ(named_by({{"_CONDOR_SCRATCH_DIR", "/scratch"}}), Platform::htcondor);
  EXPECT_EQ(named_by({{"OAR_JOB_ID", "7"}}), Platform::oar);
  EXPECT_EQ(named_by({{"FLUX_JOB_ID", "f7"}}), Platform::flux);
  EXPECT_EQ(named_by({{"AWS_BATCH_JOB_ID", "7"}}), Platform::aws_batch);
  EXPECT_EQ(named_by({{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}}), Platform::kubernetes);
  EXPECT_EQ(named_by({{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}, {"SLURM_JOB_ID", "7"}}), Platform::slurm);
  EXPECT_EQ(named_by({{"SLURM_JOB_ID", "7"}, {"REPRIEVE_PLATFORM", "restart-managed"}}), Platform::restart_managed);
  EXPECT_EQ(named_by({{"SLURM_JOB_ID", "7"}, {"REPRIEVE_PLATFORM", "null"}}), Platform::slurm);
}

TEST(Platform, AnOverrideThatDoesNotExistIsAnError) {
  EXPECT_THAT(test::error_text<ConfigError>([] {
                named_by({{"REPRIEVE_PLATFORM", "borg"}});
              }),
              HasSubstr("REPRIEVE_PLATFORM: found \"borg\"; allowed: one of gce, aws, azure, slurm"));
  EXPECT_THROW(find_device(lookup_in({{"REPRIEVE_DEVICE", "tpu"}}), "/nowhere"), ConfigError);
}

TEST(Platform, ADeviceFileMeansAGpu) {
  const test::TemporaryDirectory root;
  EXPECT_EQ(find_device(lookup_in({}), root.path()), Device::cpu);
  std::filesystem::create_directories(root / "dev/dri");
  std::ofstream(root / "dev/dri/renderD128");
  EXPECT_EQ(find_device(lookup_in({}), root.path()), Device::cpu) << "a desktop's screen is no accelerator";
  std::ofstream(root / "dev/nvidia0");
  EXPECT_EQ(find_device(lookup_in({}), root.path()), Device::gpu);
  EXPECT_EQ(find_device(lookup_in({{"REPRIEVE_DEVICE", "cpu"}}), root.path()), Device::cpu);
}

TEST(Platform, FirmwareLeavesTheServersThatItNames) {
  EXPECT_THAT(servers_to_probe(lookup_in({}), {{"sys_vendor", "Dell Inc."}, {"product_name", "R640"}}), IsEmpty());
  const auto of = [](const Firmware& firmware) { return servers_to_probe(lookup_in({}), firmware); };
  EXPECT_THAT(of({{"sys_vendor", "Google"}, {"product_name", "Google Compute Engine"}}),
              ElementsAre(MetadataServer::gce));
  EXPECT_THAT(of({{"sys_vendor", "Amazon EC2"}, {"product_name", "c5.large"}}), ElementsAre(MetadataServer::aws));
  EXPECT_THAT(of({{"sys_vendor", "Xen"}, {"bios_version", "4.11.amazon"}}), ElementsAre(MetadataServer::aws));
  EXPECT_THAT(of({{"sys_vendor", "Microsoft Corporation"}, {"product_name", "Virtual Machine"}}),
              ElementsAre(MetadataServer::azure));
  EXPECT_THAT(of({{"sys_vendor", "Microsoft Corporation"}, {"product_name", "Surface"}}), IsEmpty());
}

TEST(Platform, WithoutFirmwareAllServersMayBeThere) {
  EXPECT_THAT(servers_to_probe(lookup_in({}), {}),
              ElementsAre(MetadataServer::gce, MetadataServer::aws, MetadataServer::azure));
  EXPECT_THAT(servers_to_probe(lookup_in({{"AWS_EC2_METADATA_DISABLED", "true"}}), {}),
              ElementsAre(MetadataServer::gce, MetadataServer::azure));
}

TEST(Platform, FirmwareIsRead) {
  const test::TemporaryDirectory root;
  EXPECT_TRUE(read_firmware(root.path()).empty());
  std::filesystem::create_directories(root / "sys/class/dmi/id");
  std::ofstream(root / "sys/class/dmi/id/sys_vendor") << "Google\n";
  EXPECT_EQ(read_firmware(root.path()), (Firmware{{"sys_vendor", "Google"}}));
}

TEST(Platform, EndpointsFollowTheEnvironment) {
  const auto none = lookup_in({});
  EXPECT_EQ(metadata_endpoint(MetadataServer::gce, none), "http://169.254.169.254");
  EXPECT_EQ(metadata_endpoint(MetadataServer::gce, lookup_in({{"GCE_METADATA_IP", "127.0.0.1:81"}})),
            "http://127.0.0.1:81");
  EXPECT_EQ(metadata_endpoint(MetadataServer::aws,
                              lookup_in({{"AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://localhost:1338/"}})),
            "http://localhost:1338");
}

/// A machine whose firmware names no cloud, so that only servers of the environment are asked.
class FoundPlatform : public ::testing::Test {
 protected:
  FoundPlatform() {
    std::filesystem::create_directories(root_ / "sys/class/dmi/id");
    std::ofstream(root_ / "sys/class/dmi/id/sys_vendor") << "Dell Inc.\n";
  }
  [[nodiscard]] PlatformInfo find(const std::string& cloud) const {
    test::Environment environment = server_.environment(cloud);
    environment.erase("REPRIEVE_PLATFORM");
    return find_platform(test::lookup_of(environment), root_.path(), 20s);
  }
  test::TemporaryDirectory root_;
  MetadataServerDouble server_;
};

TEST_F(FoundPlatform, IsTheCloudThatAnswers) {
  EXPECT_EQ(find("gce").platform, Platform::gce);
  EXPECT_EQ(find("aws").platform, Platform::aws);
  EXPECT_EQ(find("azure").platform, Platform::azure);
  EXPECT_EQ(find("azure").evidence, "metadata server of Azure");
}

TEST_F(FoundPlatform, IsOtherIfNothingAnswersLikeACloud) {
  server_.set_form(ServedReply::Form::garbage);
  for (const char* cloud : {"gce", "aws", "azure"}) {
    EXPECT_EQ(find(cloud).platform, Platform::other) << cloud;
  }
  test::HttpServer portal([](const auto&) { return ServedReply{200, "<html>Please log in</html>"}; });
  for (const char* variable :
       {"GCE_METADATA_IP", "AWS_EC2_METADATA_SERVICE_ENDPOINT", "AZURE_METADATA_SERVICE_ENDPOINT"}) {
    EXPECT_EQ(find_platform(lookup_in({{variable, portal.address()}}), root_.path(), 20s).platform, Platform::other);
  }
}

TEST_F(FoundPlatform, IsAskedForOnce) {
  static_cast<void>(find("gce"));
  const auto asked = server_.http().requests().size();
  EXPECT_EQ(asked, 1U);
  EXPECT_EQ(find("gce").platform, Platform::gce);
  EXPECT_EQ(server_.http().requests().size(), asked);
}

TEST_F(FoundPlatform, IsNotAskedForIfTheEnvironmentNamesIt) {
  test::Environment environment = server_.environment("gce");
  environment["REPRIEVE_PLATFORM"] = "other";
  EXPECT_EQ(find_platform(test::lookup_of(environment), root_.path(), 20s).platform, Platform::other);
  environment.erase("REPRIEVE_PLATFORM");
  environment["SLURM_JOB_ID"] = "7";
  EXPECT_EQ(find_platform(test::lookup_of(environment), root_.path(), 20s).platform, Platform::slurm);
  EXPECT_TRUE(server_.http().requests().empty());
}

TerminationConfig preset_of(Platform platform, Device device = Device::cpu) { return preset({platform, device, ""}); }

void expect_exit(const TerminationConfig& config, void (*function)(const ExitContext&)) {
  auto* const* target = config.exit_fn.target<void (*)(const ExitContext&)>();
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(*target, function);
}

void expect_preset(const TerminationConfig& config, MetadataServer metadata, std::chrono::seconds grace, int code) {
  EXPECT_EQ(config.metadata, metadata);
  EXPECT_EQ(config.grace_period, grace);
  EXPECT_EQ(config.restart_code, code);
}

TEST(Preset, GceWithAGpu) { expect_preset(preset_of(Platform::gce, Device::gpu), MetadataServer::gce, 3600s, 143); }

TEST(Preset, GceWithoutAGpu) { expect_preset(preset_of(Platform::gce), MetadataServer::gce, 0s, 143); }

TEST(Preset, AwsAndAzure) {
  expect_preset(preset_of(Platform::aws), MetadataServer::aws, 120s, 42);
  expect_preset(preset_of(Platform::azure), MetadataServer::azure, 0s, 42);
}

TEST(Preset, WarningsOfBatchSystems) {
  EXPECT_THAT(*preset_of(Platform::slurm).signals, ElementsAre(SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGINT));
  EXPECT_THAT(*preset_of(Platform::pbs).signals, ElementsAre(SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU));
  EXPECT_THAT(*preset_of(Platform::lsf).signals, ElementsAre(SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGINT));
  EXPECT_THAT(*preset_of(Platform::flux).signals, ElementsAre(SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM));
  for (const auto platform : {Platform::slurm, Platform::pbs, Platform::lsf, Platform::flux}) {
    expect_preset(preset_of(platform), MetadataServer::none, 0s, 42);
  }
  expect_preset(preset_of(Platform::sge), MetadataServer::none, 0s, 99);
  expect_preset(preset_of(Platform::oar), MetadataServer::none, 0s, 99);
  expect_preset(preset_of(Platform::htcondor), MetadataServer::none, 0s, 85);
  expect_preset(preset_of(Platform::aws_batch), MetadataServer::none, 30s, 42);
}

TEST(Preset, KubernetesHasTheGraceOfThePod) {
  EXPECT_EQ(preset_of(Platform::kubernetes).grace_period, 30s);
  ::setenv("TERMINATION_GRACE_PERIOD_SECONDS", "75", 1);
  EXPECT_EQ(preset_of(Platform::kubernetes).grace_period, 75s);
  ::setenv("TERMINATION_GRACE_PERIOD_SECONDS", "a while", 1);
  EXPECT_EQ(preset_of(Platform::kubernetes).grace_period, 30s);
  ::unsetenv("TERMINATION_GRACE_PERIOD_SECONDS");
  EXPECT_EQ(preset_of(Platform::kubernetes).restart_code, 42);
}

TEST(Preset, AManagerGetsTheCodeAtOnceOrAfterTheHold) {
  const auto plain = preset_of(Platform::restart_managed);
  EXPECT_EQ(plain.restart_code, 42);
  EXPECT_EQ(plain.grace_period, 0s);
  expect_exit(plain, leave_together);
  const auto accelerator = preset_of(Platform::restart_managed, Device::gpu);
  EXPECT_EQ(accelerator.restart_code, 42);
  expect_exit(accelerator, hold_until_taken);
}

TEST(Preset, Other) {
  const auto config = preset_of(Platform::other);
  EXPECT_THAT(*config.signals, ElementsAre(SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU));
  expect_preset(config, MetadataServer::none, 0s, 42);
  expect_exit(config, leave_together);
}

TEST(Preset, FillsOnlyWhatTheUserLeftOpen) {
  TerminationConfig mine;
  mine.restart_code = 75;
  mine.grace_period = 0s;
  mine.signals.emplace();
  mine.metadata = MetadataServer::none;
  mine.exit_fn = throw_preempted;
  mine.save_every_steps = 7;
  const auto filled = filled_in(mine, {Platform::gce, Device::gpu, ""});
  EXPECT_EQ(filled.restart_code, 75);
  EXPECT_EQ(filled.grace_period, 0s);
  EXPECT_THAT(*filled.signals, IsEmpty());
  EXPECT_EQ(filled.metadata, MetadataServer::none);
  EXPECT_EQ(filled.save_every_steps, 7U);
  EXPECT_EQ(filled.platform, Platform::gce);
  const auto open = filled_in({}, {Platform::gce, Device::gpu, ""});
  EXPECT_EQ(open.restart_code, 143);
  EXPECT_EQ(open.grace_period, 3600s);
}

}  // namespace
}  // namespace reprieve::termination
