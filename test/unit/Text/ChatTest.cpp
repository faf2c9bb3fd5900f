//===- ChatTest.cpp - messages to prompt tokens -------------------------===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/src/text/Chat.h"

#include "runtime/src/text/PythonJson.h"
#include "test/unit/Text/TestTokenizer.h"

#include "gtest/gtest.h"

using namespace k3rt;
using namespace k3rt::test;

namespace {
ChatOptions plain() {
  ChatOptions options;
  options.thinking = false;
  options.generationPrompt = false;
  return options;
}

/// The rendered conversation as one text; control tokens by name.
std::string render(ChatFormat format, const std::string &json,
                   const ChatOptions &options = plain()) {
  std::vector<ChatSegment> segments;
  std::string error, text;
  EXPECT_TRUE(renderChat(format, json, options, segments, error)) << error;
  for (const ChatSegment &segment : segments)
    text += segment.text;
  return text;
}
std::string k3(const std::string &json, const ChatOptions &options = plain()) {
  return render(ChatFormat::kimiK3, json, options);
}
std::string k2(const std::string &json, const ChatOptions &options = plain()) {
  return render(ChatFormat::kimiK2, json, options);
}
std::string chatError(const std::string &json,
                      ChatFormat format = ChatFormat::kimiK3) {
  std::vector<ChatSegment> segments;
  std::string error;
  EXPECT_FALSE(renderChat(format, json, {}, segments, error)) << json;
  EXPECT_TRUE(segments.empty());
  EXPECT_EQ(error.find('\n'), std::string::npos);
  return error;
}

std::string tag(const std::string &text) { return "<|open|>" + text + "<|sep|>"; }
std::string end(const std::string &text) { return "<|close|>" + text + "<|sep|>"; }
const std::string endMessage = end("message") + "<|end_of_msg|>";

TEST(Chat, FormatFollowsFromTheSpecials) {
  EXPECT_EQ(detectChatFormat(modelTokenizer("k3-nano")), ChatFormat::kimiK3);
  EXPECT_EQ(detectChatFormat(modelTokenizer("kimi-linear-nano")),
            ChatFormat::kimiK2);
  OwnedTokenizer none = makeTokenizer(byteTokenizerData());
  EXPECT_EQ(detectChatFormat(*none.tokenizer), std::nullopt);
  std::vector<int32_t> ids;
  std::string error;
  EXPECT_FALSE(encodeChat(*none.tokenizer, "[]", {}, ids, error));
  EXPECT_NE(error.find("no chat format"), std::string::npos);
  EXPECT_EQ(chatStopId(modelTokenizer("k3-nano"), ChatFormat::kimiK3), 4098);
  EXPECT_EQ(chatStopId(modelTokenizer("kimi-linear-nano"), ChatFormat::kimiK2),
            4098);
}

TEST(ChatK3, RolesAndNames) {
  EXPECT_EQ(
      k3(R"([{"role":"system","content":"Be kind."},
             {"role":"user","name":"A \"&\" B","content":"Hi"},
             {"role":"assistant","content":"Hello"},
             {"role":"developer","content":null}])"),
      tag("message role=\"system\"") + "Be kind." + endMessage +
          tag("message role=\"user\" name=\"A &quot;&amp;&quot; B\"") + "Hi" +
          endMessage + tag("message role=\"assistant\"") + tag("response") +
          "Hello" + end("response") + endMessage +
          tag("message role=\"system\"") + endMessage);
}

// Tag, key, =", value, " are encoded one by one: joined they would give other
// tokens.
TEST(ChatK3, SegmentsAreEncodedOneByOne) {
  const Tokenizer &tokenizer = modelTokenizer("k3-nano");
  std::vector<int32_t> ids, wanted;
  std::string error;
  ASSERT_TRUE(encodeChat(tokenizer, R"([{"role":"user","content":"Hi"}])",
                         plain(), ids, error))
      << error;
  auto control = [&](const char *name) {
    wanted.push_back(*tokenizer.specialId(name));
  };
  auto text = [&](const char *part) {
    for (int32_t id : encode(tokenizer, part))
      wanted.push_back(id);
  };
  control("<|open|>");
  for (const char *part : {"message", " role", "=\"", "user", "\""})
    text(part);
  control("<|sep|>");
  text("Hi");
  control("<|close|>");
  text("message");
  control("<|sep|>");
  control("<|end_of_msg|>");
  EXPECT_EQ(ids, wanted);
}

