//===- Parse.cpp - PTX text -> decoded instructions ---------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "test/PtxSim/Program.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <set>
#include <stdexcept>

using namespace k3::ptxsim;

int k3::ptxsim::typeBytes(Type type) {
  switch (type) {
  case Type::b8: case Type::u8: case Type::s8: return 1;
  case Type::b16: case Type::u16: case Type::s16: case Type::f16: case Type::bf16: return 2;
  case Type::b64: case Type::u64: case Type::s64: case Type::f64: return 8;
  case Type::b128: return 16;
  default: return 4;
  }
}

bool k3::ptxsim::isSigned(Type type) {
  return type == Type::s8 || type == Type::s16 || type == Type::s32 || type == Type::s64;
}

namespace {

const std::map<std::string, Type> typeNames = {
    {"pred", Type::pred}, {"b8", Type::b8},   {"u8", Type::u8},   {"s8", Type::s8},     {"b16", Type::b16},
    {"u16", Type::u16},   {"s16", Type::s16}, {"b32", Type::b32}, {"u32", Type::u32},   {"s32", Type::s32},
    {"b64", Type::b64},   {"u64", Type::u64}, {"s64", Type::s64}, {"b128", Type::b128}, {"f16", Type::f16},
    {"bf16", Type::bf16}, {"f32", Type::f32}, {"f64", Type::f64}, {"f16x2", Type::f16x2}, {"bf16x2", Type::bf16x2},
    {"tf32", Type::tf32}};

const std::map<std::string, Special> specialNames = {
    {"%tid.x", Special::tidX}, {"%tid.y", Special::tidY}, {"%tid.z", Special::tidZ},
    {"%ntid.x", Special::ntidX}, {"%ntid.y", Special::ntidY}, {"%ntid.z", Special::ntidZ},
    {"%ctaid.x", Special::ctaidX}, {"%ctaid.y", Special::ctaidY}, {"%ctaid.z", Special::ctaidZ},
    {"%nctaid.x", Special::nctaidX}, {"%nctaid.y", Special::nctaidY}, {"%nctaid.z", Special::nctaidZ},
    {"%laneid", Special::laneid}, {"%warpid", Special::warpid}, {"%clock", Special::clock}, {"%clock64", Special::clock},
    {"%globaltimer", Special::clock}, {"%smid", Special::smid}, {"%nsmid", Special::nsmid},
    {"%cluster_ctarank", Special::zero}, {"%cluster_ctaid.x", Special::zero}, {"%cluster_nctarank", Special::one},
    {"%cluster_nctaid.x", Special::one},
    {"%lanemask_lt", Special::lanemaskLt}, {"%lanemask_le", Special::lanemaskLe}, {"%lanemask_gt", Special::lanemaskGt},
    {"%lanemask_ge", Special::lanemaskGe}, {"%lanemask_eq", Special::lanemaskEq}};

std::string trim(const std::string &s) {
  std::size_t a = s.find_first_not_of(" \t\r\n"), b = s.find_last_not_of(" \t\r\n");
  return a == std::string::npos ? "" : s.substr(a, b - a + 1);
}

std::vector<std::string> split(const std::string &s, char separator) {
  std::vector<std::string> out;
  int depth = 0;
  std::string part;
  for (char c : s) {
    depth += c == '{' || c == '[' || c == '(' ? 1 : c == '}' || c == ']' || c == ')' ? -1 : 0;
    if (c == separator && depth == 0) {
      out.push_back(trim(part));
      part.clear();
    } else {
      part += c;
    }
  }
  if (!trim(part).empty())
    out.push_back(trim(part));
  return out;
}

std::vector<std::string> splitWords(const std::string &s) {
  std::vector<std::string> out;
  std::string word;
  for (char c : s + " ")
    if (!std::isspace(static_cast<unsigned char>(c)))
      word += c;
    else if (!word.empty())
      out.push_back(std::move(word)), word.clear();
  return out;
}

bool isIdentifier(const std::string &s) {
  if (s.empty() || std::isdigit(static_cast<unsigned char>(s[0])))
    return false;
  return std::all_of(s.begin(), s.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '$' || c == '%'; });
}

struct Symbol {
  Space space;
  std::uint64_t address;
};

