//===- Describe.cpp - parts of an artifact in words ----------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/runtime/k3-inspect/Describe.h"
#include "runtime/src/base/Status.h"

namespace k3inspect {

using namespace k3::artifact;
using k3rt::formatText;

std::string plain(const flatbuffers::String *text) {
  if (!text || text->size() == 0)
    return "-";
  std::string out;
  for (unsigned char c : text->string_view())
    out += c < 0x20 || c >= 0x7f || c == '"' || c == '\\'
               ? formatText("\\x%02x", c)
               : std::string(1, char(c));
  return out;
}

const char *dtypeName(DType dtype) {
  switch (dtype) {
  case DType::F32:
    return "f32";
  case DType::BF16:
    return "bf16";
  case DType::I8:
    return "i8";
  case DType::U8:
    return "u8";
  case DType::I32:
    return "i32";
  }
  return "?";
}

const char *phaseName(Phase phase) {
  return phase == Phase::Prefill ? "prefill" : "decode";
}

/// Collects "[a, b]".
class List {
public:
  void add(const std::string &item) {
    text += (text.empty() ? "" : ", ") + item;
  }
  std::string str() const { return "[" + text + "]"; }

private:
  std::string text;
};

std::string typeText(DType dtype, const flatbuffers::Vector<int64_t> *shape) {
  List sizes;
  if (shape)
    for (int64_t size : *shape)
      sizes.add(std::to_string(size));
  return std::string(dtypeName(dtype)) + " " + sizes.str();
}

std::string termText(const Term *term, const Program &program) {
  if (!term)
    return "1";
  std::string product;
  if (term->symbols())
    for (uint8_t position : *term->symbols())
      product += (product.empty() ? "" : " * ") +
                 program.symbols()->Get(position)->str();
  if (product.empty())
    product = std::to_string(term->mul());
  else if (term->mul() != 1)
    product += " * " + std::to_string(term->mul());
  bool sum = term->add() != 0;
  if (sum)
    product += (term->add() > 0 ? " + " : " - ") +
               std::to_string(term->add() > 0 ? term->add() : -term->add());
  if (term->div() == 1)
    return product;
  return "ceil(" + (sum ? "(" + product + ")" : product) + " / " +
         std::to_string(term->div()) + ")";
}

std::string typeText(const Buffer &buffer, const Program &program) {
  List sizes;
  if (buffer.shape())
    for (const Term *size : *buffer.shape())
      sizes.add(termText(size, program));
  return std::string(dtypeName(buffer.dtype())) + " " + sizes.str();
}

std::string gridText(const Dispatch &dispatch, const Program &program) {
  List sizes;
  for (const Term *size :
       {dispatch.grid_x(), dispatch.grid_y(), dispatch.grid_z()})
    sizes.add(termText(size, program));
  return sizes.str();
}

std::string bindingText(const Binding &binding, const Program &program) {
  switch (binding.kind()) {
  case BindingKind::Buffer:
    return plain(program.buffers()->Get(binding.index())->name());
  case BindingKind::Weight:
    return formatText("weight %u", binding.index());
  case BindingKind::LayerWeight:
    return formatText("layer weight %u", binding.index());
  case BindingKind::LayerState:
    return formatText("layer state %u", binding.index());
  }
  return "?";
}

std::string scalarText(const Scalar &scalar, const Program &program) {
  if (scalar.kind() == ScalarKind::LayerScalar)
    return formatText("layer scalar %u", scalar.index());
  return termText(scalar.term(), program);
}

std::string launchText(const Launch &launch) {
  std::string text = formatText("%u threads", launch.threads());
  if (launch.cluster() > 1)
    text += formatText(", clusters of %u", launch.cluster());
  if (launch.tensor_maps() && launch.tensor_maps()->size() != 0)
    text += formatText(", %u tensor maps", launch.tensor_maps()->size());
  if (launch.starts_early())
    text += ", starts early";
  if (launch.resident())
    text += ", resident";
  return text + formatText(", shared %u + %u bytes, %u registers, spills %u "
                           "bytes, stack %u bytes",
                           launch.dynamic_shared_bytes(),
                           launch.static_shared_bytes(), launch.registers(),
                           launch.spill_bytes(), launch.stack_bytes());
}

std::string placeText(const Weight &weight, const Artifact &index) {
  if (!index.has_weights())
    return "not stored";
  if (weight.experts() && weight.experts()->size() != 0)
    return formatText("%u ranges", weight.experts()->size());
  std::string file =
      weight.file() == -1
          ? "embedded"
          : plain(index.files()->Get(uint32_t(weight.file()))->path());
  return file +
         formatText(" at %llu + %llu",
                    static_cast<unsigned long long>(weight.range()->offset()),
                    static_cast<unsigned long long>(weight.range()->length()));
}

} // namespace k3inspect