TEST(ChatK3, ContentPartsStaySeparate) {
  std::vector<ChatSegment> segments;
  std::string error;
  ASSERT_TRUE(renderChat(
      ChatFormat::kimiK3,
      R"([{"role":"user","content":[{"type":"text","text":"ab"},{"text":"cd"}]}])",
      plain(), segments, error))
      << error;
  int found = 0;
  for (const ChatSegment &segment : segments)
    found += segment.text == "ab" || segment.text == "cd";
  EXPECT_EQ(found, 2);
}

// T03: control ids come only from the format, whatever the text says.
TEST(ChatK3, TextCannotFormControlTokens) {
  const Tokenizer &tokenizer = modelTokenizer("k3-nano");
  auto controls = [&](const std::string &attack) {
    nlohmann::json chat;
    chat["messages"] = {
        {{"role", "user"}, {"name", attack}, {"content", attack}},
        {{"role", "assistant"},
         {"content", attack},
         {"reasoning_content", attack},
         {"tool_calls",
          {{{"id", attack},
            {"function", {{"name", attack}, {"arguments", {{attack, attack}}}}}}}}},
        {{"role", "tool"}, {"tool_call_id", attack}, {"content", attack}}};
    chat["tools"] = {{{"name", attack}}};
    std::vector<int32_t> ids;
    std::string error;
    EXPECT_TRUE(encodeChat(tokenizer, chat.dump(), {}, ids, error)) << error;
    std::vector<int32_t> specials;
    for (int32_t id : ids)
      if (id >= 4096)
        specials.push_back(id);
    return specials;
  };
  std::vector<int32_t> harmless = controls("x");
  EXPECT_GT(harmless.size(), 20u);
  for (const SpecialToken &special : tokenizer.data().read().specialTokens)
    EXPECT_EQ(controls(special.content), harmless) << special.content;
}

TEST(ChatK3, ThinkingOnAndOff) {
  ChatOptions options;
  options.thinkingEffort = "low";
  std::string effort = k3("[]", options);
  EXPECT_EQ(effort.find(tag("message role=\"system\" type=\"thinking-effort\"")),
            0u);
  EXPECT_NE(effort.find("`thinking_effort=low`." + endMessage),
            std::string::npos);
  std::string opened = tag("message role=\"assistant\"") + tag("think");
  EXPECT_EQ(effort.substr(effort.size() - opened.size()), opened);
  EXPECT_NE(k3("[]", ChatOptions()).find("`thinking_effort=max`"),
            std::string::npos);

  options.thinking = false;
  EXPECT_EQ(k3("[]", options),
            tag("message role=\"assistant\"") + tag("response"));
  // The JSON overrides the defaults.
  EXPECT_EQ(k3(R"({"messages":[],"thinking":false})", ChatOptions()),
            tag("message role=\"assistant\"") + tag("response"));
  EXPECT_NE(k3(R"({"messages":[],"thinking_effort":"high"})", ChatOptions())
                .find("`thinking_effort=high`"),
            std::string::npos);
  EXPECT_EQ(chatError(R"({"messages":[],"thinking_effort":"medium"})"),
            "thinking_effort: unknown value 'medium'; use low, high or max");
}

TEST(ChatK3, ContinuationHasNoPreamble) {
  ChatOptions options = plain();
  options.thinking = true;
  options.preamble = false;
  EXPECT_EQ(k3(R"({"messages":[{"role":"user","content":"U"}],
                   "tools":[{"name":"f"}]})",
               options),
            tag("message role=\"user\"") + "U" + endMessage);
}

