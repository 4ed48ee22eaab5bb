// The Vercel AI SDK over the corpus: node run.js CORPUS RESULT
//
// streamText with zod tools, which the SDK itself runs. The provider is a fetch of our own that answers with the
// case's stream, in one piece.
import { readFileSync, writeFileSync } from "node:fs";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { streamText, tool } from "ai";
import { z } from "zod";

const PACKAGES = ["ai", "@ai-sdk/openai-compatible", "@ai-sdk/anthropic"];

globalThis.AI_SDK_LOG_WARNINGS = false;

let ran = [];

function noting(name, description, inputSchema) {
  const execute = async (input) => {
    ran.push([name, input]);
    return "done";
  };
  return tool({ description, inputSchema, execute });
}

const TOOLS = {
  forecast: noting(
    "forecast",
    "Tell the weather of a city for some days.",
    z.strictObject({ city: z.string(), days: z.number().int().min(1).optional() }),
  ),
  transfer: noting(
    "transfer",
    "Pay an account.",
    // z.int() would refuse integers beyond 2^53, which the declared schema allows.
    z.strictObject({ to: z.string(), cents: z.number(), memo: z.string().optional() }),
  ),
  purge: noting(
    "purge",
    "Delete what lies in a folder, or everything.",
    z.strictObject({ folder: z.string().optional() }),
  ),
  now: noting("now", "Tell the time.", z.strictObject({})),
  scale: noting("scale", "Scale the picture.", z.strictObject({ by: z.number() })),
  count: noting("count", "Count to a number.", z.strictObject({ n: z.number() })),
};

function body(item) {
  const lines = item.events.map((event) => {
    const named = item.api === "messages" ? `event: ${JSON.parse(event).type}\n` : "";
    return `${named}data: ${event}\n\n`;
  });
  return lines.join("");
}

function model(item) {
  const fetch = async () =>
    new Response(body(item), { status: 200, headers: { "content-type": "text/event-stream" } });
  return item.api === "messages"
    ? createAnthropic({ apiKey: "none", fetch })("m")
    : createOpenAICompatible({ name: "lab", baseURL: "http://lab.invalid/v1", apiKey: "none", fetch })("m");
}

async function over(item) {
  ran = [];
  let error = null;
  try {
    const result = streamText({
      model: model(item),
      tools: TOOLS,
      prompt: "x",
      maxRetries: 0,
      maxOutputTokens: 100,
      onError: (event) => {
        error ??= event.error?.name ?? "error";
      },
    });
    for await (const part of result.fullStream) {
      if (part.type === "tool-error") error ??= part.error?.name ?? "tool-error";
      if (part.type === "tool-call" && part.invalid) error ??= part.error?.name ?? "invalid";
    }
  } catch (problem) {
    error ??= problem?.name ?? "error";
  }
  return { ran, error };
}

const [corpus, target] = process.argv.slice(2);
const cases = {};
for (const item of JSON.parse(readFileSync(corpus, "utf-8"))) {
  cases[item.name] = await over(item);
}
const versions = Object.fromEntries(
  PACKAGES.map((name) => [name, JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf-8")).version]),
);
writeFileSync(target, JSON.stringify({ versions, cases }));