class Parser {
public:
  explicit Parser(const std::string &ptx) : source(ptx) { stripComments(); }
  std::vector<std::unique_ptr<Kernel>> run();

private:
  std::string source;
  std::uint32_t line = 1;
  std::vector<std::unique_ptr<Kernel>> kernels;
  std::unique_ptr<Kernel> kernel;
  std::map<std::string, Symbol> moduleSymbols, symbols;
  std::uint32_t moduleShared = 0;
  std::vector<unsigned char> constants;
  std::map<std::string, int> registers;
  std::map<std::string, std::uint32_t> labels;
  std::map<std::string, std::vector<std::string>> branchTables;
  std::vector<std::pair<std::size_t, std::string>> branches; ///< instruction, label
  std::string lastLabel;
  struct Scope {
    int id;
    std::set<std::string> names;
  };
  std::vector<Scope> scopes;
  int nextScope = 0;

  [[noreturn]] void fail(const std::string &what, const std::string &text) const {
    throw std::runtime_error("PTX line " + std::to_string(line) + ": " + what + ": " + text);
  }
  void stripComments();
  std::string scoped(const std::string &name) const;
  void beginKernel(const std::string &header);
  void endKernel();
  void variable(const std::string &text);
  void statement(const std::string &text);
  void instruction(std::string text);
  Operand operand(std::string text);
  Operand address(const std::string &text);
  std::uint64_t immediate(const std::string &text) const;
  int registerOf(const std::string &name);
  void decode(Instruction &in, const std::vector<std::string> &parts);
};

} // namespace

void Parser::stripComments() {
  for (std::size_t i = 0; i + 1 < source.size(); ++i)
    if (source[i] == '/' && source[i + 1] == '/') {
      for (; i < source.size() && source[i] != '\n'; ++i)
        source[i] = ' ';
    } else if (source[i] == '/' && source[i + 1] == '*') {
      std::size_t end = source.find("*/", i + 2);
      for (end = end == std::string::npos ? source.size() : end + 2; i < end; ++i)
        if (source[i] != '\n')
          source[i] = ' ';
    }
}

/// Names declared inside braces (of inline assembly) are their own.
std::string Parser::scoped(const std::string &name) const {
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope)
    if (scope->names.count(name))
      return name + "#" + std::to_string(scope->id);
  return name;
}

std::vector<std::unique_ptr<Kernel>> Parser::run() {
  std::string text;
  int depth = 0;
  for (std::size_t i = 0; i < source.size(); ++i) {
    char c = source[i];
    if (c == '\n')
      ++line;
    std::string current = trim(text);
    if (c == '\n' && (current.rfind(".version", 0) == 0 || current.rfind(".target", 0) == 0 ||
                      current.rfind(".address_size", 0) == 0)) {
      text.clear();
      continue;
    }
    if (depth == 0 && c == '{' && (current.find(".entry") != std::string::npos)) {
      beginKernel(current);
      text.clear();
    } else if (depth == 0 && c == '{' && current.empty()) {
      // Labels of a scope are its own too: find them ahead.
      Scope scope{nextScope++, {}};
      int level = 0;
      std::string word;
      for (std::size_t j = i; j < source.size(); ++j) {
        level += source[j] == '{' ? 1 : source[j] == '}' ? -1 : 0;
        if (level == 0)
          break;
        if (source[j] == ':' && source[j + 1] != ':' && source[j - 1] != ':' && isIdentifier(trim(word)))
          scope.names.insert(trim(word));
        word = source[j] == ';' || source[j] == '{' || source[j] == '}' || source[j] == ':' ? "" : word + source[j];
      }
      scopes.push_back(scope);
    } else if (depth == 0 && c == '}' && current.empty()) {
      if (scopes.empty())
        endKernel();
      else
        scopes.pop_back();
    } else if (depth == 0 && c == ';') {
      if (!current.empty())
        statement(current);
      text.clear();
    } else if (depth == 0 && c == ':' && source[i + 1] != ':' && isIdentifier(current)) {
      lastLabel = scoped(current);
      labels[lastLabel] = static_cast<std::uint32_t>(kernel->code.size());
      text.clear();
    } else {
      depth += c == '{' || c == '(' || c == '[' ? 1 : c == '}' || c == ')' || c == ']' ? -1 : 0;
      text += c;
    }
  }
  return std::move(kernels);
}