TEST(ChatK3, ReasoningHasItsOwnTag) {
  ChatOptions options = plain();
  options.thinking = true;
  auto body = [&](const char *message) {
    std::string text = k3(std::string("[") + message + "]", options);
    return text.substr(text.find(tag("message role=\"assistant\"")));
  };
  std::string head = tag("message role=\"assistant\"") + tag("think");
  std::string tail = end("think") + tag("response") + "B" + end("response") +
                     endMessage;
  EXPECT_EQ(body(R"({"role":"assistant","content":"B",
                     "reasoning_content":" A\n"})"),
            head + " A\n" + tail);
  EXPECT_EQ(body(R"({"role":"assistant","content":"B","reasoning":"A"})"),
            head + "A" + tail);
  EXPECT_EQ(body(R"({"role":"assistant","content":"B",
                     "reasoning_content":" \n "})"),
            head + tail);
  EXPECT_EQ(body(R"({"role":"assistant","content":"B"})"), head + tail);
}

TEST(ChatK3, ToolDeclarationsHaveSortedKeys) {
  std::string json = R"([{"function":{"a":1,"name":"f","z":{"c":[1.5,null,true],)"
                     R"("d":"é\n"}},"type":"function"}])";
  std::string shuffled =
      R"([ {"type":"function", "function":{"z":{"d":"\u00e9\n",)"
      R"("c":[1.5,null,true]},"name":"f","a":1}} ])";
  EXPECT_EQ(k3("{\"messages\":[],\"tools\":" + shuffled + "}"),
            tag("message role=\"system\" type=\"tool-declare\"") +
                "# Tools\nHere are the available tools, described in "
                "JSONSchema.\n\n```json\n" +
                json + "\n```" + endMessage);
  std::string further =
      k3("[{\"role\":\"system\",\"content\":\"C\",\"tools\":" + shuffled + "}]");
  EXPECT_NE(further.find("## New Tools Available\n"), std::string::npos);
  EXPECT_NE(further.find("```json\n" + json + "\n```" + endMessage +
                         tag("message role=\"system\"") + "C" + endMessage),
            std::string::npos);
}

TEST(ChatK3, ArgumentsKeepOrderTypeAndSpelling) {
  auto call = [](const std::string &arguments) {
    std::string text = k3(
        R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":)" +
        arguments + "}}]}]");
    std::string head = tag("call tool=\"f\" index=\"1\"");
    size_t start = text.find(head) + head.size();
    return text.substr(start, text.find(end("call")) - start);
  };
  auto argument = [](const char *key, const char *type, const char *value) {
    return tag(std::string("argument key=\"") + key + "\" type=\"" + type +
               "\"") +
           value + end("argument");
  };
  // As text: the spelling of the values stays.
  EXPECT_EQ(
      call(R"("{ \"z\" : 1e2, \"a\":\"x\\ny\", \"o\":{\"k\":[1,2]}, \"l\": [ \"]\" ],)"
           R"( \"b\":true, \"n\":null, \"m\":-0.50 }")"),
      argument("z", "number", "1e2") + argument("a", "string", "x\ny") +
          argument("o", "object", "{\"k\":[1,2]}") +
          argument("l", "array", "[ \"]\" ]") +
          argument("b", "boolean", "true") + argument("n", "null", "null") +
          argument("m", "number", "-0.50"));
  // As an object: written as Python does.
  EXPECT_EQ(call(R"({"o":{"k":[1,2.0]},"s":"t"})"),
            argument("o", "object", "{\"k\": [1, 2.0]}") +
                argument("s", "string", "t"));
  EXPECT_EQ(call("null"), "");
  EXPECT_EQ(call("\" \""), "");
  EXPECT_EQ(call("\"{}\""), "");
  EXPECT_EQ(call("\"\xEF\xBB\xBF{\\\"a\\\":1}\""), argument("a", "number", "1"));
  EXPECT_EQ(call(R"(" {\"a\": ")"),
            tag("json type=\"object\"") + " {\"a\": " + end("json"));
}

TEST(ChatK3, ToolResultsFollowTheOrderOfTheCalls) {
  std::string calls = R"({"role":"assistant","content":"c","tool_calls":[
      {"id":"1","function":{"name":"f","arguments":"{}"}},
      {"id":"2","function":{"name":"g","arguments":"{}"}}]})";
  auto results = [&](const std::string &messages) {
    std::string text = k3("[" + calls + "," + messages + "]");
    return text.substr(text.find(endMessage) + endMessage.size());
  };
  auto result = [](const char *tool, const char *index, const char *text) {
    return tag(std::string("message role=\"tool\" tool=\"") + tool +
               "\" index=\"" + index + "\"") +
           text + endMessage;
  };
  EXPECT_EQ(results(R"({"role":"tool","tool_call_id":"2","content":"b"},
                       {"role":"tool","tool_call_id":"1","content":"a"})"),
            result("f", "1", "a") + result("g", "2", "b"));
  // Not all ids match: order kept, names from the message or by place.
  EXPECT_EQ(results(R"({"role":"tool","tool_call_id":"9","content":"b"},
                       {"role":"tool","name":"h","content":"a"})"),
            result("f", "1", "b") + result("h", "2", "a"));
  EXPECT_EQ(chatError(R"([{"role":"tool","content":"a"}])"),
            "message 1: cannot tell which tool this result is from; give it "
            "'name' or the 'tool_call_id' of a call");
}

