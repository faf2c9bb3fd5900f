//===- Player.cpp - runs cases on a GPU and checks what comes out ----------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/gpu/Player.h"
#include "test/gpu/Compare.h"
#include "test/gpu/Placement.h"
#include "test/gpu/Sample.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <sstream>

using namespace k3::gpu;

namespace {

constexpr std::uint64_t guardBytes = 4096;

/// One variant of one case in memory.
class Play {
public:
  Play(Gpu &gpu, const CaseSet &set, const Case &c, const Variant &variant, Gpu::Function function,
       const PlayOptions &options, const Produced &produced)
      : gpu(gpu), set(set), c(c), variant(variant), function(function), options(options),
        layout(c, options.exactMemory ? 0 : guardBytes),
        whole(!options.exactMemory && layout.bytes() <= options.wholeBytes),
        produced(produced), placement(gpu, set, c, layout, options.exactMemory, produced) {}

  PlayResult run() {
    placement.initialize(false);
    if (whole) {
      pristine = std::make_unique<Placement>(gpu, set, c, layout, false, produced);
      pristine->copyFrom(placement);
      before = placement.download();
    }
    gpu.launch(makeLaunch(placement));
    gpu.finish();
    if (whole)
      after = placement.download();
    checkZonesAndInputs();
    for (const Expectation &expectation : c.expectations)
      check(expectation);
    if (!options.exactMemory)
      repeat();
    result.pass = result.failures.empty();
    if (result.pass && options.measure && !options.exactMemory && (c.trafficBytes > 0 || c.operations > 0))
      measure();
    return result;
  }

  /// The run of a case that is not checked.
  Gpu::Launch prepare() {
    placement.initialize(false);
    return makeLaunch(placement);
  }
  /// What such a run leaves in an argument.
  Bytes leftIn(std::uint32_t argument) const { return elements(argument, {}); }

private:
  template <typename... Parts> void fail(const Parts &...parts) {
    std::ostringstream line;
    (line << ... << parts);
    result.failures.push_back(line.str());
  }

  Gpu::Launch makeLaunch(const Placement &memory) const {
    const Kernel &kernel = set.kernels[variant.kernel];
    Gpu::Launch launch;
    launch.function = function;
    launch.grid = variant.grid;
    launch.threads = kernel.threads;
    launch.dynamicSharedBytes = kernel.dynamicSharedBytes;
    launch.cluster = kernel.cluster;
    launch.resident = kernel.resident;
    for (std::uint32_t i = 0; i < c.arguments.size(); ++i)
      launch.parameters.push_back(memory.address(layout.argument(i)));
    for (const Layout::Piece &piece : layout.pieces())
      if (piece.writes)
        launch.written.push_back(memory.address(piece));
    for (Index scalar : c.scalars)
      launch.parameters.push_back(static_cast<std::uint64_t>(scalar));
    for (const TensorMap &map : kernel.tensorMaps) {
      const Argument &argument = c.arguments[map.argument];
      launch.maps.push_back(
          {memory.address(layout.argument(map.argument)), argument.dtype, argument.shape, map.box, map.swizzle});
    }
    return launch;
  }

  /// Blocks that wait for each other would not, if counters stood where the launch before left them: all that is written
  /// and holds zeros at first is cleared.
  Gpu::Launch makeTimedLaunch(const Placement &memory) const {
    Gpu::Launch launch = makeLaunch(memory);
    for (std::uint32_t i = 0; i < c.arguments.size() && launch.resident; ++i) {
      const Argument &argument = c.arguments[i];
      const Content &content = argument.contents[0];
      const unsigned char *bytes = set.at(content.blob);
      if (argument.writes && content.kind == Content::Kind::stored &&
          std::all_of(bytes, bytes + content.blob.length, [](unsigned char byte) { return byte == 0; }))
        launch.cleared.emplace_back(memory.address(layout.argument(i)), argument.bytes());
    }
    return launch;
  }

  void checkZonesAndInputs() {
    if (options.exactMemory)
      return;
    std::uint64_t end = 0;
    auto checkZone = [&](std::uint64_t next) {
      Bytes zone(next - end);
      if (whole)
        zone.assign(after.begin() + static_cast<std::ptrdiff_t>(end),
                    after.begin() + static_cast<std::ptrdiff_t>(next));
      else
        gpu.download(zone.data(), placement.block() + end, zone.size());
      auto touched = std::find_if(zone.begin(), zone.end(), [](unsigned char byte) { return byte != poison; });
      if (touched != zone.end())
        fail("wrote outside of the arguments, before argument ", nextArgument, ", ", zone.end() - touched,
             " bytes before its start");
    };
    for (const Layout::Piece &piece : layout.pieces()) {
      nextArgument = piece.argument;
      checkZone(piece.offset);
      end = piece.offset + piece.bytes;
      if (whole && !piece.writes && std::memcmp(&before[piece.offset], &after[piece.offset], piece.bytes) != 0)
        fail("changed its input, argument ", piece.argument);
    }
    ++nextArgument;
    checkZone(layout.bytes());
  }