void Parser::beginKernel(const std::string &header) {
  kernel = std::make_unique<Kernel>();
  symbols = moduleSymbols;
  registers.clear();
  labels.clear();
  branches.clear();
  branchTables.clear();
  kernel->sharedBytes = moduleShared;
  std::size_t at = header.find(".entry") + 6, open = header.find('('), close = header.rfind(')');
  kernel->name = trim(header.substr(at, (open == std::string::npos ? header.size() : open) - at));
  if (open != std::string::npos) {
    std::uint32_t offset = 0;
    for (const std::string &declaration : split(header.substr(open + 1, close - open - 1), ',')) {
      std::vector<std::string> words = splitWords(declaration);
      std::uint32_t align = 0, bytes = 0, count = 1;
      std::string name = words.back();
      for (std::size_t i = 0; i < words.size(); ++i) {
        if (words[i] == ".ptr") // its alignment is that of the memory behind the pointer
          break;
        if (words[i] == ".align")
          align = static_cast<std::uint32_t>(std::stoul(words[i + 1]));
        auto type = typeNames.find(words[i].substr(words[i][0] == '.'));
        if (words[i][0] == '.' && type != typeNames.end())
          bytes = typeBytes(type->second);
      }
      if (std::size_t bracket = name.find('['); bracket != std::string::npos) {
        count = static_cast<std::uint32_t>(std::stoul(name.substr(bracket + 1)));
        name = name.substr(0, bracket);
      }
      align = std::max(align, bytes);
      offset = (offset + align - 1) / align * align;
      symbols[name] = {Space::param, offset};
      kernel->params.push_back({offset, bytes * count});
      offset += bytes * count;
    }
    kernel->paramBytes = offset;
  }
  for (const char *key : {".maxntid", ".reqntid"})
    if (std::size_t found = header.find(key); found != std::string::npos) {
      kernel->maxThreads = 1;
      for (const std::string &number : split(header.substr(found + 8, header.find_first_of(".{", found + 8) - found - 8), ','))
        kernel->maxThreads *= static_cast<std::uint32_t>(std::stoul(number));
    }
}

void Parser::endKernel() {
  if (!kernel)
    fail("unexpected }", "");
  for (auto &[at, label] : branches) {
    Instruction &in = kernel->code[at];
    auto resolve = [&](const std::string &name) {
      auto found = labels.find(name);
      if (found == labels.end())
        throw std::runtime_error("PTX line " + std::to_string(in.line) + ": no label '" + name + "'");
      return found->second;
    };
    if (in.op == Op::brx)
      for (const std::string &name : branchTables.at(label))
        in.targets.push_back(resolve(name));
    else
      in.target = resolve(label);
  }
  Instruction last;
  last.op = Op::ret;
  last.line = line;
  kernel->code.push_back(last);
  kernel->registers = static_cast<int>(registers.size());
  kernel->constants = constants;
  kernels.push_back(std::move(kernel));
}