TEST(ChatK3, ChoiceAndFormatComeAfterTheConversation) {
  std::string text = k3(R"({"messages":[{"role":"user","content":"U"}],
      "tool_choice":"required","response_format":{"type":"json_schema",
      "json_schema":{"schema":{"b":1,"a":2}}}})");
  size_t user = text.find("role=\"user\"");
  size_t choice = text.find("type=\"tool-choice\"");
  size_t format = text.find("type=\"response-format\"");
  EXPECT_LT(user, choice);
  EXPECT_LT(choice, format);
  EXPECT_NE(text.find("MUST call tools in the next message."),
            std::string::npos);
  EXPECT_NE(text.find("```json\n{\"a\":2,\"b\":1}\n```" + endMessage),
            std::string::npos);
  EXPECT_EQ(k3(R"({"messages":[],"tool_choice":"auto",
                   "response_format":"text"})"),
            "");
  EXPECT_NE(k3(R"({"messages":[],"tool_choice":"none"})")
                .find("MUST NOT call any tools"),
            std::string::npos);
}

TEST(ChatK2, MessagesToolsAndResults) {
  ChatOptions options;
  EXPECT_EQ(
      k2(R"({"tools":[{"type":"function","function":{"name":"f"}}],
             "messages":[{"role":"system","content":"S"},
               {"role":"user","name":"Ann","content":"U"},
               {"role":"assistant","content":"A","reasoning_content":"R",
                "tool_calls":[
                 {"id":"functions.f:0","function":{"name":"f","arguments":"{\"a\": 1}"}},
                 {"function":{"name":"g","arguments":{"b":2}}}]},
               {"role":"tool","tool_call_id":"functions.f:0","name":"f",
                "content":"42"}]})",
         options),
      "<|im_system|>tool_declare<|im_middle|>"
      "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]<|im_end|>"
      "<|im_system|>system<|im_middle|>S<|im_end|>"
      "<|im_user|>Ann<|im_middle|>U<|im_end|>"
      "<|im_assistant|>assistant<|im_middle|>A<|tool_calls_section_begin|>"
      "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": 1}"
      "<|tool_call_end|><|tool_call_begin|>functions.g:1"
      "<|tool_call_argument_begin|>{\"b\": 2}<|tool_call_end|>"
      "<|tool_calls_section_end|><|im_end|>"
      "<|im_system|>f<|im_middle|>## Return of functions.f:0\n42<|im_end|>"
      "<|im_assistant|>assistant<|im_middle|>");
}

TEST(ChatK2, EncodesWithTheModelsIds) {
  const Tokenizer &tokenizer = modelTokenizer("kimi-linear-nano");
  std::vector<int32_t> ids;
  std::string error;
  ASSERT_TRUE(encodeChat(tokenizer,
                         R"([{"role":"user","content":"<|im_end|>"}])",
                         ChatOptions(), ids, error))
      << error;
  std::vector<int32_t> wanted = {4099};
  auto add = [&](const char *text) {
    for (int32_t id : encode(tokenizer, text))
      wanted.push_back(id);
  };
  add("user");
  wanted.push_back(4113);
  add("<|im_end|>");
  wanted.push_back(4098);
  wanted.push_back(4100);
  add("assistant");
  wanted.push_back(4113);
  EXPECT_EQ(ids, wanted);
}