  /// The elements of an argument as a run left them, all or those at `positions`.
  Bytes elements(std::uint32_t argument, Blob positions) const {
    const Layout::Piece &piece = layout.argument(argument);
    std::uint64_t size = elementBytes(c.arguments[argument].dtype);
    if (positions.length == 0) {
      Bytes all(piece.bytes);
      gpu.download(all.data(), placement.address(piece), all.size());
      return all;
    }
    Bytes some(positions.length / 8 * size);
    for (std::uint64_t i = 0; i < positions.length / 8; ++i) {
      std::int64_t position;
      std::memcpy(&position, set.at(positions) + i * 8, 8);
      gpu.download(&some[i * size], placement.address(piece) + static_cast<std::uint64_t>(position) * size, size);
    }
    return some;
  }

  void check(const Expectation &expectation) {
    std::uint64_t count = expectation.values.length / 4;
    if (count == 0)
      return;
    const std::string &dtype = c.arguments[expectation.argument].dtype;
    std::vector<double> expected = decode(dtype == "i32" ? "i32" : "f32", set.at(expectation.values), count);
    Bytes bytes = elements(expectation.argument, expectation.positions);
    std::vector<double> got = decode(dtype, bytes.data(), bytes.size() / elementBytes(dtype));
    if (expectation.sums.length > 0) {
      Sample sample(got.size());
      std::vector<double> sums = decode("f32", set.at(expectation.sums), sample.blocks()), some;
      checkSums(expectation, got, sums, sample.blockSize());
      for (std::uint64_t position : sample.positions(sums))
        some.push_back(got[position]);
      got = std::move(some);
    }
    const unsigned char *mask = set.at(expectation.mask);
    Comparison comparison =
        compare(got, expected, {mask, mask + expectation.mask.length}, expectation.tolerance, expectation.largest);
    result.worst = std::max(result.worst, comparison.worst);
    result.relativeError = std::max(result.relativeError, comparison.relativeError);
    if (!comparison.pass())
      fail("argument ", expectation.argument, ": value ", comparison.at, " of ", count, " is ", comparison.got,
           " and should be ", comparison.expected, "; largest error ", comparison.relativeError,
           " of the largest value, ", comparison.worst, " times what is allowed");
  }

  void checkSums(const Expectation &expectation, const std::vector<double> &got, const std::vector<double> &sums,
                 std::uint64_t blockSize) {
    Comparison comparison = compareSums(got, sums, blockSize, expectation.tolerance, expectation.largest);
    result.worst = std::max(result.worst, comparison.worst);
    if (!comparison.pass())
      fail("argument ", expectation.argument, ": elements from ", comparison.at * blockSize, " on add up to ",
           comparison.got, " and should to ", comparison.expected, ", ", comparison.worst, " times off what is allowed");
  }