/// `.shared .align 4 .b8 name[12]`, `.local`, `.global .align 4 .u32 name[2] = {1, 2}`.
void Parser::variable(const std::string &text) {
  std::string declaration = text, values;
  if (std::size_t equals = text.find('='); equals != std::string::npos) {
    declaration = trim(text.substr(0, equals));
    values = trim(text.substr(equals + 1));
  }
  Space space = Space::generic;
  std::uint32_t align = 1, bytes = 1;
  Type element = Type::b8;
  std::uint64_t count = 1;
  std::string name;
  std::vector<std::string> words = splitWords(declaration);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string &word = words[i];
    auto type = typeNames.find(word.substr(1));
    if (word == ".shared")
      space = Space::shared;
    else if (word == ".local")
      space = Space::local;
    else if (word == ".global" || word == ".const")
      space = Space::constant;
    else if (word == ".align")
      align = static_cast<std::uint32_t>(std::stoul(words[++i]));
    else if (word[0] == '.' && type != typeNames.end())
      element = type->second;
    else if (word[0] != '.')
      name = word;
  }
  bytes = typeBytes(element);
  align = std::max(align, bytes);
  bool external = false;
  if (std::size_t bracket = name.find('['); bracket != std::string::npos) {
    external = name[bracket + 1] == ']';
    count = external ? 0 : std::stoull(name.substr(bracket + 1));
    name = name.substr(0, bracket);
  }
  auto &table = kernel ? symbols : moduleSymbols;
  auto place = [&](std::uint32_t &end) {
    std::uint32_t at = (end + align - 1) / align * align;
    end = at + static_cast<std::uint32_t>(bytes * count);
    return at;
  };
  if (space == Space::shared) {
    // Extern memory starts after all static variables; the two together are the pitfall that nobody should build on.
    std::uint32_t &end = kernel ? kernel->sharedBytes : moduleShared;
    if (external && end > 0)
      fail("static next to dynamic shared memory", text);
    table[name] = {Space::shared, sharedBase + place(end)};
  } else if (space == Space::local) {
    table[name] = {Space::local, place(kernel->localBytes)};
  } else {
    std::uint32_t end = static_cast<std::uint32_t>(constants.size()), at = place(end);
    constants.resize(end);
    table[name] = {Space::constant, constantWindow + at};
    if (!values.empty()) {
      std::string inner = values[0] == '{' ? values.substr(1, values.size() - 2) : values;
      std::size_t i = 0;
      for (const std::string &value : split(inner, ',')) {
        std::uint64_t bits = immediate(value);
        std::memcpy(&constants[at + i++ * bytes], &bits, bytes);
      }
    }
  }
}

void Parser::statement(const std::string &text) {
  if (text[0] != '.') {
    if (!kernel)
      fail("instruction outside a kernel", text);
    instruction(text);
    return;
  }
  if (text.rfind(".reg", 0) == 0) {
    if (!scopes.empty())
      for (const std::string &name : split(text.substr(text.find(' ', 5)), ','))
        scopes.back().names.insert(name);
    return;
  }
  if (text.rfind(".branchtargets", 0) == 0) {
    for (const std::string &name : split(text.substr(14), ','))
      branchTables[lastLabel].push_back(scoped(name));
    return;
  }
  for (const char *ignored : {".pragma", ".file ", ".loc "})
    if (text.rfind(ignored, 0) == 0)
      return;
  variable(text);
}

std::uint64_t Parser::immediate(const std::string &text) const {
  if (text.size() == 10 && (text[1] == 'f' || text[1] == 'F') && text[0] == '0')
    return std::stoul(text.substr(2), nullptr, 16);
  if (text.size() == 18 && (text[1] == 'd' || text[1] == 'D') && text[0] == '0')
    return std::stoull(text.substr(2), nullptr, 16);
  bool negative = text[0] == '-';
  std::string digits = negative ? text.substr(1) : text;
  if (!digits.empty() && digits.back() == 'U')
    digits.pop_back();
  if (digits.empty() || !std::isdigit(static_cast<unsigned char>(digits[0])))
    fail("not an operand", text);
  std::size_t used = 0;
  std::uint64_t value = std::stoull(digits, &used, 0);
  if (used != digits.size())
    fail("not a number", text);
  return negative ? ~value + 1 : value;
}

int Parser::registerOf(const std::string &name) {
  auto [entry, added] = registers.try_emplace(name, static_cast<int>(registers.size()));
  return entry->second;
}

Operand Parser::operand(std::string text) {
  Operand out;
  if (text[0] == '!') {
    out.negated = true;
    text = trim(text.substr(1));
  }
  if (text == "_")
    return out;
  if (auto special = specialNames.find(text); special != specialNames.end()) {
    out.kind = Operand::Kind::special;
    out.special = special->second;
    return out;
  }
  std::string name = scoped(text);
  if (auto symbol = symbols.find(text); symbol != symbols.end()) {
    out.kind = Operand::Kind::imm;
    out.imm = symbol->second.address;
    return out;
  }
  if (text[0] == '%' || name != text) {
    if (text.find('.') != std::string::npos)
      fail("unknown special register", text);
    out.kind = Operand::Kind::reg;
    out.reg = registerOf(name);
    return out;
  }
  out.kind = Operand::Kind::imm;
  out.imm = immediate(text);
  return out;
}

