//===- CudaBlasTest.cpp - products by a library --------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/device/CudaBlas.h"
#include "runtime/src/artifact/Artifact.h"
#include "runtime/src/artifact/RandomWeights.h"
#include "test/unit/Runtime/CudaTest.h"

#include <cmath>
#include <cstring>
#include <random>

using namespace toy;
using namespace k3rt;

namespace {

float fromBf16(uint16_t high) {
  uint32_t bits = uint32_t(high) << 16;
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

/// Multiples of 1/8 up to 2, which bf16 has.
std::vector<uint16_t> bf16s(uint32_t seed, size_t count) {
  std::mt19937 random(seed);
  std::vector<uint16_t> out(count);
  for (uint16_t &high : out) {
    float value = (float(random() % 33) - 16) / 8;
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    high = uint16_t(bits >> 16);
  }
  return out;
}

class CudaBlasTest : public CudaTest {
protected:
  CudaBlasTest() { fakecuda::loadBlas(); }
};

TEST_F(CudaBlasTest, MultipliesRowMajorMatrices) {
  ThreadPool threads;
  ASSERT_TRUE(threads.start(1).ok());
  CudaDevice device(threads);
  ASSERT_TRUE(device.open(0).ok());
  CudaBlas blas(device);
  CudaDevice::Scope scope(device);
  Status status = blas.open();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(blas.name(), "cuBLASLt 13.1.0");
  struct {
    int64_t rows, n, k;
  } all[] = {{5, 7, 16}, {1, 24, 8}, {33, 3, 64}};
  for (const auto &size : all)
    for (bool outIsBf16 : {false, true})
      for (bool accumulate : {false, true}) {
        std::vector<uint16_t> x = bf16s(1, size_t(size.rows * size.k)), weight = bf16s(2, size_t(size.n * size.k));
        size_t count = size_t(size.rows * size.n);
        std::vector<char> old(count * (outIsBf16 ? 2 : 4));
        for (size_t i = 0; i < count; ++i) {
          float value = float(i % 5);
          uint32_t bits;
          memcpy(&bits, &value, sizeof(bits));
          bits >>= outIsBf16 ? 16 : 0;
          memcpy(&old[i * (outIsBf16 ? 2 : 4)], &bits, outIsBf16 ? 2 : 4);
        }
        DeviceBuffer memory;
        ASSERT_TRUE(memory.allocate(device, 1 << 16, "a test").ok());
        CudaBlas::Product product;
        product.x = memory.data() + 16;
        product.weight = memory.data() + (16 << 10);
        product.out = memory.data() + (32 << 10) + 48;
        product.rows = size.rows;
        product.n = size.n;
        product.k = size.k;
        product.outIsBf16 = outIsBf16;
        product.accumulate = accumulate;
        device.upload(const_cast<void *>(product.x), x.data(), x.size() * 2);
        device.upload(const_cast<void *>(product.weight), weight.data(), weight.size() * 2);
        device.upload(product.out, old.data(), old.size());
        ASSERT_TRUE(blas.multiply(product));
        std::vector<char> have(old.size());
        device.download(have.data(), product.out, have.size());
        ASSERT_TRUE(device.finish().ok());
        for (int64_t row = 0; row < size.rows; ++row)
          for (int64_t column = 0; column < size.n; ++column) {
            auto at = size_t(row * size.n + column);
            float want = accumulate ? float(at % 5) : 0;
            for (int64_t i = 0; i < size.k; ++i)
              want += fromBf16(x[size_t(row * size.k + i)]) * fromBf16(weight[size_t(column * size.k + i)]);
            float found;
            uint16_t half;
            memcpy(&half, &have[at * 2], 2);
            if (!outIsBf16)
              memcpy(&found, &have[at * 4], 4);
            else
              found = fromBf16(half);
            ASSERT_NEAR(found, want, outIsBf16 ? std::fabs(want) / 256 : 0) << row << " " << column;
          }
      }
  // What is not aligned is left alone.
  CudaBlas::Product product;
  product.x = product.weight = reinterpret_cast<void *>(4096);
  product.out = reinterpret_cast<void *>(4104);
  product.rows = product.n = product.k = 8;
  EXPECT_FALSE(blas.multiply(product));
}

TEST_F(CudaBlasTest, WhatItCannotDoIsLeftToOthers) {
  ThreadPool threads;
  ASSERT_TRUE(threads.start(1).ok());
  CudaDevice device(threads);
  ASSERT_TRUE(device.open(0).ok());
  CudaDevice::Scope scope(device);
  {
    fake.settings.libraryCreates = 1;
    CudaBlas blas(device);
    EXPECT_EQ(blas.open().message(), "cuBLASLt 13.1.0: cublasLtCreate ended with 1");
  }
  fake.settings.libraryCreates = 0;
  CudaBlas blas(device);
  ASSERT_TRUE(blas.open().ok());
  DeviceBuffer memory;
  ASSERT_TRUE(memory.allocate(device, 4096, "a test").ok());
  CudaBlas::Product product;
  product.x = product.weight = memory.data();
  product.out = memory.data() + 2048;
  product.rows = product.n = product.k = 8;
  fake.settings.algorithms = 0;
  EXPECT_FALSE(blas.multiply(product));
  fake.settings.algorithms = 1;
  EXPECT_FALSE(blas.multiply(product)) << "it has said so before";
  product.rows = 9;
  fake.settings.libraryMultiplies = 13;
  EXPECT_FALSE(blas.multiply(product));
  fake.settings.libraryMultiplies = 0;
  EXPECT_FALSE(blas.multiply(product)) << "it has failed before";
  EXPECT_TRUE(fake.matmuls.empty());
  product.rows = 10;
  EXPECT_TRUE(blas.multiply(product));
  EXPECT_EQ(fake.matmuls.size(), 1u);
}

//===----------------------------------------------------------------------===//
// In a program
//===----------------------------------------------------------------------===//

namespace schema = k3::artifact;
constexpr int64_t size = 1024;
constexpr uint64_t seed = 5;

/// The toy model whose programs also multiply x[T, size], which a kernel fills, to the second matrix of out[2, T, size].
/// The product's own kernel does nothing.
std::string writeWithProduct(const Folder &folder) {
  Options options;
  options.targets = Targets::gpu;
  options.weights = Weights::none;
  options.maxTokens = 300;
  toy::Model model = make(options);
  model.cubin.insert(model.cubin.rfind("end"), "toy_fill_rows 9 1 2 0 0 0 1024 0\ntoy_product 10 3 1 0 0 0 1024 0\n");
  schema::ArtifactT &index = model.index;
  auto weight = std::make_unique<schema::WeightT>();
  weight->name = "product.weight";
  weight->dtype = schema::DType::BF16;
  weight->shape = {size, size};
  index.weights.push_back(std::move(weight));
  auto firstKernel = uint32_t(index.kernels.size());
  for (const char *name : {"fill_rows", "product"}) {
    auto kernel = std::make_unique<schema::KernelT>();
    kernel->name = name;
    kernel->executable = index.kernels.back()->executable;
    kernel->launch = std::make_unique<schema::LaunchT>();
    kernel->launch->entry = std::string("toy_") + name;
    kernel->launch->threads = 32;
    index.kernels.push_back(std::move(kernel));
  }
  auto product = std::make_unique<schema::ProductT>();
  product->x = 0;
  product->weight = 1;
  product->out = 2;
  product->slot = 0;
  index.kernels.back()->product = std::move(product);
  for (auto &program : index.programs) {
    auto rows = uint8_t(std::find(program->symbols.begin(), program->symbols.end(), "T") - program->symbols.begin());
    auto term = [](int64_t value, std::vector<uint8_t> symbols = {}) {
      auto out = std::make_unique<schema::TermT>();
      out->mul = value;
      out->symbols = std::move(symbols);
      return out;
    };
    auto firstBuffer = uint32_t(program->buffers.size());
    auto add = [&](const char *name, schema::DType dtype, uint64_t element, int64_t slots) {
      auto buffer = std::make_unique<schema::BufferT>();
      buffer->name = name;
      buffer->role = schema::BufferRole::Transient;
      buffer->dtype = dtype;
      if (slots > 1)
        buffer->shape.push_back(term(slots));
      buffer->shape.push_back(term(1, {rows}));
      buffer->shape.push_back(term(size));
      buffer->arena_offset = program->arena_bytes;
      buffer->arena_bytes = uint64_t(slots) * program->max_tokens * uint64_t(size) * element;
      program->arena_bytes += buffer->arena_bytes;
      program->buffers.push_back(std::move(buffer));
    };
    add("x", schema::DType::BF16, 2, 1);
    add("out", schema::DType::F32, 4, 2);
    auto group = [&](uint32_t kernel, std::vector<std::pair<schema::BindingKind, uint32_t>> bindings) {
      auto dispatch = std::make_unique<schema::DispatchT>();
      dispatch->kernel = kernel;
      dispatch->label = "do_" + index.kernels[kernel]->name;
      for (auto [kind, number] : bindings) {
        dispatch->bindings.push_back(std::make_unique<schema::BindingT>());
        dispatch->bindings.back()->kind = kind;
        dispatch->bindings.back()->index = number;
      }
      dispatch->bindings.back()->writes = true;
      auto out = std::make_unique<schema::GroupT>();
      out->dispatches.push_back(std::move(dispatch));
      program->prologue.push_back(std::move(out));
      return program->prologue.back()->dispatches[0].get();
    };
    auto addScalar = [](schema::DispatchT *dispatch, std::unique_ptr<schema::TermT> value) {
      dispatch->scalars.push_back(std::make_unique<schema::ScalarT>());
      dispatch->scalars.back()->term = std::move(value);
    };
    schema::DispatchT *fill = group(firstKernel, {{schema::BindingKind::Buffer, firstBuffer}});
    addScalar(fill, term(1, {rows}));
    addScalar(fill, term(size));
    schema::DispatchT *multiply = group(firstKernel + 1, {{schema::BindingKind::Buffer, firstBuffer},
                                                          {schema::BindingKind::Weight, uint32_t(index.weights.size() - 1)},
                                                          {schema::BindingKind::Buffer, firstBuffer + 1}});
    addScalar(multiply, term(1));
  }
  return folder.write("model.k3a", serialize(model));
}

TestEngine::Change withLibrary(int32_t cublas) {
  return [cublas](k3rt_engine_options &o) {
    o.device = "cuda:0";
    o.random_weights = seed;
    o.cublas = cublas;
    o.max_context = 1000;
  };
}

std::string productsOf(const TestEngine &engine) {
  k3rt_device_info info = {};
  info.size = sizeof(info);
  EXPECT_EQ(k3rt_device_info_get(engine.engine, &info), K3RT_OK);
  return info.products;
}

TEST_F(CudaBlasTest, LargeProductsOfPrefill) {
  std::string path = writeWithProduct(folder);
  auto kernelLaunches = [&] {
    size_t count = 0;
    for (const fakecuda::Launch &launch : fake.launches)
      count += launch.kernel == "toy_product";
    return count;
  };
  {
    TestEngine own(path, withLibrary(-1));
    EXPECT_EQ(productsOf(own), "own kernels");
    own.feed(own.create(), prompt(300, 1));
    EXPECT_EQ(kernelLaunches(), 1u);
    EXPECT_EQ(fake.matmuls.size(), 0u);
  }
  TestEngine engine(path, withLibrary(0));
  EXPECT_EQ(productsOf(engine), "cuBLASLt 13.1.0 for large ones of prefill");
  k3rt_sequence sequence = engine.create();
  engine.feed(sequence, prompt(256, 1));
  EXPECT_EQ(kernelLaunches(), 1u);
  ASSERT_EQ(fake.matmuls.size(), 1u);
  EXPECT_EQ(fake.matmuls[0].m, uint64_t(size));
  EXPECT_EQ(fake.matmuls[0].n, 256u);
  EXPECT_EQ(fake.matmuls[0].k, uint64_t(size));
  EXPECT_FALSE(fake.matmuls[0].outIsBf16);
  EXPECT_EQ(fake.matmuls[0].beta, 0);
  // Few rows, and decode.
  engine.feed(sequence, prompt(255, 1));
  engine.feed(sequence, {1});
  EXPECT_EQ(kernelLaunches(), 3u);
  EXPECT_EQ(fake.matmuls.size(), 1u);
  // When it finds nothing to do it with.
  fake.settings.algorithms = 0;
  engine.feed(sequence, prompt(257, 1));
  EXPECT_EQ(kernelLaunches(), 4u);
}

TEST_F(CudaBlasTest, ProductsGoWhereTheyBelong) {
  std::string path = writeWithProduct(folder);
  TestEngine engine(path, withLibrary(1));
  EXPECT_EQ(productsOf(engine), "cuBLASLt 13.1.0 for all of prefill");
  std::vector<float> out;
  auto keep = [](void *user, const k3rt_trace_event *event) {
    if (event->layer >= 0 || strcmp(event->buffer, "out") != 0)
      return;
    ASSERT_EQ(event->rank, 3u);
    EXPECT_EQ(event->shape[1], 3);
    auto *values = static_cast<const float *>(event->data);
    *static_cast<std::vector<float> *>(user) = std::vector<float>(values, values + 2 * 3 * size);
  };
  ASSERT_EQ(k3rt_set_trace(engine.engine, keep, &out), K3RT_OK);
  engine.feed(engine.create(), prompt(3, 1));
  ASSERT_EQ(out.size(), size_t(2 * 3 * size));
  Artifact artifact;
  ASSERT_TRUE(artifact.open(path, 0).ok());
  RandomWeights random(artifact.index(), seed);
  std::vector<uint16_t> weight(size_t(size * size));
  random.write(random.count() - 1, 0, weight.size() * 2, reinterpret_cast<char *>(weight.data()));
  const float values[] = {1, -1, 2, 0, 0.5f};
  for (int64_t row = 0; row < 3; ++row)
    for (int64_t column = 0; column < size; column += 17) {
      EXPECT_TRUE(std::isnan(out[size_t(row * size + column)])) << "the first matrix is not written";
      double want = 0;
      for (int64_t i = 0; i < size; ++i)
        want += double(values[(row * size + i) * 7 % 5]) * double(fromBf16(weight[size_t(column * size + i)]));
      ASSERT_NEAR(double(out[size_t((3 + row) * size + column)]), want, 1e-4);
    }
}

// The engine runs without it, and says why.
TEST_F(CudaBlasTest, ALibraryThatDoesNotStart) {
  fake.settings.libraryCreates = 1;
  TestEngine engine(writeWithProduct(folder), withLibrary(0));
  EXPECT_EQ(productsOf(engine), "own kernels (cuBLASLt 13.1.0: cublasLtCreate ended with 1)");
  engine.feed(engine.create(), prompt(256, 1));
  EXPECT_TRUE(fake.matmuls.empty());
}

} // namespace