  /// What must come out equal: the whole block, or the places that are looked at.
  Bytes outcome() const {
    if (whole)
      return placement.download();
    Bytes all;
    for (const Expectation &expectation : c.expectations) {
      if (expectation.positions.length == 0)
        continue;
      Bytes some = elements(expectation.argument, expectation.positions);
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }

  void repeat() {
    Bytes first = outcome();
    Gpu::Launch launch = makeLaunch(placement);
    auto start = std::chrono::steady_clock::now();
    for (result.repeats = 1; result.repeats < options.repeats; ++result.repeats) {
      std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
      if (result.repeats >= 3 && spent.count() > options.secondsOfRepeats)
        break;
      if (whole)
        placement.copyFrom(*pristine);
      else
        placement.initialize(true);
      gpu.launch(launch);
      gpu.finish();
      Bytes again = outcome();
      if (again != first) {
        std::size_t at = std::mismatch(first.begin(), first.end(), again.begin()).first - first.begin();
        fail("run ", result.repeats + 1, " differs from the first one, at byte ", at);
        return;
      }
    }
  }

  void measure() {
    std::uint64_t copies =
        std::clamp<std::uint64_t>(options.rotationBytes / std::max<std::uint64_t>(layout.bytes(), 1) + 1, 1, 64);
    std::vector<std::unique_ptr<Placement>> more;
    std::vector<Gpu::Launch> launches{makeTimedLaunch(placement)};
    placement.initialize(true);
    for (std::uint64_t i = 1; i < copies; ++i) {
      more.push_back(std::make_unique<Placement>(gpu, set, c, layout, false, produced));
      more.back()->copyFrom(placement);
      launches.push_back(makeTimedLaunch(*more.back()));
    }
    if (launches.size() < 8) // a replay of a graph costs some time by itself
      for (std::size_t i = 0, n = launches.size(); launches.size() < 8; ++i)
        launches.push_back(launches[i % n]);
    constexpr int samples = 15;
    result.seconds = gpu.time(launches, samples);
    if (set.kernels[variant.kernel].startsEarly && launches[0].cleared.empty()) {
      std::vector<Gpu::Launch> early = launches;
      for (std::size_t i = 1; i < early.size(); ++i)
        early[i].early = true;
      result.earlySeconds = gpu.time(early, samples);
    }
    std::vector<Gpu::Product> products;
    for (const Gpu::Launch &launch : launches)
      if (std::optional<Gpu::Product> product = asProduct(launch))
        products.push_back(*product);
    if (!products.empty())
      result.librarySeconds = gpu.timeByLibrary(products, samples).value_or(0);
  }

  /// A launch of k3.linear on bf16 operands, which libraries have too.
  std::optional<Gpu::Product> asProduct(const Gpu::Launch &launch) const {
    const std::vector<Argument> &all = c.arguments;
    if (set.kernels[variant.kernel].op != "k3.linear" || all.size() != 3 || all[0].dtype != "bf16" ||
        all[1].dtype != "bf16" || all[0].shape.size() != 2)
      return std::nullopt;
    return Gpu::Product{launch.parameters[0], launch.parameters[1], launch.parameters[2], all[0].shape[0],
                        all[1].shape[0],      all[1].shape[1],      all[2].dtype};
  }

  Gpu &gpu;
  const CaseSet &set;
  const Case &c;
  const Variant &variant;
  Gpu::Function function;
  const PlayOptions &options;
  Layout layout;
  bool whole; ///< small enough to look at every byte
  const Produced &produced;
  Placement placement;
  std::unique_ptr<Placement> pristine; ///< if `whole`
  Bytes before, after;                 ///< the block, if `whole`
  std::uint32_t nextArgument = 0;
  PlayResult result;
};

} // namespace

Gpu::Function Player::load(std::uint32_t kernel) {
  auto known = functions.find(kernel);
  if (known == functions.end()) {
    const Kernel &k = set.kernels[kernel];
    known = functions.emplace(kernel, gpu.load(k, set.at(k.cubin), k.cubin.length)).first;
  }
  return known->second;
}

void Player::produceInputs(const Case &c) {
  for (const Argument &argument : c.arguments)
    for (const Content &content : argument.contents) {
      if (content.kind != Content::Kind::produced || produced.count({content.run, content.argument}))
        continue;
      const Case &producer = set.cases[content.run];
      const Variant &variant = producer.variants[0];
      Play play(gpu, set, producer, variant, load(variant.kernel), options, produced);
      gpu.launch(play.prepare());
      gpu.finish();
      for (std::uint32_t i = 0; i < producer.arguments.size(); ++i)
        if (producer.arguments[i].writes)
          produced[{content.run, i}] = play.leftIn(i);
    }
}

Player::RoundTime Player::timeRound(const std::vector<std::pair<const Case *, const Variant *>> &round) {
  constexpr int rounds = 4, samples = 15;
  std::vector<std::unique_ptr<Play>> plays;
  std::vector<Gpu::Launch> launches;
  for (const auto &[c, variant] : round) {
    produceInputs(*c);
    plays.push_back(std::make_unique<Play>(gpu, set, *c, *variant, load(variant->kernel), options, produced));
    launches.push_back(plays.back()->prepare());
  }
  for (std::size_t i = 0; i < (rounds - 1) * round.size(); ++i)
    launches.push_back(launches[i]);
  RoundTime time;
  auto perRound = static_cast<double>(round.size());
  time.seconds = gpu.time(launches, samples) * perRound;
  for (std::size_t i = 1; i < launches.size(); ++i)
    launches[i].early = set.kernels[round[i % round.size()].second->kernel].startsEarly;
  time.earlySeconds = gpu.time(launches, samples) * perRound;
  return time;
}

PlayResult Player::play(const Case &c, const Variant &variant) {
  produceInputs(c);
  return Play(gpu, set, c, variant, load(variant.kernel), options, produced).run();
}