Operand Parser::address(const std::string &text) {
  Operand out;
  out.kind = Operand::Kind::mem;
  std::size_t plus = text.find('+');
  Operand base = operand(trim(text.substr(0, plus)));
  if (base.kind == Operand::Kind::reg)
    out.reg = base.reg;
  else
    out.imm = base.imm;
  if (plus != std::string::npos)
    out.imm += immediate(trim(text.substr(plus + 1)));
  return out;
}

void Parser::instruction(std::string text) {
  Instruction in;
  in.line = line;
  in.text = text;
  if (text[0] == '@') {
    std::size_t end = text.find_first_of(" \t");
    std::string guard = text.substr(1, end - 1);
    in.guardNot = guard[0] == '!';
    in.guard = registerOf(scoped(guard.substr(in.guardNot)));
    text = trim(text.substr(end));
  }
  std::size_t end = text.find_first_of(" \t\n");
  std::string opcode = text.substr(0, end);
  std::string rest = end == std::string::npos ? "" : trim(text.substr(end));
  std::vector<std::string> parts = split(opcode, '.');
  if (parts[0] == "bra" || parts[0] == "brx") {
    std::vector<std::string> words = split(rest, ',');
    in.op = parts[0] == "bra" ? Op::bra : Op::brx;
    if (in.op == Op::brx)
      in.args.push_back({operand(words[0])});
    branches.push_back({kernel->code.size(), scoped(words.back())});
    kernel->code.push_back(in);
    return;
  }
  for (const std::string &arg : split(rest, ',')) {
    std::vector<Operand> values;
    if (arg[0] == '{') {
      for (const std::string &element : split(arg.substr(1, arg.size() - 2), ','))
        values.push_back(operand(element));
    } else if (arg[0] == '[') {
      std::vector<std::string> inner = split(arg.substr(1, arg.size() - 2), ',');
      values.push_back(address(inner[0]));
      for (std::size_t i = 1; i < inner.size(); ++i) {
        std::string list = inner[i][0] == '{' ? inner[i].substr(1, inner[i].size() - 2) : inner[i];
        for (const std::string &element : split(list, ','))
          values.push_back(operand(element));
      }
    } else {
      for (const std::string &element : split(arg, '|'))
        values.push_back(operand(element));
    }
    in.args.push_back(values);
  }
  decode(in, parts);
  kernel->code.push_back(in);
}