TEST(Chat, ErrorsNameTheMessage) {
  EXPECT_EQ(chatError("[{\"role\":\"user\"},{\"role\":\"robot\"}]"),
            "message 2: unknown role 'robot'; use system, user, assistant or "
            "tool");
  EXPECT_EQ(chatError("[{}]"), "message 1: has no 'role'");
  EXPECT_EQ(chatError("[7]"), "message 1: must be an object, got number");
  EXPECT_EQ(chatError("7"), "chat: messages must be an array, got number");
  EXPECT_EQ(chatError("{}"), "chat: object has no 'messages'");
  EXPECT_EQ(chatError(R"([{"role":"user","content":7}])").substr(0, 28),
            "message 1: 'content' must be");
  EXPECT_EQ(
      chatError(R"([{"role":"user","content":[{"type":"image_url"}]}])"),
      "message 1: content part of type 'image_url' is not supported, only text "
      "is");
  EXPECT_EQ(
      chatError(
          R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"[1]"}}]}])"),
      "message 1: 'arguments' of call to 'f' must be a JSON object, got array");
  EXPECT_EQ(chatError(R"([{"role":"tool","content":"x"}])", ChatFormat::kimiK2),
            "message 1: a tool message needs 'tool_call_id'");
  EXPECT_EQ(chatError("[{\"role\":").substr(0, 34),
            "chat: not valid JSON at byte 9: un");
  EXPECT_NE(chatError("[\"\xFF\"]").find("not valid JSON"), std::string::npos);
  EXPECT_NE(chatError("[\"\\ud800\"]").find("not valid JSON"),
            std::string::npos);
  EXPECT_EQ(chatError(std::string(100000, '[')),
            "chat: JSON is more than 200 levels deep");
  std::string keys = "{";
  for (int i = 0; i < 5000; ++i)
    keys += "\"" + std::to_string(i) + "\":{},";
  EXPECT_EQ(chatError(keys + "\"x\":0}"),
            "chat: a JSON object has more than 4096 keys");
  EXPECT_EQ(chatError(std::string("[]\0x", 4)),
            "chat: not valid JSON at byte 2: NUL character");
}

// Expected texts are those of Python's json.dumps(..., ensure_ascii=False).
TEST(PythonJson, WritesAsPythonDoes) {
  struct {
    const char *json, *spaced;
  } cases[] = {
      {"[1,-2,1.0,1e2,0.1,1e15,1e16,1.5e22,1e-4,1e-5,0.0,-0.0]",
       "[1, -2, 1.0, 100.0, 0.1, 1000000000000000.0, 1e+16, 1.5e+22, 0.0001, "
       "1e-05, 0.0, -0.0]"},
      {R"({"b":null,"a":[true,false,{}],"c":[]})",
       R"({"b": null, "a": [true, false, {}], "c": []})"},
      {R"("\u00e9\u4e2d\"\\\/\b\f\n\r\t\u0001\u007f")",
       "\"é中\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\x7f\""},
      {"18446744073709551615", "18446744073709551615"},
      {"[1.7976931348623157e308,5e-324]",
       "[1.7976931348623157e+308, 5e-324]"},
  };
  for (auto &test : cases) {
    Json value;
    std::string error;
    ASSERT_TRUE(parseJson(test.json, value, error)) << error;
    EXPECT_EQ(dumpJson(value, JsonStyle::spaced), test.spaced);
  }
  Json value;
  std::string error;
  ASSERT_TRUE(parseJson(R"({"b":[1,2],"a":"x"})", value, error));
  EXPECT_EQ(dumpJson(sortKeys(value), JsonStyle::compact),
            R"({"a":"x","b":[1,2]})");
}
} // namespace
