//===- ArtifactTest.cpp - good and bad artifacts -------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/artifact/Artifact.h"
#include "k3rt/abi.h"
#include "runtime/src/artifact/WeightStore.h"
#include "runtime/src/base/Hash.h"
#include "test/unit/Runtime/TestEngine.h"

#include <cstddef>
#include <cstring>
#include <fstream>
#include <unistd.h>

using namespace toy;
using k3::artifact::ArtifactT;
using k3rt::Status;

namespace {

bool oneLine(const std::string &message) {
  return !message.empty() && message.find('\n') == std::string::npos &&
         message.size() < 400;
}

/// parseArtifact on an aligned copy.
Status parse(const std::string &bytes) {
  std::vector<uint64_t> aligned((bytes.size() + 7) / 8 + 1);
  memcpy(aligned.data(), bytes.data(), bytes.size());
  const k3::artifact::Artifact *index = nullptr;
  uint64_t length = 0;
  return k3rt::parseArtifact(reinterpret_cast<const char *>(aligned.data()),
                             bytes.size(), index, length);
}

void setHeaderHash(std::string &bytes) {
  uint64_t hash =
      k3rt::hashBytes(bytes.data(), offsetof(k3_artifact_header, header_hash));
  memcpy(&bytes[offsetof(k3_artifact_header, header_hash)], &hash, 8);
}

template <typename Value>
std::string withHeader(std::string bytes, size_t offset, Value value) {
  memcpy(&bytes[offset], &value, sizeof(value));
  setHeaderHash(bytes);
  return bytes;
}

TEST(Artifact, Opens) {
  Folder folder;
  std::string path = writeModel(folder);
  k3rt::Artifact artifact;
  Status status = artifact.open(path, 0);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(artifact.index().model()->name()->str(), "toy");
  EXPECT_EQ(artifact.directory() + "/model.k3a", path);
  EXPECT_TRUE(artifact.checkBlobs().ok());
  EXPECT_TRUE(k3rt::verifyEmbeddedWeights(artifact).ok());
}

TEST(Artifact, Header) {
  Model model = make();
  std::string good = serialize(model);
  ASSERT_TRUE(parse(good).ok()) << parse(good).message();
  EXPECT_EQ(parse("").message(), "not a k3 artifact: 0 bytes, a header has 64");
  EXPECT_EQ(parse("K3A1").message(),
            "not a k3 artifact: 4 bytes, a header has 64");
  std::string bytes = good;
  bytes[0] = 'X';
  EXPECT_EQ(parse(bytes).message(),
            "not a k3 artifact: it does not start with K3A1");
  // Both neighbours of the version, and nonsense, with and without a new hash.
  for (uint32_t version : {0u, 2u, 0xdeadbeefu}) {
    bytes =
        withHeader(good, offsetof(k3_artifact_header, abi_version), version);
    EXPECT_EQ(parse(bytes).message(),
              "artifact version " + std::to_string(version) +
                  ", this runtime reads version 1: compile the model again "
                  "with the matching k3-compile");
  }
  bytes = withHeader(good, offsetof(k3_artifact_header, reserved), uint64_t(1));
  EXPECT_EQ(parse(bytes).message(), "reserved header fields are not zero");
  for (uint64_t offset : {uint64_t(0), uint64_t(72), UINT64_MAX}) {
    bytes =
        withHeader(good, offsetof(k3_artifact_header, index_offset), offset);
    EXPECT_NE(parse(bytes).message().find("the index is at"),
              std::string::npos);
  }
  for (uint64_t length : {uint64_t(good.size()), UINT64_MAX, UINT64_MAX - 63}) {
    bytes =
        withHeader(good, offsetof(k3_artifact_header, index_length), length);
    EXPECT_NE(parse(bytes).message().find("the index is at"),
              std::string::npos);
  }
  bytes = withHeader(good, offsetof(k3_artifact_header, file_length),
                     uint64_t(good.size() + 1));
  EXPECT_NE(parse(bytes).message().find("truncated"), std::string::npos);
  // An index of zeros, empty or not.
  for (uint64_t length : {0, 4, 64}) {
    bytes = good;
    memset(&bytes[64], 0, length);
    bytes =
        withHeader(bytes, offsetof(k3_artifact_header, index_length), length);
    bytes = withHeader(bytes, offsetof(k3_artifact_header, index_hash),
                       k3rt::hashBytes(&bytes[64], length));
    EXPECT_EQ(parse(bytes).message(), "the index is not a valid FlatBuffer");
  }
  // Trailing bytes belong to someone else.
  EXPECT_TRUE(parse(good + "more").ok());
}

TEST(Artifact, EveryTruncation) {
  Model model = make();
  std::string good = serialize(model);
  Folder folder;
  for (size_t size = 0; size < good.size(); size += 4096) {
    std::string path = folder.write("cut.k3a", good.substr(0, size));
    TestEngine engine;
    EXPECT_EQ(engine.open(path), K3RT_BAD_ARTIFACT) << size;
    EXPECT_TRUE(oneLine(engine.error)) << engine.error;
    EXPECT_EQ(engine.error.find(path), 0u) << engine.error;
  }
  for (size_t size = 0; size < 200; ++size)
    EXPECT_FALSE(parse(good.substr(0, size)).ok());
}

TEST(Artifact, EveryFlippedByteOfTheIndex) {
  Model model = make();
  std::string good = serialize(model);
  k3_artifact_header header;
  memcpy(&header, good.data(), sizeof(header));
  size_t end = header.index_offset + header.index_length;
  ASSERT_LT(end, blobsBegin);
  std::vector<uint64_t> words((good.size() + 7) / 8);
  memcpy(words.data(), good.data(), good.size());
  auto *bytes = reinterpret_cast<char *>(words.data());
  const k3::artifact::Artifact *index;
  uint64_t length;
  for (size_t i = 0; i < end; ++i) {
    bytes[i] ^= 0x20;
    Status status = k3rt::parseArtifact(bytes, good.size(), index, length);
    ASSERT_FALSE(status.ok()) << "byte " << i;
    ASSERT_TRUE(oneLine(status.message()));
    bytes[i] ^= 0x20;
  }
  ASSERT_TRUE(k3rt::parseArtifact(bytes, good.size(), index, length).ok());
}

// As a file edited by hand would be: the hashes fit, so verifier and checks are
// on their own. Whatever is not noticed must be harmless to look at.
TEST(Artifact, FlippedBytesUnderAFreshHash) {
  Model model = make();
  std::string good = serialize(model);
  k3_artifact_header header;
  memcpy(&header, good.data(), sizeof(header));
  int refused = 0;
  for (size_t i = header.index_offset;
       i < header.index_offset + header.index_length; ++i)
    for (unsigned char mask : {0x01, 0x80, 0xff}) {
      std::string bytes = good;
      bytes[i] = char(bytes[i] ^ mask);
      bytes = withHeader(
          bytes, offsetof(k3_artifact_header, index_hash),
          k3rt::hashBytes(&bytes[header.index_offset], header.index_length));
      Status status = parse(bytes);
      if (!status.ok()) {
        ++refused;
        ASSERT_TRUE(oneLine(status.message())) << status.message();
      }
    }
  EXPECT_GT(refused, 1000);
}

TEST(Artifact, FlippedBytesOfBlobs) {
  Model model = make();
  std::string good = serialize(model);
  Folder folder;
  auto damaged = [&](uint64_t offset, const char *what) {
    std::string bytes = good;
    bytes[offset] = char(bytes[offset] ^ 1);
    TestEngine engine;
    EXPECT_EQ(engine.open(folder.write("bad.k3a", bytes)), K3RT_BAD_ARTIFACT);
    EXPECT_NE(engine.error.find(what), std::string::npos) << engine.error;
  };
  const auto &code = *model.index.executables[0]->blob;
  for (uint64_t at = 0; at < code.length; at += 509)
    damaged(code.offset + at, "an executable is damaged");
  for (auto &weight : model.index.weights)
    for (uint64_t at = 0; at < weight->range->length(); at += 61)
      damaged(weight->range->offset() + at,
              ("weight '" + weight->name + "' is damaged").c_str());
  // The tokenizer is looked at when it is asked for.
  std::string bytes = good;
  bytes[model.index.tokenizer->offset] ^= 1;
  TestEngine engine(folder.write("tok.k3a", bytes));
  const void *data;
  uint64_t size;
  EXPECT_EQ(k3rt_tokenizer_blob(engine.engine, &data, &size),
            K3RT_BAD_ARTIFACT);
  EXPECT_EQ(data, nullptr);
}

//===----------------------------------------------------------------------===//
// Well-formed FlatBuffers that say something wrong
//===----------------------------------------------------------------------===//

struct Wrong {
  const char *message;
  void (*change)(ArtifactT &index);
};

auto &prefillOf(ArtifactT &index) { return *index.programs[0]; }
auto &dispatchOf(ArtifactT &index, size_t group, size_t dispatch) {
  return *prefillOf(index).layer_kinds[0]->groups[group]->dispatches[dispatch];
}
auto &bufferOf(ArtifactT &index, const char *name) {
  for (auto &buffer : prefillOf(index).buffers)
    if (buffer->name == name)
      return *buffer;
  abort();
}

const Wrong wrongs[] = {
    {"model: missing", [](ArtifactT &a) { a.model.reset(); }},
    {"model: vocab_size is 0", [](ArtifactT &a) { a.model->vocab_size = 0; }},
    {"model: vocab_size is 4294967295",
     [](ArtifactT &a) { a.model->vocab_size = UINT32_MAX; }},
    {"model: hidden_size is 0",
     [](ArtifactT &a) { a.model->hidden_size = 0; }},
    {"model: max_position_embeddings is",
     [](ArtifactT &a) { a.model->max_position_embeddings = UINT64_MAX; }},
    {"executable 0: no arch",
     [](ArtifactT &a) { a.executables[0]->arch.clear(); }},
    {"executable 0: missing",
     [](ArtifactT &a) { a.executables[0]->blob.reset(); }},
    {"executable 0: bytes 64 + ",
     [](ArtifactT &a) { a.executables[0]->blob->offset = 64; }},
    {"executable 0: bytes 65536 + 18446744073709551615 are outside",
     [](ArtifactT &a) { a.executables[0]->blob->length = UINT64_MAX; }},
    {"executable 0: offset 65600 is not a multiple of 4096",
     [](ArtifactT &a) { a.executables[0]->blob->offset += 64; }},
    {"tokenizer: bytes 18446744073709551615 + ",
     [](ArtifactT &a) { a.tokenizer->offset = UINT64_MAX; }},
    {"kernel 2 'chunk_sums': executable 1 of 1",
     [](ArtifactT &a) { a.kernels[2]->executable = 1; }},
    {"kernel 2 'chunk_sums': 18446744073709551615 bytes of scratch",
     [](ArtifactT &a) { a.kernels[2]->scratch_bytes = UINT64_MAX; }},
    // Weights.
    {"weight 0 'embed_tokens.weight': unknown dtype 5",
     [](ArtifactT &a) { a.weights[0]->dtype = k3::artifact::DType(5); }},
    {"weight 0 'embed_tokens.weight': dimension 1 is -8",
     [](ArtifactT &a) { a.weights[0]->shape[1] = -8; }},
    {"weight 0 'embed_tokens.weight': dimension 0 is 0",
     [](ArtifactT &a) { a.weights[0]->shape[0] = 0; }},
    {"weight 0 'embed_tokens.weight': more than 281474976710656 bytes",
     [](ArtifactT &a) {
       a.weights[0]->shape = {INT64_MAX / 2, INT64_MAX / 2, 4};
     }},
    {"7 dimensions (at most 6)",
     [](ArtifactT &a) { a.weights[0]->shape.assign(7, 1); }},
    {"2048 bytes, but its shape needs 2016",
     [](ArtifactT &a) { a.weights[0]->shape[0] = 63; }},
    {"weight 0 'embed_tokens.weight': no range",
     [](ArtifactT &a) { a.weights[0]->range.reset(); }},
    {"is not a multiple of 64",
     [](ArtifactT &a) {
       auto &range = *a.weights[1]->range;
       range = k3::artifact::Range(range.offset() + 4, range.length());
     }},
    {"weight 1 'layers.0.scale': bytes 18446744073709551552 + 32",
     [](ArtifactT &a) {
       *a.weights[1]->range = k3::artifact::Range(UINT64_MAX - 63, 32);
     }},
    {"weight 1 'layers.0.scale': bytes 128 + 32",
     [](ArtifactT &a) {
       *a.weights[1]->range = k3::artifact::Range(128, 32);
     }},
    {"weight 1 'layers.0.scale': weight file 3 of 0",
     [](ArtifactT &a) { a.weights[1]->file = 3; }},
    {"weight 1 'layers.0.scale': weight file -2 of 0",
     [](ArtifactT &a) { a.weights[1]->file = -2; }},
    {"weight 1 'layers.0.scale': 1 ranges for 0 experts",
     [](ArtifactT &a) {
       a.weights[1]->experts = {k3::artifact::Range(0, 1)};
     }},
    {"weight 3 'layers.1.experts.{E}': 2 ranges for 3 experts",
     [](ArtifactT &a) {
       a.weights[3]->experts.assign(2, *a.weights[3]->range);
     }},
    {"expert 0: 96 bytes, but its shape needs 32",
     [](ArtifactT &a) {
       a.weights[3]->experts.assign(3, *a.weights[3]->range);
     }},
    {"2 files for 3 ranges",
     [](ArtifactT &a) {
       a.weights[3]->experts.assign(3, *a.weights[3]->range);
       a.weights[3]->expert_files = {0, 0};
     }},
    {"an expert group needs a shape",
     [](ArtifactT &a) { a.weights[3]->shape.clear(); }},
    {"weight file 0: no path",
     [](ArtifactT &a) {
       a.files.push_back(std::make_unique<k3::artifact::WeightFileT>());
     }},
    {"weight file 0: control character in path 'a\\x1bb'",
     [](ArtifactT &a) {
       a.files.push_back(std::make_unique<k3::artifact::WeightFileT>());
       a.files[0]->path = "a\x1b"
                          "b";
     }},
    // States and layers.
    {"state 0 'kda': layer 3 of 3",
     [](ArtifactT &a) { a.states[0]->layer = 3; }},
    {"state 0 '': no name", [](ArtifactT &a) { a.states[0]->name.clear(); }},
    {"state 0 'kda': unknown kind 9",
     [](ArtifactT &a) { a.states[0]->kind = k3::artifact::StateKind(9); }},
    {"state 2 'kv': page_tokens is 0",
     [](ArtifactT &a) { a.states[2]->page_tokens = 0; }},
    {"state 2 'kv': the shape of a page is not [4, width]",
     [](ArtifactT &a) { a.states[2]->shape = {8, 8}; }},
    {"state 1: layer 0 has 'kda' twice",
     [](ArtifactT &a) { a.states[1]->name = "kda"; }},
    {"states of more than 281474976710656 bytes",
     [](ArtifactT &a) {
       a.states[0]->shape = {int64_t(1) << 45};
       a.states[4]->shape = {int64_t(1) << 45};
       a.states[1]->shape = {int64_t(1) << 46};
       a.states[3]->shape = {int64_t(1) << 46};
     }},
    {"layer 1: kind 2 of 2", [](ArtifactT &a) { a.layers[1]->kind = 2; }},
    {"layer 0: weight 4 of 4",
     [](ArtifactT &a) { a.layers[0]->weights = {4}; }},
    {"layer 0: state 5 of 5",
     [](ArtifactT &a) { a.layers[0]->states = {5, 1}; }},
    {"layer 0: state 4 belongs to layer 2",
     [](ArtifactT &a) { a.layers[0]->states = {4, 1}; }},
    {"layer 0: state 0 twice",
     [](ArtifactT &a) { a.layers[0]->states = {0, 0}; }},
    {"layers list 4 of 5 states",
     [](ArtifactT &a) { a.layers[1]->states.clear(); }},
    {"layer 0: scalar 1 is -1",
     [](ArtifactT &a) { a.layers[0]->scalars[1] = -1; }},
    {"layer 2: differs from layer 0 of the same kind: in the number",
     [](ArtifactT &a) { a.layers[2]->scalars.pop_back(); }},
    {"layer 2: differs from layer 0 of the same kind: in the type of weight 0",
     [](ArtifactT &a) { a.layers[2]->weights = {0}; }},
    {"layer 2: differs from layer 0 of the same kind: in state 0 'conv_q'",
     [](ArtifactT &a) { a.layers[2]->states = {3, 4}; }},
    // Programs.
    {"no program", [](ArtifactT &a) { a.programs.clear(); }},
    {"no prefill program",
     [](ArtifactT &a) { a.programs.erase(a.programs.begin()); }},
    {"program 1: a second prefill program",
     [](ArtifactT &a) {
       a.programs[1]->phase = k3::artifact::Phase::Prefill;
     }},
    {"program 1: unknown phase 7",
     [](ArtifactT &a) { a.programs[1]->phase = k3::artifact::Phase(7); }},
    {"program 1: 1 layer kinds, program 0 has 2",
     [](ArtifactT &a) { a.programs[1]->layer_kinds.pop_back(); }},
    {"prefill program: max_tokens is 0",
     [](ArtifactT &a) { prefillOf(a).max_tokens = 0; }},
    {"prefill program: max_sequences is 4294967295",
     [](ArtifactT &a) { prefillOf(a).max_sequences = UINT32_MAX; }},
    {"prefill program: max_logit_rows is 0",
     [](ArtifactT &a) { prefillOf(a).max_logit_rows = 0; }},
    {"prefill program: chunk_rows is 4294967295",
     [](ArtifactT &a) { prefillOf(a).chunk_rows = UINT32_MAX; }},
    {"prefill program: an arena of 18446744073709551615 bytes",
     [](ArtifactT &a) { prefillOf(a).arena_bytes = UINT64_MAX; }},
    {"prefill program: unknown symbol 'Q'",
     [](ArtifactT &a) { prefillOf(a).symbols[3] = "Q"; }},
    {"prefill program: 8 symbols (at most 7)",
     [](ArtifactT &a) { prefillOf(a).symbols.push_back("T"); }},
    {"buffer 5 'chunks': needs chunk_rows, which is 0",
     [](ArtifactT &a) { prefillOf(a).chunk_rows = 0; }},
    {"buffer 0 'tokenz': unknown input",
     [](ArtifactT &a) { bufferOf(a, "tokens").name = "tokenz"; }},
    {"buffer 1: a second buffer named 'tokens'",
     [](ArtifactT &a) { bufferOf(a, "cu").name = "tokens"; }},
    {"buffer 0 'tokens': an input must be I32, not F32",
     [](ArtifactT &a) {
       bufferOf(a, "tokens").dtype = k3::artifact::DType::F32;
     }},
    {"buffer 1 'cu': shape is not [N + 1]",
     [](ArtifactT &a) { bufferOf(a, "cu").shape[0]->add = 0; }},
    {"buffer 4 'page_table': shape is not [N, M]",
     [](ArtifactT &a) { bufferOf(a, "page_table").shape.pop_back(); }},
    {"buffer 4 'page_table': shape is not [N, M]",
     [](ArtifactT &a) {
       std::swap(bufferOf(a, "page_table").shape[0],
                 bufferOf(a, "page_table").shape[1]);
     }},
    {"buffer 8 'logits': shape is not [R, 64]",
     [](ArtifactT &a) { bufferOf(a, "logits").shape[1]->mul = 65; }},
    {"buffer 8 'logitz': unknown output",
     [](ArtifactT &a) { bufferOf(a, "logits").name = "logitz"; }},
    {"prefill program: no output",
     [](ArtifactT &a) {
       auto &buffers = prefillOf(a).buffers;
       buffers[8]->role = k3::artifact::BufferRole::Transient;
       buffers[8]->arena_bytes = 4096;
     }},
    {"buffer 9 'stream': unknown role 3",
     [](ArtifactT &a) {
       bufferOf(a, "stream").role = k3::artifact::BufferRole(3);
     }},
    {"buffer 9 'stream': the stream is not F32 [slots, T, 8]",
     [](ArtifactT &a) { bufferOf(a, "stream").shape[2]->mul = 7; }},
    {"buffer 9 'stream': a layer uses slot 1 of 1",
     [](ArtifactT &a) { bufferOf(a, "stream").shape[0]->mul = 1; }},
    {"buffer 10 'conv': 1984 bytes in the arena, but its shape needs up to "
     "2048",
     [](ArtifactT &a) { bufferOf(a, "conv").arena_bytes -= 64; }},
    {"buffer 12 'entries': arena: bytes",
     [](ArtifactT &a) { bufferOf(a, "entries").arena_offset += 64; }},
    {"is not a multiple of 64",
     [](ArtifactT &a) { bufferOf(a, "stream").arena_offset += 4; }},
    {"buffer 10 'conv': a transient buffer cannot depend on S",
     [](ArtifactT &a) { bufferOf(a, "conv").shape[0]->symbols = {2}; }},
    {"buffer 10 'conv': a size uses symbol 7 of 7",
     [](ArtifactT &a) { bufferOf(a, "conv").shape[0]->symbols = {7}; }},
    {"buffer 10 'conv': a size is a product of 5 symbols (at most 4)",
     [](ArtifactT &a) {
       bufferOf(a, "conv").shape[0]->symbols.assign(5, 6);
     }},
    {"buffer 10 'conv': a size has mul 1 and div 0",
     [](ArtifactT &a) { bufferOf(a, "conv").shape[0]->div = 0; }},
    {"buffer 10 'conv': a size has mul -1 and div 1",
     [](ArtifactT &a) { bufferOf(a, "conv").shape[0]->mul = -1; }},
    {"buffer 10 'conv': negative or more than",
     [](ArtifactT &a) { bufferOf(a, "conv").shape[0]->mul = INT64_MAX; }},
    {"buffer 10 'conv': negative or more than",
     [](ArtifactT &a) { bufferOf(a, "conv").shape[0]->add = -2; }},
    {"layer kind 'kda': group 0, dispatch 0 'do_conv': kernel 9 of 9",
     [](ArtifactT &a) { dispatchOf(a, 0, 0).kernel = 9; }},
    {"dispatch 1 'do_chunk_sums': binding 2: layer weight 1 of 1",
     [](ArtifactT &a) { dispatchOf(a, 0, 1).bindings[2]->index = 1; }},
    {"dispatch 0 'do_conv': binding 3: layer state 2 of 2",
     [](ArtifactT &a) { dispatchOf(a, 0, 0).bindings[3]->index = 2; }},
    {"dispatch 0 'do_conv': binding 0: buffer 13 of 13",
     [](ArtifactT &a) { dispatchOf(a, 0, 0).bindings[0]->index = 13; }},
    {"dispatch 0 'do_conv': binding 0: unknown kind 4",
     [](ArtifactT &a) {
       dispatchOf(a, 0, 0).bindings[0]->kind = k3::artifact::BindingKind(4);
     }},
    {"dispatch 0 'do_conv': binding 1: writes to buffer 1, which is read-only",
     [](ArtifactT &a) { dispatchOf(a, 0, 0).bindings[1]->writes = true; }},
    {"binding 2: writes to layer weight 0, which is read-only",
     [](ArtifactT &a) { dispatchOf(a, 0, 1).bindings[2]->writes = true; }},
    {"dispatch 0 'do_conv': scalar 3: layer scalar 3 of 3",
     [](ArtifactT &a) { dispatchOf(a, 0, 0).scalars[3]->index = 3; }},
    {"dispatch 0 'do_conv': scalar 0: a size is missing",
     [](ArtifactT &a) { dispatchOf(a, 0, 0).scalars[0]->term.reset(); }},
    {"dispatch 0 'do_conv': scalar 0: unknown kind 2",
     [](ArtifactT &a) {
       dispatchOf(a, 0, 0).scalars[0]->kind = k3::artifact::ScalarKind(2);
     }},
    {"dispatch 0 'do_conv': more than 2147483648 tiles",
     [](ArtifactT &a) {
       dispatchOf(a, 0, 0).grid_x->mul = int64_t(1) << 29;
     }},
    {"dispatch 0 'do_conv': grid: a size is negative or too large",
     [](ArtifactT &a) { dispatchOf(a, 0, 0).grid_x->add = -3; }},
    {"prologue: group 0, dispatch 0 'do_embed': binding 1: weight 4 of 4",
     [](ArtifactT &a) {
       prefillOf(a).prologue[0]->dispatches[0]->bindings[1]->index = 4;
     }},
    {"prologue: group 0, dispatch 0 'do_embed': binding 0: layer state 0 of 0",
     [](ArtifactT &a) {
       prefillOf(a).prologue[0]->dispatches[0]->bindings[0]->kind =
           k3::artifact::BindingKind::LayerState;
     }},
    {"decode program: epilogue: group 0, dispatch 0 'do_head': scalar 0: layer "
     "scalar 0 of 0",
     [](ArtifactT &a) {
       a.programs[1]->epilogue[0]->dispatches[0]->scalars[0]->kind =
           k3::artifact::ScalarKind::LayerScalar;
     }},
    {"'do\\x0aconv'",
     [](ArtifactT &a) {
       dispatchOf(a, 0, 0).label = "do\nconv";
       dispatchOf(a, 0, 0).kernel = 99;
     }},
};

// Artifacts for CPU and GPU: kernels 9 to 17 and programs 2 and 3 are the GPU's.

auto &launchOf(ArtifactT &index, size_t kernel) {
  return *index.kernels[9 + kernel]->launch;
}
auto &gpuDispatchOf(ArtifactT &index, size_t group, size_t dispatch) {
  return *index.programs[2]->layer_kinds[0]->groups[group]->dispatches[dispatch];
}
auto &tensorMapOf(ArtifactT &index, size_t kernel) {
  return *launchOf(index, kernel).tensor_maps[0];
}

std::unique_ptr<k3::artifact::ProductT> product(uint32_t x, uint32_t weight, uint32_t out) {
  auto made = std::make_unique<k3::artifact::ProductT>();
  made->x = x;
  made->weight = weight;
  made->out = out;
  return made;
}

/// The GPU's embedding writes to a buffer of bf16.
void writeBf16(ArtifactT &index) {
  k3::artifact::ProgramT &program = *index.programs[2];
  for (uint32_t i = 0; i < program.buffers.size(); ++i)
    if (program.buffers[i]->role == k3::artifact::BufferRole::Transient &&
        program.buffers[i]->name != "stream") {
      program.buffers[i]->dtype = k3::artifact::DType::BF16;
      program.prologue[0]->dispatches[0]->bindings[2]->index = i;
    }
}

const Wrong gpuWrongs[] = {
    {"executable 1: unknown kind 2",
     [](ArtifactT &a) {
       a.executables[1]->kind = k3::artifact::ExecutableKind(2);
     }},
    {"executable 1: a cubin for 'x86-64', not for a chip like sm_90a",
     [](ArtifactT &a) { a.executables[1]->cpu = "x86-64"; }},
    {"executable 1: a cubin for '', not for a chip",
     [](ArtifactT &a) { a.executables[1]->cpu.clear(); }},
    {"executable 1: bytes 64 + ",
     [](ArtifactT &a) { a.executables[1]->blob->offset = 64; }},
    {"kernel 9 'embed': no launch, but executable 1 is a cubin",
     [](ArtifactT &a) { a.kernels[9]->launch.reset(); }},
    {"kernel 9 'embed': a launch, but executable 0 is not a cubin",
     [](ArtifactT &a) { a.kernels[9]->executable = 0; }},
    {"kernel 0 'embed': a product, but executable 0 is not a cubin",
     [](ArtifactT &a) { a.kernels[0]->product = product(0, 1, 2); }},
    {"dispatch 0 'do_embed': product: binding 3 of 3",
     [](ArtifactT &a) { a.kernels[9]->product = product(0, 1, 3); }},
    {"product: x is not a buffer of bf16",
     [](ArtifactT &a) { a.kernels[9]->product = product(0, 1, 2); }},
    {"product: x is not a buffer of bf16",
     [](ArtifactT &a) { a.kernels[9]->product = product(1, 1, 2); }},
    {"product: weight is not a bf16 matrix",
     [](ArtifactT &a) {
       a.kernels[9]->product = product(2, 1, 2);
       writeBf16(a);
     }},
    {"product: out is not a buffer of f32 or bf16 that is written",
     [](ArtifactT &a) {
       a.kernels[9]->product = product(2, 1, 0);
       writeBf16(a);
       a.weights[0]->dtype = k3::artifact::DType::BF16; // as many bytes
       a.weights[0]->shape = {64, 16};
     }},
    {"product: scalar 3 of 3",
     [](ArtifactT &a) {
       a.kernels[9]->product = product(2, 1, 2);
       a.kernels[9]->product->slot = 3;
       writeBf16(a);
       a.weights[0]->dtype = k3::artifact::DType::BF16; // as many bytes
       a.weights[0]->shape = {64, 16};
     }},
    {"kernel 9 'embed': 64 bytes of scratch memory (at most 0)",
     [](ArtifactT &a) { a.kernels[9]->scratch_bytes = 64; }},
    {"kernel 10 'conv': launch: no entry",
     [](ArtifactT &a) { launchOf(a, 1).entry.clear(); }},
    {"kernel 10 'conv': launch: entry 'a\\x0ab' is not a symbol",
     [](ArtifactT &a) { launchOf(a, 1).entry = "a\nb"; }},
    {"launch: 0 threads (1 to 1024)",
     [](ArtifactT &a) { launchOf(a, 1).threads = 0; }},
    {"launch: 1025 threads (1 to 1024)",
     [](ArtifactT &a) { launchOf(a, 1).threads = 1025; }},
    {"launch: 232449 bytes of shared memory (at most 232448)",
     [](ArtifactT &a) {
       launchOf(a, 1).dynamic_shared_bytes = 232448;
       launchOf(a, 1).static_shared_bytes = 1;
     }},
    {"launch: 8589934590 bytes of shared memory",
     [](ArtifactT &a) {
       launchOf(a, 1).dynamic_shared_bytes = UINT32_MAX;
       launchOf(a, 1).static_shared_bytes = UINT32_MAX;
     }},
    {"launch: clusters of 0 blocks (1 to 16)",
     [](ArtifactT &a) { launchOf(a, 1).cluster = 0; }},
    {"launch: clusters of 17 blocks (1 to 16)",
     [](ArtifactT &a) { launchOf(a, 1).cluster = 17; }},
    {"launch: resident, but in clusters of 2 blocks",
     [](ArtifactT &a) {
       launchOf(a, 1).resident = true;
       launchOf(a, 1).cluster = 2;
     }},
    {"'do_conv': 2 blocks along y or z, but the kernel is resident",
     [](ArtifactT &a) { launchOf(a, 1).resident = true; }},
    {"'do_conv': 2 blocks along y or z, but the kernel is resident",
     [](ArtifactT &a) {
       launchOf(a, 1).resident = true;
       gpuDispatchOf(a, 0, 0).grid_z = std::move(gpuDispatchOf(a, 0, 0).grid_y);
     }},
    {"kernel 9 'embed': launch: tensor map 0: a box of 0 dimensions (1 to 5)",
     [](ArtifactT &a) { tensorMapOf(a, 0).box.clear(); }},
    {"tensor map 0: a box of 6 dimensions (1 to 5)",
     [](ArtifactT &a) { tensorMapOf(a, 0).box.assign(6, 4); }},
    {"tensor map 0: a box with a size of 0 (1 to 256)",
     [](ArtifactT &a) { tensorMapOf(a, 0).box[0] = 0; }},
    {"tensor map 0: a box with a size of 257 (1 to 256)",
     [](ArtifactT &a) { tensorMapOf(a, 0).box[1] = 257; }},
    {"tensor map 0: a swizzle of 16 bytes (0, 32, 64 or 128)",
     [](ArtifactT &a) { tensorMapOf(a, 0).swizzle = 16; }},
    {"GPU prefill program: prologue: group 0, dispatch 0 'do_embed': tensor "
     "map 0: binding 3 of 3",
     [](ArtifactT &a) { tensorMapOf(a, 0).binding = 3; }},
    {"'do_embed': tensor map 0: a box of 3 dimensions, but binding 1 has 2",
     [](ArtifactT &a) { tensorMapOf(a, 0).box = {1, 1, 8}; }},
    {"'do_embed': tensor map 0: a box of 12 bytes in a row, not a multiple of "
     "16",
     [](ArtifactT &a) { tensorMapOf(a, 0).box[1] = 3; }},
    {"'do_embed': tensor map 0: a box of 64 bytes in a row, more than its "
     "swizzle of 32",
     [](ArtifactT &a) { tensorMapOf(a, 0).box[1] = 16; }},
    {"'do_append': tensor map 0: a box of 4 dimensions, but binding 4 has 3",
     [](ArtifactT &a) { tensorMapOf(a, 6).box = {1, 1, 1, 8}; }},
    {"'do_attend': tensor map 0: a box of 1 dimensions, but binding 5 has 0",
     [](ArtifactT &a) {
       auto &maps = launchOf(a, 7).tensor_maps;
       maps.push_back(std::make_unique<k3::artifact::TensorMapT>());
       maps[0]->binding = 5; // experts
       maps[0]->box = {8};
     }},
    {"'do_conv': kernel 'conv' is not for a Cubin program",
     [](ArtifactT &a) { gpuDispatchOf(a, 0, 0).kernel = 1; }},
    {"'do_conv': kernel 'conv' is not for a Elf program",
     [](ArtifactT &a) { dispatchOf(a, 0, 0).kernel = 10; }},
    {"'do_conv': a grid of 65536 blocks in one dimension (at most 65535)",
     [](ArtifactT &a) { gpuDispatchOf(a, 0, 0).grid_y->mul = 65536; }},
    {"'do_conv': a grid of 2147483640 blocks in one dimension (at most "
     "2147483631)",
     [](ArtifactT &a) {
       gpuDispatchOf(a, 0, 0).grid_x->mul = 268435455;
       gpuDispatchOf(a, 0, 0).grid_y.reset();
     }},
    {"bytes of kernel parameters (at most 4096)",
     [](ArtifactT &a) {
       auto &maps = launchOf(a, 1).tensor_maps;
       for (int i = 0; i < 32; ++i)
         maps.push_back(
             std::make_unique<k3::artifact::TensorMapT>(*maps[0]));
     }},
    {"program 3: a second GPU prefill program",
     [](ArtifactT &a) {
       a.programs[3]->phase = k3::artifact::Phase::Prefill;
     }},
    {"program 2: unknown kind of executables 5",
     [](ArtifactT &a) {
       a.programs[2]->executable_kind = k3::artifact::ExecutableKind(5);
     }},
    {"no GPU prefill program",
     [](ArtifactT &a) { a.programs.erase(a.programs.begin() + 2); }},
    {"no prefill program",
     [](ArtifactT &a) { a.programs.erase(a.programs.begin()); }},
    {"GPU decode program: epilogue: group 0, dispatch 0 'do_head': kernel 19 "
     "of 19",
     [](ArtifactT &a) {
       a.programs[3]->epilogue[0]->dispatches[0]->kernel = 19;
     }},
    {"GPU prefill program: buffer 13 'sampling': shape is not [R, 8]",
     [](ArtifactT &a) { a.programs[2]->buffers[13]->shape[1]->mul = 7; }},
    {"buffer 14 'banned': shape is not [1 to 1024, 2]",
     [](ArtifactT &a) { a.programs[2]->buffers[14]->shape[1]->mul = 3; }},
    {"buffer 14 'banned': shape is not [1 to 1024, 2]",
     [](ArtifactT &a) { a.programs[2]->buffers[14]->shape[0]->mul = 1025; }},
    {"buffer 14 'banned': shape is not [1 to 1024, 2]",
     [](ArtifactT &a) { a.programs[2]->buffers[14]->shape[0]->add = 1; }},
    {"buffer 14 'banned': shape is not [1 to 1024, 2]",
     [](ArtifactT &a) { a.programs[2]->buffers[14]->shape.pop_back(); }},
    {"buffer 14 'banned': an input must be I32, not F32",
     [](ArtifactT &a) {
       a.programs[2]->buffers[14]->dtype = k3::artifact::DType::F32;
     }},
    {"buffer 15 'ids': ids must be I32, not F32",
     [](ArtifactT &a) {
       a.programs[2]->buffers[15]->dtype = k3::artifact::DType::F32;
     }},
    {"buffer 15 'ids': shape is not [R]",
     [](ArtifactT &a) { a.programs[2]->buffers[15]->shape[0]->add = 1; }},
    {"ids without the inputs sampling and banned",
     [](ArtifactT &a) {
       a.programs[2]->buffers[14]->name = "other";
       a.programs[2]->buffers[14]->role = k3::artifact::BufferRole::Transient;
       a.programs[2]->buffers[14]->arena_bytes = 64;
     }},
    {"GPU programs with 3 and with 2 sets of banned tokens",
     [](ArtifactT &a) { a.programs[3]->buffers[14]->shape[0]->mul = 2; }},
};

TEST(CheckArtifact, NamesWhatIsWrongForGpus) {
  Options options;
  options.targets = Targets::both;
  options.tensorMaps = true;
  options.choosesTokens = true;
  Model model = make(options);
  Status fine = parse(serialize(model));
  EXPECT_TRUE(fine.ok()) << fine.message();
  for (const Wrong &wrong : gpuWrongs) {
    model = make(options);
    std::string good = serialize(model);
    wrong.change(model.index);
    Status status = parse(assemble(model.index, good.substr(blobsBegin)));
    EXPECT_EQ(status.code(), K3RT_BAD_ARTIFACT) << wrong.message;
    EXPECT_NE(status.message().find(wrong.message), std::string::npos)
        << "wanted: " << wrong.message << "\nfound:  " << status.message();
    EXPECT_TRUE(oneLine(status.message()));
  }
}

// As for the CPU above: whatever is not noticed must be harmless to look at.
TEST(Artifact, FlippedBytesOfGpuPartsUnderAFreshHash) {
  Options options;
  options.targets = Targets::gpu;
  options.tensorMaps = true;
  options.choosesTokens = true;
  Model model = make(options);
  std::string good = serialize(model);
  k3_artifact_header header;
  memcpy(&header, good.data(), sizeof(header));
  int refused = 0;
  for (size_t i = header.index_offset;
       i < header.index_offset + header.index_length; ++i) {
    std::string bytes = good.substr(0, blobsBegin);
    bytes[i] = char(bytes[i] ^ (1 << i % 8));
    bytes.resize(good.size());
    bytes = withHeader(
        bytes, offsetof(k3_artifact_header, index_hash),
        k3rt::hashBytes(&bytes[header.index_offset], header.index_length));
    Status status = parse(bytes);
    if (!status.ok()) {
      ++refused;
      ASSERT_TRUE(oneLine(status.message())) << status.message();
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(CheckArtifact, NamesWhatIsWrong) {
  for (const Wrong &wrong : wrongs) {
    Model model = make();
    std::string good = serialize(model);
    wrong.change(model.index);
    Status status = parse(assemble(model.index, good.substr(blobsBegin)));
    EXPECT_EQ(status.code(), K3RT_BAD_ARTIFACT) << wrong.message;
    EXPECT_NE(status.message().find(wrong.message), std::string::npos)
        << "wanted: " << wrong.message << "\nfound:  " << status.message();
    EXPECT_TRUE(oneLine(status.message()));
  }
}

TEST(CheckArtifact, OptionalPartsMayBeMissing) {
  Model model = make();
  std::string good = serialize(model);
  model.index.tokenizer.reset();
  model.index.compiler_version.clear();
  model.index.model->name.clear();
  for (auto &program : model.index.programs)
    for (auto &buffer : program->buffers)
      if (buffer->name == "stream")
        buffer->name = "renamed";
  Status status = parse(assemble(model.index, good.substr(blobsBegin)));
  EXPECT_TRUE(status.ok()) << status.message();
}

//===----------------------------------------------------------------------===//
// What is needed beside the file
//===----------------------------------------------------------------------===//

TEST(Open, CpuFeatures) {
  struct {
    std::vector<std::string> features;
    const char *message;
  } cases[] = {
      {{"sse2", "avx513"},
       "the CPU feature 'avx513', which this runtime does "
       "not know"},
      {{"+sse2", "-avx513", "+nope\n"}, "the CPU feature 'nope\\x0a'"},
      // No x86 has both.
      {{"sse2", "fma4", "amx-tile"}, "lacks "},
  };
  Folder folder;
  for (auto &wrong : cases) {
    Model model = make();
    model.index.executables[0]->features = wrong.features;
    std::string path = folder.write("cpu.k3a", serialize(model));
    TestEngine engine;
    EXPECT_EQ(engine.open(path), K3RT_UNSUPPORTED) << wrong.message;
    EXPECT_NE(engine.error.find(wrong.message), std::string::npos)
        << engine.error;
    EXPECT_TRUE(oneLine(engine.error));
  }
  Model model = make();
  model.index.executables[0]->features = {"+sse2", "-avx513", "64bit"};
  TestEngine fine(folder.write("fine.k3a", serialize(model)));

  model = make();
  model.index.executables[0]->arch = "aarch64";
  TestEngine engine;
  EXPECT_EQ(engine.open(folder.write("arch.k3a", serialize(model))),
            K3RT_UNSUPPORTED);
  EXPECT_NE(engine.error.find("compiled for 'aarch64', this machine is"),
            std::string::npos);
}

TEST(Open, CodeThatIsNone) {
  Folder folder;
  Model model = make();
  std::string elf = model.code;
  auto error = [&](const std::string &code) {
    model = make();
    model.code = code;
    TestEngine engine;
    EXPECT_NE(engine.open(folder.write("code.k3a", serialize(model))), K3RT_OK);
    EXPECT_TRUE(oneLine(engine.error)) << engine.error;
    return engine.error.substr(engine.error.find(": ") + 2);
  };
  EXPECT_EQ(error(""), "compiled code is not an ELF file");
  EXPECT_EQ(error(std::string(100, 'x')), "compiled code is not an ELF file");
  std::string object = elf;
  object[16] = 1; // ET_REL
  EXPECT_EQ(error(object), "compiled code is not a 64-bit shared object");
  EXPECT_EQ(error(elf.substr(0, 64)).find("cannot load compiled code: "), 0u);

  model = make();
  model.index.kernels[3]->ordinal = 77;
  TestEngine engine;
  EXPECT_EQ(engine.open(folder.write("ordinal.k3a", serialize(model))),
            K3RT_BAD_ARTIFACT);
  EXPECT_NE(engine.error.find(
                "kernel 'chunk_scan': ordinal 77 of 12 in compiled code"),
            std::string::npos)
      << engine.error;
}

TEST(Open, WeightsBesideTheArtifact) {
  for (Weights where : {Weights::beside, Weights::expertsApart}) {
    Options options;
    options.weights = where;
    Folder folder, elsewhere;
    std::string path = writeModel(folder, options);
    Tokens tokens = prompt(12, 60);
    Oracle oracle;
    Logits want = expected(oracle, tokens).back();
    {
      TestEngine engine(path);
      EXPECT_EQ(engine.feed(engine.create(), tokens), want);
    }
    std::string weights = folder.path("model.k3w");
    std::ifstream file(weights, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(file)), {});
    elsewhere.write("model.k3w", bytes);
    folder.write("model.k3w", bytes.substr(0, bytes.size() - 1));
    TestEngine shorter, missing;
    EXPECT_EQ(shorter.open(path), K3RT_IO_ERROR);
    EXPECT_EQ(shorter.error, "weight file " + weights + ": " +
                                 std::to_string(bytes.size() - 1) +
                                 " bytes, but it had " +
                                 std::to_string(bytes.size()) +
                                 " when the model was compiled");
    unlink(weights.c_str());
    EXPECT_EQ(missing.open(path), K3RT_IO_ERROR);
    EXPECT_EQ(missing.error,
              "weight file " + weights + ": No such file or directory");
    std::string folderName = elsewhere.path("");
    TestEngine moved(path,
                     [&](auto &o) { o.weights_dir = folderName.c_str(); });
    EXPECT_EQ(moved.feed(moved.create(), tokens), want);
  }
}

TEST(Open, WithoutWeights) {
  Options options;
  options.weights = Weights::none;
  Folder folder;
  std::string path = writeModel(folder, options);
  k3rt_memory_plan plan = {};
  plan.size = sizeof(plan);
  char error[256] = "";
  EXPECT_EQ(k3rt_plan_open(path.c_str(), 0, nullptr, &plan, error, 256),
            K3RT_OK)
      << error;
  EXPECT_EQ(plan.kv_bytes_per_token, hidden * 4u);
  TestEngine engine;
  EXPECT_EQ(engine.open(path), K3RT_BAD_ARTIFACT);
  EXPECT_EQ(engine.error, path + ": compiled without weights: it can be "
                                 "inspected and planned, but not run");
}

TEST(Open, InsideAnotherFile) {
  Folder folder;
  Model model = make();
  std::string bytes = serialize(model);
  std::string path =
      folder.write("program", std::string(3 * 4096, '#') + bytes + "trailer");
  TestEngine engine;
  ASSERT_EQ(engine.open(path, {}, 3 * 4096), K3RT_OK) << engine.error;
  Oracle oracle;
  EXPECT_EQ(engine.feed(engine.create(), {5}), oracle.next(5));
  TestEngine wrong;
  EXPECT_EQ(wrong.open(path, {}, 100), K3RT_INVALID_ARGUMENT);
  EXPECT_EQ(wrong.open(path, {}, 4096), K3RT_BAD_ARTIFACT);
  EXPECT_EQ(wrong.open(path, {}, uint64_t(1) << 40), K3RT_INVALID_ARGUMENT);
  EXPECT_EQ(wrong.open(path, {}, UINT64_MAX - 4095), K3RT_INVALID_ARGUMENT);
}

TEST(Open, SeveralEnginesAtOnce) {
  Folder folder;
  std::string path = writeModel(folder);
  Options other;
  other.vocab = 80;
  Folder folder2;
  std::string path2 = writeModel(folder2, other);
  auto first = std::make_unique<TestEngine>(path);
  TestEngine second(path2);
  first.reset();
  TestEngine third(path);
  Oracle a(80), b;
  EXPECT_EQ(second.feed(second.create(), {5}), a.next(5));
  EXPECT_EQ(third.feed(third.create(), {5}), b.next(5));
}

TEST(Open, Options) {
  Folder folder;
  std::string path = writeModel(folder);
  struct {
    const char *message;
    TestEngine::Change change;
  } cases[] = {
      {"threads is 5000", [](auto &o) { o.threads = 5000; }},
      {"max_sequences is 4294967295",
       [](auto &o) { o.max_sequences = UINT32_MAX; }},
      {"max_context is 100001, the model's limit is 100000",
       [](auto &o) { o.max_context = 100001; }},
      {"prefill_window is 65 (0 to 64)",
       [](auto &o) { o.prefill_window = 65; }},
  };
  for (auto &wrong : cases) {
    TestEngine engine;
    EXPECT_EQ(engine.open(path, wrong.change), K3RT_INVALID_ARGUMENT);
    EXPECT_NE(engine.error.find(wrong.message), std::string::npos)
        << engine.error;
  }
}

} // namespace