void Parser::decode(Instruction &in, const std::vector<std::string> &parts) {
  auto has = [&](const char *name) { return std::find(parts.begin(), parts.end(), name) != parts.end(); };
  const std::string &base = parts[0];
  std::vector<Type> types;
  for (const std::string &part : parts)
    if (auto type = typeNames.find(part); type != typeNames.end() && &part != &parts[0])
      types.push_back(type->second);
  if (!types.empty()) {
    in.type = types.front();
    in.source = types.back();
  }
  in.ftz = has("ftz");
  in.sat = has("sat") || has("satfinite");
  in.approx = has("approx");
  for (const char *mode : {"rz", "rzi"})
    in.round = has(mode) ? 'z' : in.round;
  for (const char *mode : {"rm", "rmi"})
    in.round = has(mode) ? 'm' : in.round;
  for (const char *mode : {"rp", "rpi"})
    in.round = has(mode) ? 'p' : in.round;
  if (has("rna"))
    in.round = 'a';
  in.vec = has("v2") ? 2 : has("v4") ? 4 : has("v8") ? 8 : 1;
  auto spaceOf = [&](std::size_t from) {
    for (std::size_t i = from; i < parts.size(); ++i) {
      if (parts[i] == "global")
        return Space::global;
      if (parts[i] == "shared" || parts[i] == "shared::cta" || parts[i] == "shared::cluster")
        return Space::shared;
      if (parts[i] == "param" || parts[i] == "param::entry")
        return Space::param;
      if (parts[i] == "local")
        return Space::local;
      if (parts[i] == "const")
        return Space::constant;
    }
    return Space::generic;
  };
  in.space = spaceOf(1);
  auto starts = [&](std::initializer_list<const char *> names) {
    std::size_t i = 0;
    for (const char *name : names)
      if (i >= parts.size() || parts[i++] != name)
        return false;
    return true;
  };

  static const std::map<std::string, Op> simple = {
      {"mov", Op::mov}, {"add", Op::add}, {"sub", Op::sub}, {"mul", Op::mul}, {"mad", Op::mad}, {"fma", Op::fma},
      {"div", Op::div}, {"rem", Op::rem}, {"abs", Op::abs}, {"neg", Op::neg}, {"min", Op::min}, {"max", Op::max},
      {"shl", Op::shl}, {"shr", Op::shr}, {"and", Op::and_}, {"or", Op::or_}, {"xor", Op::xor_}, {"not", Op::not_},
      {"lop3", Op::lop3}, {"bfe", Op::bfe}, {"bfi", Op::bfi}, {"popc", Op::popc}, {"clz", Op::clz}, {"brev", Op::brev},
      {"selp", Op::selp}, {"cvt", Op::cvt}, {"cvta", Op::cvta}, {"ld", Op::ld}, {"ldu", Op::ld}, {"st", Op::st},
      {"ex2", Op::ex2}, {"lg2", Op::lg2}, {"rcp", Op::rcp}, {"sqrt", Op::sqrt}, {"rsqrt", Op::rsqrt},
      {"tanh", Op::tanh}, {"sin", Op::sin}, {"cos", Op::cos}, {"copysign", Op::copysign}, {"ret", Op::ret},
      {"exit", Op::ret}, {"trap", Op::trap}, {"activemask", Op::activemask}, {"movmatrix", Op::movmatrix}, {"mapa", Op::mapa}};
  if (auto found = simple.find(base); found != simple.end()) {
    in.op = found->second;
    in.hi = has("hi");
    in.wide = has("wide");
    if (in.op == Op::mul || in.op == Op::mad || in.op == Op::add || in.op == Op::sub) // fused types come last
      in.type = in.source;
    if (in.op == Op::cvta)
      in.propagate = has("to");
    if (in.op == Op::ld)
      in.readOnly = has("nc");
    return;
  }
  if (base == "shf") {
    in.op = Op::shf;
    in.right = has("r");
    in.mode = has("wrap") ? "wrap" : "clamp";
  } else if (base == "prmt") {
    in.op = Op::prmt;
    in.mode = parts.size() > 2 ? parts[2] : "";
    if (!in.mode.empty())
      fail("unsupported prmt mode", in.text);
  } else if (base == "setp") {
    in.op = Op::setp;
    in.mode = parts[1];
    for (const char *name : {"and", "or", "xor"})
      if (has(name))
        in.boolean = name;
    in.type = types.back();
  } else if (base == "isspacep") {
    in.op = Op::isspacep;
  } else if (base == "atom" || base == "red") {
    in.op = Op::atom;
    for (const char *name : {"add", "min", "max", "exch", "cas", "and", "or", "xor", "inc", "dec"})
      if (has(name))
        in.mode = name;
    if (base == "red")
      in.args.insert(in.args.begin(), {Operand{}});
  } else if (base == "bar" || (base == "barrier" && parts[1] != "cluster")) {
    if (has("warp"))
      in.op = Op::bar_warp;
    else if (has("sync"))
      in.op = Op::barSync;
    else if (has("arrive"))
      in.op = Op::barArrive;
    else
      fail("unsupported barrier", in.text);
  } else if (base == "fence" && parts.size() > 2 && parts[1] == "proxy" && parts[2].rfind("async", 0) == 0) {
    in.op = Op::fenceProxyAsync;
  } else if (starts({"barrier", "cluster"}) || base == "membar" || base == "fence" || base == "griddepcontrol" ||
             base == "nanosleep" || base == "setmaxnreg" || base == "prefetch" || base == "prefetchu" ||
             base == "applypriority" || base == "discard") {
    in.op = Op::nop;
  } else if (base == "shfl") {
    in.op = Op::shfl;
    in.mode = parts[2];
  } else if (base == "vote") {
    in.op = Op::vote;
    in.mode = parts[2];
  } else if (base == "redux") {
    in.op = Op::redux;
    in.mode = parts[2];
  } else if (base == "elect") {
    in.op = Op::elect;
  } else if (base == "mma") {
    in.op = Op::mma;
    const std::string *shape = nullptr;
    for (const std::string &part : parts)
      if (part.rfind("m16n8k", 0) == 0)
        shape = &part;
    if (!shape || types.size() != 4 || !has("row") || !has("col"))
      fail("unsupported mma", in.text);
    in.m = 16;
    in.n = 8;
    in.k = std::stoi(shape->substr(6));
    in.type = types[0];
    in.a = types[1];
  } else if (base == "ldmatrix" || base == "stmatrix") {
    in.op = base == "ldmatrix" ? Op::ldmatrix : Op::stmatrix;
    in.trans = has("trans");
    in.n = has("x4") ? 4 : has("x2") ? 2 : 1;
    if (!has("m8n8") || !has("b16"))
      fail("unsupported matrix access", in.text);
  } else if (starts({"cp", "async", "commit_group"})) {
    in.op = Op::cpAsyncCommit;
  } else if (starts({"cp", "async", "wait_group"}) || starts({"cp", "async", "wait_all"})) {
    in.op = Op::cpAsyncWait;
    in.sat = has("wait_all");
  } else if (starts({"cp", "async", "mbarrier"})) {
    in.op = Op::cpAsyncArrive;
    in.noinc = has("noinc");
  } else if (starts({"cp", "async", "bulk", "commit_group"})) {
    in.op = Op::bulkCommit;
  } else if (starts({"cp", "async", "bulk", "wait_group"})) {
    in.op = Op::bulkWait;
  } else if (starts({"cp", "async", "bulk"})) {
    bool tensor = parts[3] == "tensor";
    if (has("prefetch") || has("multicast::cluster") || parts[3] == "prefetch") {
      if (!has("prefetch") && parts[3] != "prefetch")
        fail("multicast is not supported", in.text);
      in.op = Op::nop;
      return;
    }
    std::size_t at = tensor ? 5 : 3;
    bool toShared = parts[at].rfind("shared", 0) == 0;
    in.op = tensor ? toShared ? Op::tensorLoad : Op::tensorStore : toShared ? Op::bulkLoad : Op::bulkStore;
    in.n = tensor ? parts[4][0] - '0' : 1;
    for (const std::string &part : parts)
      if (part.rfind("im2col", 0) == 0 || part.rfind("tile::", 0) == 0 || part.rfind("reduce", 0) == 0)
        fail("unsupported bulk copy", in.text);
  } else if (starts({"cp", "async"})) {
    in.op = Op::cpAsync;
  } else if (base == "mbarrier") {
    const std::string &what = parts[1];
    in.expectTx = has("expect_tx");
    if (what == "init")
      in.op = Op::mbarInit;
    else if (what == "inval")
      in.op = Op::mbarInval;
    else if (what == "arrive")
      in.op = Op::mbarArrive;
    else if (what == "expect_tx")
      in.op = Op::mbarExpect;
    else if (what == "complete_tx")
      in.op = Op::mbarComplete;
    else if ((what == "try_wait" || what == "test_wait") && has("parity"))
      in.op = Op::mbarWait;
    else
      fail("unsupported mbarrier operation", in.text);
    // A form without result gets one that is dropped.
    if (in.op == Op::mbarArrive && in.args[0][0].kind == Operand::Kind::mem)
      in.args.insert(in.args.begin(), {Operand{}});
  } else if (base == "wgmma") {
    if (parts[1] == "fence") {
      in.op = Op::wgmmaFence;
    } else if (parts[1] == "commit_group") {
      in.op = Op::wgmmaCommit;
    } else if (parts[1] == "wait_group") {
      in.op = Op::wgmmaWait;
    } else {
      in.op = Op::wgmma;
      for (const std::string &part : parts)
        if (part.rfind("m64n", 0) == 0) {
          std::size_t kAt = part.find('k');
          in.n = std::stoi(part.substr(4, kAt - 4));
          in.k = std::stoi(part.substr(kAt + 1));
        }
      in.type = types[0];
      in.a = types[1];
      if (in.type != Type::f32 || in.a != Type::bf16 || in.k != 16)
        fail("unsupported wgmma", in.text);
    }
  } else {
    fail("unsupported instruction", in.text);
  }
}

std::vector<std::unique_ptr<Kernel>> k3::ptxsim::parseModule(const std::string &ptx) { return Parser(ptx).run(); }
